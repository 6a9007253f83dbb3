"""The status to write for a silent node: pure.

Source: kubernetes v1.36 pkg/controller/nodelifecycle/node_lifecycle_controller.go, tryUpdateNodeHealth.
"""

from __future__ import annotations

from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import Object, metadata
from kcm.protocols.times import format_time

# Not NetworkUnavailable, which the network sets, not the kubelet.
KUBELET_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


def silent_node(node: Object, now: float) -> Object:
    """The node with the conditions of its kubelet set to Unknown. now: Unix seconds."""
    status = node.get("status") or {}
    conditions = [dict(condition) for condition in status.get("conditions") or ()]
    stamp = format_time(now)
    for type in KUBELET_CONDITIONS:
        if find_condition(conditions, type) is None:
            conditions.append(
                {
                    "type": type,
                    "status": "Unknown",
                    "lastHeartbeatTime": metadata(node).get("creationTimestamp"),
                    "lastTransitionTime": stamp,
                    "reason": "NodeStatusNeverUpdated",
                    "message": "Kubelet never posted node status.",
                }
            )
    for condition in conditions:
        if condition.get("type") in KUBELET_CONDITIONS and condition.get("status") != "Unknown":
            condition.update(
                status="Unknown",
                reason="NodeStatusUnknown",
                message="Kubelet stopped posting node status.",
                lastTransitionTime=stamp,
            )
    return {**node, "status": {**status, "conditions": conditions}}
