"""System objects: APIServices of the served groups, and the two system priority classes.

Missing objects are created; existing objects are not changed. APIServices of versions that are no longer served are
removed.

Source: kubernetes pkg/controlplane/apiserver/aggregator.go and cmd/kube-apiserver/app/aggregator.go (priorities),
pkg/registry/scheduling/rest/storage_scheduling.go, pkg/apis/scheduling/v1/helpers.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kcm.protocols.objects import Object, decode_object, labels_of
from kcm.runtime.apiserver.bootstrap.metrics import metrics_api_service, serves_metrics
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.verbs.create import create_object

# Group → priority of the group. Versions have priority 15, except those in _VERSIONS.
_GROUPS: Mapping[str, int] = {
    "": 18_000,
    "apps": 17_800,
    "events.k8s.io": 17_750,
    "authentication.k8s.io": 17_700,
    "authorization.k8s.io": 17_600,
    "autoscaling": 17_500,
    "batch": 17_400,
    "certificates.k8s.io": 17_300,
    "networking.k8s.io": 17_200,
    "policy": 17_100,
    "rbac.authorization.k8s.io": 17_000,
    "storage.k8s.io": 16_800,
    "apiextensions.k8s.io": 16_700,
    "admissionregistration.k8s.io": 16_700,
    "scheduling.k8s.io": 16_600,
    "coordination.k8s.io": 16_500,
    "node.k8s.io": 16_300,
    "discovery.k8s.io": 16_200,
    "resource.k8s.io": 16_200,
    "flowcontrol.apiserver.k8s.io": 16_100,
}
_VERSIONS: Mapping[tuple[str, str], int] = {
    ("", "v1"): 1,
    ("autoscaling", "v2"): 30,
    ("certificates.k8s.io", "v1beta1"): 9,
    ("flowcontrol.apiserver.k8s.io", "v1"): 21,
    ("resource.k8s.io", "v1"): 21,
}
_MANAGED, _AT_START = "kube-aggregator.kubernetes.io/automanaged", "onstart"
_PRIORITIES = {
    "system-node-critical": (
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    "system-cluster-critical": (
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
}


def create_system_objects(cluster: Cluster) -> None:
    for group, version, plural, objects in (
        ("apiregistration.k8s.io", "v1", "apiservices", _api_services(cluster)),
        ("scheduling.k8s.io", "v1", "priorityclasses", _priority_classes()),
    ):
        definition = cluster.registry.find(group, version, plural)
        if definition is None:
            continue
        stored = cluster.state.collection(definition.storage)
        wanted = list(objects)
        if plural == "apiservices":
            _remove_others(cluster, definition, {obj["metadata"]["name"] for obj in wanted})
        for obj in wanted:
            if stored.get(obj["metadata"]["name"]) is None:
                head = {"kind": definition.kind, "apiVersion": definition.api_version}
                create_object(cluster, definition, {**head, **obj})
                if "status" in obj:
                    _add_status(cluster, definition, obj)


def _remove_others(cluster: Cluster, definition: ResourceDefinition, wanted: set[str]) -> None:
    """Remove the APIServices of versions that only an earlier run of the server served."""
    for name, record in list(cluster.state.collection(definition.storage).records.items()):
        stored = decode_object(record.raw)
        if name not in wanted and labels_of(stored).get(_MANAGED) == _AT_START:
            cluster.state.remove(definition.storage, name, stored)


def _add_status(cluster: Cluster, definition: ResourceDefinition, obj: Object) -> None:
    """Store the status of an APIService, which create_object drops."""
    name = obj["metadata"]["name"]
    record = cluster.state.get(definition.storage, name)
    assert record is not None
    cluster.state.put(definition.storage, name, {**decode_object(record.raw), "status": obj["status"]})


def _api_services(cluster: Cluster) -> Iterator[Object]:
    served = {(definition.group, definition.version) for definition in cluster.registry if not definition.dynamic}
    for group, version in sorted(served):
        if group in _GROUPS:
            of_version = _VERSIONS.get((group, version), 15)
            priorities = {"groupPriorityMinimum": _GROUPS[group], "versionPriority": of_version}
            meta = {"name": f"{version}.{group}", "labels": {_MANAGED: _AT_START}}
            named = {"group": group} if group else {}
            yield {"metadata": meta, "spec": {**named, "version": version, **priorities}}
    if serves_metrics(cluster):
        yield metrics_api_service(cluster)


def _priority_classes() -> Iterator[Object]:
    for name, (value, description) in _PRIORITIES.items():
        yield {"metadata": {"name": name}, "value": value, "description": description}
