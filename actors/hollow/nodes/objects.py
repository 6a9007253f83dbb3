"""Objects that a hollow kubelet writes: its Node, the status of the Node, and its Lease.

Source: kubernetes v1.36 pkg/kubelet/kubelet_node_status.go, nodestatus/setters.go;
component-helpers/apimachinery/lease/controller.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kcm.actors.hollow.nodes.fleet import REGION, HollowNode
from kcm.protocols.conditions import find_condition
from kcm.protocols.hollow_nodes import RUNTIME
from kcm.protocols.objects import Object, name_of, uid_of
from kcm.protocols.times import format_micro_time, format_time

LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40

Condition = tuple[str, str, str, str]  # type, status, reason, message
_PRESSURES = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)
_READY = ("Ready", "True", "KubeletReady", "kubelet is posting ready status")
_NOT_READY = ("Ready", "False", "KubeletNotReady", "container runtime is down")


def default_labels(hollow: HollowNode) -> dict[str, str]:
    return {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": hollow.name,
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/region": REGION,
        "topology.kubernetes.io/zone": hollow.zone,
    }


def machine_status(hollow: HollowNode) -> Object:
    """Return the parts of the status that do not change while the node runs, which are all but its conditions."""
    resources = {
        "cpu": hollow.cpu,
        "ephemeral-storage": "512Gi",
        "memory": hollow.memory,
        "pods": str(hollow.pods),
    }
    return {
        "addresses": [
            {"type": "InternalIP", "address": hollow.address},
            {"type": "Hostname", "address": hollow.name},
        ],
        "allocatable": resources,
        "capacity": resources,
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": f"boot-of-{hollow.name}",
            "containerRuntimeVersion": f"{RUNTIME}1.36.0",
            "kernelVersion": "hollow",
            "kubeProxyVersion": "",
            "kubeletVersion": "v1.36.0",
            "machineID": f"machine-of-{hollow.name}",
            "operatingSystem": "linux",
            "osImage": "Hollow Linux",
            "systemUUID": f"system-of-{hollow.name}",
        },
    }


def new_node(hollow: HollowNode, *, now: float) -> Object:
    """Return the Node that a kubelet registers. now: Unix seconds."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": hollow.name,
            "labels": default_labels(hollow),
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "spec": {},
        "status": {**machine_status(hollow), "conditions": _conditions({}, (*_PRESSURES, _READY), now=now)},
    }


def status_changes(
    node: Object, machine: Mapping[str, Any], *, now: float, heartbeat: bool, ready: bool = True
) -> Object:
    """Return the fields of the node status to write; {} if there is nothing to write.

    Without a heartbeat, conditions are written only if one of them differs from the kubelet's (for example Ready is
    Unknown because node-lifecycle considered the node lost).

    machine: see machine_status.
    ready: status of the Ready condition that the kubelet reports.
    """
    status = node.get("status") or {}
    wanted_status = {**machine, **_resources(status, machine)}
    changes: Object = {field: value for field, value in wanted_status.items() if status.get(field) != value}
    if "allocatable" in changes:
        removed = dict.fromkeys((status.get("allocatable") or {}).keys() - changes["allocatable"].keys())
        changes["allocatable"] = {**changes["allocatable"], **removed}
    wanted = (*_PRESSURES, _READY if ready else _NOT_READY)
    if changes or heartbeat or not _has_conditions(status, wanted):
        changes["conditions"] = _conditions(status, wanted, now=now)
    return changes


def _resources(status: Mapping[str, Any], machine: Mapping[str, Any]) -> Object:
    """Return the capacity and the allocatable resources of a node.

    Resources that others have added to the capacity are kept, and are allocatable. Source: MachineInfo in setters.go.
    """
    added = {
        name: quantity for name, quantity in (status.get("capacity") or {}).items() if name not in machine["capacity"]
    }
    return {"capacity": {**added, **machine["capacity"]}, "allocatable": {**added, **machine["allocatable"]}}


def _has_conditions(status: Mapping[str, Any], wanted: Iterable[Condition]) -> bool:
    there = {
        (condition.get("type"), condition.get("status"), condition.get("reason"), condition.get("message"))
        for condition in status.get("conditions") or ()
    }
    return there.issuperset(wanted)


def _conditions(status: Mapping[str, Any], wanted: Iterable[Condition], *, now: float) -> list[Object]:
    """Return the kubelet's four conditions, for a patch that merges conditions by type."""
    stamp = format_time(now)
    conditions = []
    for type, value, reason, message in wanted:
        before = find_condition(status.get("conditions"), type)
        kept = before is not None and before.get("status") == value
        since = before.get("lastTransitionTime") if before is not None and kept else None
        conditions.append(
            {
                "type": type,
                "status": value,
                "lastHeartbeatTime": stamp,
                "lastTransitionTime": since or stamp,
                "reason": reason,
                "message": message,
            }
        )
    return conditions


def lease_spec(name: str, *, now: float) -> Object:
    return {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": format_micro_time(now)}


def new_lease(node: Object, *, now: float) -> Object:
    """Return the Lease of a node.

    The node owns it, so that it is garbage collected; as upstream, not as a controller.
    """
    name = name_of(node)
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": name,
            "namespace": LEASE_NAMESPACE,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid_of(node)}],
        },
        "spec": lease_spec(name, now=now),
    }
