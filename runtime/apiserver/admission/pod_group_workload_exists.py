"""PodGroupWorkloadExists: reject PodGroups whose Workload or template does not exist.

Source: kubernetes plugin/pkg/admission/podgroup/admission.go (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object, decode_object, is_deleting, make_key, namespace_of
from kcm.runtime.apiserver.admission.refusal import forbidden
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition

WORKLOADS, GROUPS = "workloads.scheduling.k8s.io", "podgroups.scheduling.k8s.io"


def check_create(cluster: Cluster, definition: ResourceDefinition, group: Object) -> None:
    """Check that the Workload of a new PodGroup exists and has the referenced template. Raises StatusError (403)."""
    reference = (group["spec"].get("podGroupTemplateRef") or {}).get("workload")
    if reference is None:
        return
    name, template = reference["workloadName"], reference["podGroupTemplateName"]
    record = cluster.state.get(WORKLOADS, make_key(namespace_of(group), name))
    workload = None if record is None else decode_object(record.raw)
    if workload is None:
        because = f'Workload "{name}" not found'
    elif is_deleting(workload):
        because = f'Workload "{name}" is being deleted'
    elif all(pod_group.get("name") != template for pod_group in workload["spec"].get("podGroupTemplates") or ()):
        because = f'PodGroupTemplate "{template}" not found in Workload "{name}"'
    else:
        return
    raise forbidden(definition.group, definition.plural, group, f"PodGroup rejected: {because}")
