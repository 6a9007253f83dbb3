from __future__ import annotations

import pytest

from kcm.actors.hollow.nodes.objects import machine_status, new_lease, new_node, status_changes
from kcm.protocols.conditions import find_condition
from kcm.protocols.hollow_nodes import is_hollow
from kcm.protocols.objects import Object
from kcm.protocols.times import format_time
from tests.actors.hollow.objects import FLEET

HOLLOW = FLEET["hollow-node-1"]
T = 1_800_000_000.0


def changes(node: Object, *, heartbeat: bool = False, now: float = T + 60) -> Object:
    return status_changes(node, machine_status(HOLLOW), now=now, heartbeat=heartbeat)


def with_condition(node: Object, type: str, **fields: str) -> Object:
    conditions = [
        {**condition, **fields} if condition["type"] == type else condition
        for condition in node["status"]["conditions"]
    ]
    return {**node, "status": {**node["status"], "conditions": conditions}}


def test_a_node_registers_with_the_labels_of_its_place_and_machine() -> None:
    node = new_node(HOLLOW, now=T)
    labels = node["metadata"]["labels"]
    assert labels["kubernetes.io/hostname"] == "hollow-node-1"
    assert labels["topology.kubernetes.io/zone"] == "zone-b"
    assert labels["topology.kubernetes.io/region"] == "hollow"
    assert (labels["kubernetes.io/os"], labels["kubernetes.io/arch"]) == ("linux", "amd64")


def test_a_node_registers_with_all_that_kubectl_shows() -> None:
    status = new_node(HOLLOW, now=T)["status"]
    assert status["allocatable"] == status["capacity"]
    assert (status["capacity"]["cpu"], status["capacity"]["pods"]) == ("32", "110")
    assert {address["type"]: address["address"] for address in status["addresses"]} == {
        "InternalIP": "198.18.0.2",
        "Hostname": "hollow-node-1",
    }
    assert status["nodeInfo"]["kubeletVersion"] == "v1.36.0"
    assert {condition["type"]: condition["status"] for condition in status["conditions"]} == {
        "MemoryPressure": "False",
        "DiskPressure": "False",
        "PIDPressure": "False",
        "Ready": "True",
    }
    ready = find_condition(status["conditions"], "Ready")
    assert (ready["reason"], ready["message"]) == ("KubeletReady", "kubelet is posting ready status")


def test_correct_node_needs_no_writes() -> None:
    assert changes(new_node(HOLLOW, now=T)) == {}


def test_a_heartbeat_renews_all_conditions_and_keeps_their_transitions() -> None:
    written = changes(new_node(HOLLOW, now=T), heartbeat=True)
    assert list(written) == ["conditions"]
    assert len(written["conditions"]) == 4
    for condition in written["conditions"]:
        assert condition["lastHeartbeatTime"] == format_time(T + 60)
        assert condition["lastTransitionTime"] == format_time(T)


def test_node_marked_unknown_becomes_ready_with_the_current_time() -> None:
    lost = with_condition(
        new_node(HOLLOW, now=T),
        "Ready",
        status="Unknown",
        reason="NodeStatusUnknown",
        message="Kubelet stopped posting node status.",
    )
    ready = find_condition(changes(lost)["conditions"], "Ready")
    assert (ready["status"], ready["lastTransitionTime"]) == ("True", format_time(T + 60))
    pressure = find_condition(changes(lost)["conditions"], "DiskPressure")
    assert pressure["lastTransitionTime"] == format_time(T)


def test_foreign_conditions_are_not_written() -> None:
    node = new_node(HOLLOW, now=T)
    node["status"]["conditions"].append({"type": "NetworkUnavailable", "status": "False"})
    assert changes(node) == {}
    assert find_condition(changes(node, heartbeat=True)["conditions"], "NetworkUnavailable") is None


@pytest.mark.parametrize("field", ["addresses", "allocatable", "capacity", "nodeInfo", "daemonEndpoints"])
def test_removed_status_field_is_restored(field: str) -> None:
    node = new_node(HOLLOW, now=T)
    right = node["status"].pop(field)
    assert changes(node)[field] == right


def test_node_without_status_gets_a_complete_one() -> None:
    node = {"metadata": {"name": "hollow-node-1"}}
    assert changes(node) == new_node(HOLLOW, now=T + 60)["status"]


def test_a_lease_belongs_to_its_node_but_not_as_to_a_controller() -> None:
    node = new_node(HOLLOW, now=T)
    node["metadata"]["uid"] = "uid-1"
    lease = new_lease(node, now=T)
    assert lease["metadata"] == {
        "name": "hollow-node-1",
        "namespace": "kube-node-lease",
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "hollow-node-1", "uid": "uid-1"}],
    }
    assert lease["spec"] == {
        "holderIdentity": "hollow-node-1",
        "leaseDurationSeconds": 40,
        "renewTime": "2027-01-15T08:00:00.000000Z",
    }


def test_hollow_nodes_are_recognized_by_their_runtime() -> None:
    assert is_hollow(new_node(HOLLOW, now=T))
    assert not is_hollow({"status": {"nodeInfo": {"containerRuntimeVersion": "containerd://2.1.0"}}})
    assert not is_hollow({"metadata": {"name": "hollow-node-1"}})


def test_resources_that_others_add_to_the_capacity_become_allocatable() -> None:
    node = new_node(HOLLOW, now=T)
    status = node["status"]
    added = {**node, "status": {**status, "capacity": {**status["capacity"], "example.com/foo": "5"}}}
    written = changes(added)
    assert "capacity" not in written
    assert written["allocatable"] == {**status["allocatable"], "example.com/foo": "5"}
    settled = {**added, "status": {**added["status"], "allocatable": written["allocatable"]}}
    assert changes(settled) == {}
    removed = {**settled, "status": {**settled["status"], "capacity": status["capacity"]}}
    assert changes(removed)["allocatable"] == {**status["allocatable"], "example.com/foo": None}
