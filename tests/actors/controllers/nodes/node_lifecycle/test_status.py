"""Tests of the status that the controller writes for a node without heartbeats."""

from __future__ import annotations

from kcm.actors.controllers.nodes.node_lifecycle.status import silent_node

CREATED, STAMP = "2026-01-01T00:00:00Z", "2027-01-15T08:00:00Z"
NOW = 1_800_000_000.0


def test_node_without_status_gets_all_four_conditions() -> None:
    conditions = silent_node({"metadata": {"creationTimestamp": CREATED}}, NOW)["status"]["conditions"]
    assert [condition.pop("type") for condition in conditions] == [
        "Ready",
        "MemoryPressure",
        "DiskPressure",
        "PIDPressure",
    ]
    assert conditions == 4 * [
        {
            "status": "Unknown",
            "reason": "NodeStatusNeverUpdated",
            "message": "Kubelet never posted node status.",
            "lastHeartbeatTime": CREATED,
            "lastTransitionTime": STAMP,
        }
    ]


def test_conditions_become_unknown_and_keep_their_heartbeat() -> None:
    times = {"lastHeartbeatTime": "h", "lastTransitionTime": "t"}
    unknown = {"type": "DiskPressure", "status": "Unknown", "reason": "R", "message": "m", **times}
    network = {"type": "NetworkUnavailable", "status": "False", **times}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "m", **times}
    node = {"metadata": {}, "status": {"conditions": [network, ready, unknown], "phase": "kept"}}
    status = silent_node(node, NOW)["status"]
    assert status["phase"] == "kept"
    assert status["conditions"][:3] == [
        network,
        {
            "type": "Ready",
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
            "lastHeartbeatTime": "h",
            "lastTransitionTime": STAMP,
        },
        unknown,
    ]
    assert ready["status"] == "True", "the input is not modified"
