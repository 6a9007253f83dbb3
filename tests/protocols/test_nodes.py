"""Facts of Nodes and Leases."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.protocols.nodes import LeaseFacts, lease_facts, node_facts, zone_of

REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
OLD_REGION, OLD_ZONE = "failure-domain.beta.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("labels", "zone"),
    [
        ({}, ""),
        ({REGION: "", ZONE: ""}, ""),
        ({REGION: "eu", ZONE: "a"}, "eu:a"),
        ({ZONE: "a"}, ":a"),
        ({REGION: "eu"}, "eu:"),
        ({OLD_REGION: "us", OLD_ZONE: "b", REGION: "eu", ZONE: "a"}, "us:b"),
        ({OLD_ZONE: "", ZONE: "a", REGION: "eu"}, "eu:"),
    ],
)
def test_the_zone_is_region_and_zone_the_older_labels_first(labels: dict[str, str], zone: str) -> None:
    assert zone_of(labels) == zone


def taint(key: str, effect: str) -> dict[str, str]:
    return {"key": f"node.kubernetes.io/{key}", "effect": effect}


def test_facts_of_a_node() -> None:
    facts = node_facts(
        {
            "metadata": {"uid": "u", "labels": {ZONE: "a", "node.kubernetes.io/exclude-disruption": ""}},
            "spec": {
                "unschedulable": True,
                "taints": [
                    taint("unreachable", "NoExecute"),
                    taint("not-ready", "NoSchedule"),
                    taint("out-of-service", "NoExecute"),
                    {"key": "mine", "effect": "NoSchedule"},
                ],
            },
            "status": {
                "nodeInfo": {"kubeletVersion": "v1.36.0"},
                "conditions": [
                    {"type": "MemoryPressure", "status": "True"},
                    {"type": "DiskPressure", "status": "False"},
                    {"type": "Ready", "status": "False", "lastHeartbeatTime": "H", "lastTransitionTime": "T"},
                    {"type": "SomethingElse", "status": "True"},
                ],
            },
        }
    )
    assert (facts.uid, facts.zone, facts.excluded, facts.kubelet) == ("u", ":a", True, "v1.36.0")
    assert (facts.ready, facts.heartbeat, facts.transitioned) == ("False", "H", "T")
    assert facts.no_execute == {"node.kubernetes.io/unreachable"}
    assert facts.no_schedule == {"node.kubernetes.io/not-ready"}
    assert facts.wanted_no_schedule == {
        f"node.kubernetes.io/{key}" for key in ("memory-pressure", "not-ready", "unschedulable")
    }


@pytest.mark.parametrize(
    ("type", "status", "key"),
    [
        ("Ready", "True", None),
        ("Ready", "False", "not-ready"),
        ("Ready", "Unknown", "unreachable"),
        ("MemoryPressure", "True", "memory-pressure"),
        ("DiskPressure", "True", "disk-pressure"),
        ("PIDPressure", "True", "pid-pressure"),
        ("PIDPressure", "Unknown", None),
        ("NetworkUnavailable", "True", "network-unavailable"),
        ("NetworkUnavailable", "Unknown", None),
    ],
)
def test_conditions_ask_for_taints(type: str, status: str, key: str | None) -> None:
    facts = node_facts({"status": {"conditions": [{"type": type, "status": status}]}})
    assert facts.wanted_no_schedule == (set() if key is None else {f"node.kubernetes.io/{key}"})


def test_empty_node_has_default_facts() -> None:
    facts = node_facts({"metadata": {"name": "n"}})
    assert (facts.zone, facts.ready, facts.heartbeat, facts.kubelet) == ("", None, None, "")
    assert facts.no_schedule == facts.wanted_no_schedule == facts.no_execute == set()


@pytest.mark.parametrize(
    "node",
    [
        {"spec": []},
        {"spec": {"taints": {}, "x": 1}, "status": {"conditions": "none"}},
        {"spec": {"taints": ["t"]}},
        {"metadata": {"labels": {ZONE: 1}}},
        {"status": {"conditions": [{"type": "Ready", "status": True}]}},
    ],
)
def test_malformed_node_is_refused(node: Any) -> None:
    with pytest.raises(ValueError, match="is a"):
        node_facts(node)


def test_facts_of_a_lease() -> None:
    assert lease_facts({"spec": {"renewTime": "1970-01-01T00:00:01.5Z"}}) == LeaseFacts(1.5)
    assert lease_facts({"spec": {}}) == lease_facts({}) == LeaseFacts(None)
    with pytest.raises(ValueError, match="not an RFC 3339 time"):
        lease_facts({"spec": {"renewTime": "now"}})
