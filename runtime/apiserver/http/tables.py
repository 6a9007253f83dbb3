"""Tables, as `kubectl get` asks for them: which printer a kind has, and metav1.Table around its cells.

Source: kubernetes v1.36 pkg/printers/internalversion/printers.go (AddHandlers), apiserver
pkg/registry/rest/table.go (kinds without a printer) and pkg/endpoints/handlers/response.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from protocols.objects import Object, metadata
from runtime.apiserver.kinds.printing import access, cluster, network, pods, policies, storage, workloads
from runtime.apiserver.kinds.printing.columns import AGE, NAME, Column, Printer, age_cell, name_cell

_NAME_AND_AGE = Printer((NAME, AGE), lambda obj, now: [name_cell(obj), age_cell(obj, now)])
_NAME_AND_TIME = Printer(
    (NAME, Column("Created At", "date")),
    lambda obj, _now: [name_cell(obj), metadata(obj).get("creationTimestamp") or "<unknown>"],
)

# By group and kind; what a kind looks like does not depend on its version, but for those in _OF_VERSION.
PRINTERS: Mapping[tuple[str, str], Printer] = {
    ("", "Pod"): pods.POD,
    ("", "PodTemplate"): pods.POD_TEMPLATE,
    ("", "ReplicationController"): workloads.REPLICATION_CONTROLLER,
    ("apps", "ReplicaSet"): workloads.REPLICA_SET,
    ("apps", "Deployment"): workloads.DEPLOYMENT,
    ("apps", "StatefulSet"): workloads.STATEFUL_SET,
    ("apps", "DaemonSet"): workloads.DAEMON_SET,
    ("apps", "ControllerRevision"): workloads.CONTROLLER_REVISION,
    ("batch", "Job"): workloads.JOB,
    ("batch", "CronJob"): workloads.CRON_JOB,
    ("", "Node"): cluster.NODE,
    ("", "Namespace"): cluster.NAMESPACE,
    ("", "Event"): cluster.EVENT,
    ("events.k8s.io", "Event"): cluster.EVENT,
    ("coordination.k8s.io", "Lease"): cluster.LEASE,
    ("coordination.k8s.io", "LeaseCandidate"): cluster.LEASE_CANDIDATE,
    ("", "ConfigMap"): cluster.CONFIG_MAP,
    ("", "Secret"): cluster.SECRET,
    ("", "ServiceAccount"): _NAME_AND_AGE,
    ("", "ComponentStatus"): cluster.COMPONENT_STATUS,
    ("", "Service"): network.SERVICE,
    ("", "Endpoints"): network.ENDPOINTS,
    ("discovery.k8s.io", "EndpointSlice"): network.ENDPOINT_SLICE,
    ("networking.k8s.io", "Ingress"): network.INGRESS,
    ("networking.k8s.io", "IngressClass"): network.INGRESS_CLASS,
    ("networking.k8s.io", "NetworkPolicy"): network.NETWORK_POLICY,
    ("networking.k8s.io", "ServiceCIDR"): network.SERVICE_CIDR,
    ("networking.k8s.io", "IPAddress"): network.IP_ADDRESS,
    ("", "PersistentVolume"): storage.PERSISTENT_VOLUME,
    ("", "PersistentVolumeClaim"): storage.PERSISTENT_VOLUME_CLAIM,
    ("storage.k8s.io", "StorageClass"): storage.STORAGE_CLASS,
    ("storage.k8s.io", "VolumeAttributesClass"): storage.VOLUME_ATTRIBUTES_CLASS,
    ("storage.k8s.io", "VolumeAttachment"): storage.VOLUME_ATTACHMENT,
    ("storage.k8s.io", "CSINode"): storage.CSI_NODE,
    ("storage.k8s.io", "CSIDriver"): storage.CSI_DRIVER,
    ("storage.k8s.io", "CSIStorageCapacity"): storage.CSI_STORAGE_CAPACITY,
    ("resource.k8s.io", "DeviceClass"): _NAME_AND_AGE,
    ("resource.k8s.io", "ResourceClaim"): storage.RESOURCE_CLAIM,
    ("resource.k8s.io", "ResourceClaimTemplate"): _NAME_AND_AGE,
    ("resource.k8s.io", "ResourceSlice"): storage.RESOURCE_SLICE,
    ("policy", "PodDisruptionBudget"): policies.POD_DISRUPTION_BUDGET,
    ("", "ResourceQuota"): policies.RESOURCE_QUOTA,
    ("scheduling.k8s.io", "PriorityClass"): policies.PRIORITY_CLASS,
    ("node.k8s.io", "RuntimeClass"): policies.RUNTIME_CLASS,
    ("autoscaling", "HorizontalPodAutoscaler"): policies.AUTOSCALER,
    ("autoscaling", "Scale"): policies.SCALE,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): policies.WEBHOOKS,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): policies.WEBHOOKS,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): policies.VALIDATING_POLICY,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): policies.POLICY_BINDING,
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): policies.MUTATING_POLICY,
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): policies.POLICY_BINDING,
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): policies.FLOW_SCHEMA,
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"): policies.PRIORITY_LEVEL,
    ("rbac.authorization.k8s.io", "RoleBinding"): access.BINDING,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): access.BINDING,
    ("certificates.k8s.io", "CertificateSigningRequest"): access.SIGNING_REQUEST,
    ("certificates.k8s.io", "ClusterTrustBundle"): access.TRUST_BUNDLE,
}
_OF_VERSION = {("autoscaling/v1", "HorizontalPodAutoscaler"): policies.AUTOSCALER_V1}


def printer_for(api_version: str, kind: str, *, custom: bool = False) -> Printer:
    """custom: the kind came with a CustomResourceDefinition; then its age is shown, else the time of its creation."""
    found = _OF_VERSION.get((api_version, kind)) or PRINTERS.get((api_version.rpartition("/")[0], kind))
    return found or (_NAME_AND_AGE if custom else _NAME_AND_TIME)


def column_definitions(printer: Printer) -> list[dict[str, Any]]:
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": "",
            "priority": column.priority,
        }
        for column in printer.columns
    ]


def partial_metadata(obj: Object, version: str = "v1") -> dict[str, Any]:
    """The object as metav1.PartialObjectMetadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}", "metadata": metadata(obj)}


def table_row(printer: Printer, obj: Object, *, now: float, include: str, version: str = "v1") -> dict[str, Any]:
    """include: how much of the object comes along: "None", "Metadata" or "Object"."""
    row: dict[str, Any] = {"cells": printer.cells(obj, now)}
    conditions = pods.pod_completion(obj) if printer is pods.POD else []
    if conditions:
        row["conditions"] = conditions
    row["object"] = obj if include == "Object" else None if include == "None" else partial_metadata(obj, version)
    return row


def table(
    printer: Printer,
    rows: Sequence[Mapping[str, Any]],
    list_meta: Mapping[str, Any],
    *,
    version: str = "v1",
    with_columns: bool = True,
) -> dict[str, Any]:
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": list_meta,
        "columnDefinitions": column_definitions(printer) if with_columns else [],
        "rows": rows,
    }
