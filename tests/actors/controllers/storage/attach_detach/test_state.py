"""Tests of the desired and the actual state, and of operations with their backoff.

Source of the cases: kubernetes v1.36 pkg/controller/volume/attachdetach/cache/*_test.go,
pkg/volume/util/nestedpendingoperations/nestedpendingoperations_test.go.
"""

from __future__ import annotations

import pytest

from kcm.actors.controllers.storage.attach_detach.state import (
    ActualState,
    AttachState,
    DesiredState,
    Operation,
    OperationKind,
    Operations,
    PodReference,
)
from kcm.actors.controllers.storage.attach_detach.volume_specs import VolumeSpec

ATTACHED, UNCERTAIN, DETACHED = AttachState.ATTACHED, AttachState.UNCERTAIN, AttachState.DETACHED
ATTACH, DETACH = OperationKind.ATTACH, OperationKind.DETACH


def spec(name: str = "v1", driver: str = "d") -> VolumeSpec:
    return VolumeSpec(name=name, plugin="kubernetes.io/csi", volume_name=f"{driver}^{name}", driver=driver)


V1, V2 = spec("v1").unique_name, spec("v2").unique_name


def pod(name: str = "pod", uid: str = "") -> PodReference:
    return PodReference(namespace="ns", name=name, uid=uid or f"uid-{name}", resource_version="1")


def desired(*uses: tuple[str, str, str]) -> DesiredState:
    """Return the state after the pods were added: (pod, volume, node)."""
    state = DesiredState()
    for node in ("n1", "n2"):
        state.add_node(node)
    for name, volume, node in uses:
        state.add(pod(name), spec(volume), node)
    return state


def test_nodes_are_added_once() -> None:
    state = DesiredState()
    assert [state.add_node("n1"), state.add_node("n1"), state.has_node("n1"), state.has_node("n2")] == [
        True,
        False,
        True,
        False,
    ]


def test_pod_on_an_unknown_node_is_refused() -> None:
    with pytest.raises(KeyError):
        desired().add(pod(), spec(), "unknown")


def test_volume_is_needed_as_long_as_a_pod_uses_it() -> None:
    state = desired(("a", "v1", "n1"), ("b", "v1", "n1"), ("b", "v1", "n1"), ("c", "v2", "n2"))
    assert [(node, volume) for node, volume, _ in state.volumes()] == [("n1", V1), ("n2", V2)]
    assert state.counts == {"kubernetes.io/csi:d": 2}
    assert state.remove_pod("ns/a", "uid-a") == [V1]
    assert state.get(V1, "n1") is not None
    assert state.remove_pod("ns/b", "uid-b") == [V1]
    assert state.get(V1, "n1") is None
    assert (state.nodes_of(V1), state.nodes_of(V2)) == ([], ["n2"])
    assert state.pods() == ["ns/c"]


def test_unknown_pods_are_removed_without_effect() -> None:
    state = desired(("a", "v1", "n1"))
    assert state.remove_pod("ns/b", "uid-b") == []
    assert state.remove_pod("ns/a", "another") == []
    assert state.nodes_of(V1) == ["n1"]


def test_pods_of_one_name_are_distinguished() -> None:
    state = desired(("a", "v1", "n1"))
    state.add(pod("a", "next"), spec("v1"), "n1")
    assert state.uids("ns/a") == ["next", "uid-a"]
    state.remove_pod("ns/a", "uid-a")
    assert (state.uids("ns/a"), state.nodes_of(V1)) == (["next"], ["n1"])


def test_node_with_volumes_is_not_removed() -> None:
    state = desired(("a", "v1", "n1"))
    assert [state.remove_node("n1"), state.remove_node("n2"), state.remove_node("unknown")] == [False, True, True]
    assert (state.has_node("n1"), state.has_node("n2")) == (True, False)


def test_volume_is_removed_from_all_pods_of_a_node() -> None:
    state = desired(("a", "v1", "n1"), ("a", "v2", "n1"), ("b", "v1", "n1"), ("c", "v1", "n2"))
    state.remove_volume(V1, "n1")
    assert (state.nodes_of(V1), state.nodes_of(V2)) == (["n2"], ["n1"])
    assert sorted(state.pods()) == ["ns/a", "ns/c"]
    state.remove_volume(V1, "unknown")


@pytest.mark.parametrize(
    ("nodes", "names"), [([], []), (["n1"], ["a", "b"]), (["n2"], ["c"]), (["n1", "n2", "n3"], ["a", "b", "c"])]
)
def test_pods_of_a_volume_on_nodes(nodes: list[str], names: list[str]) -> None:
    state = desired(("a", "v1", "n1"), ("b", "v1", "n1"), ("c", "v1", "n2"), ("d", "v2", "n1"))
    assert [each.name for each in state.pods_on(nodes, V1)] == names


def actual(*attached: tuple[str, str, bool]) -> ActualState:
    """Return the state after the attachments: (volume, node, confirmed)."""
    state = ActualState()
    for volume, node, confirmed in attached:
        state.attach(spec(volume).unique_name, node, spec=spec(volume), device_path="/dev/x", confirmed=confirmed)
    return state


@pytest.mark.parametrize(
    ("confirmed", "state", "reported"),
    [((True,), ATTACHED, [V1]), ((False,), UNCERTAIN, None), ((False, True), ATTACHED, [V1])],
)
def test_attachments_are_confirmed_or_uncertain(
    confirmed: tuple[bool, ...], state: AttachState, reported: list[str] | None
) -> None:
    known = actual(*(("v1", "n1", each) for each in confirmed))
    assert (known.state(V1, "n1"), known.reports_about("n1")) == (state, reported)
    assert known.state(V1, "n2") is known.state(V2, "n1") is DETACHED
    assert (known.nodes_of(V1), known.device_path(V1)) == (["n1"], "/dev/x")
    assert known.is_in_use(V1, "n1")  # until the node reports what it uses


def test_confirmed_attachment_that_becomes_uncertain_is_still_reported() -> None:
    known = actual(("v1", "n1", True), ("v1", "n1", False))
    assert (known.state(V1, "n1"), known.reports_about("n1"), known.confirmed_nodes(V1)) == (UNCERTAIN, [V1], [])


def test_volume_on_two_nodes_is_detached_from_one() -> None:
    known = actual(("v1", "n1", True), ("v1", "n2", False), ("v2", "n1", True))
    assert known.counts == {"kubernetes.io/csi:d": 3}
    assert known.confirmed_nodes(V1) == ["n1"]
    known.detach(V1, "n1")
    known.detach(V1, "n3")
    assert (known.nodes_of(V1), known.volumes_on("n1"), known.reports_about("n1")) == (["n2"], [V2], [V2])
    known.detach(V1, "n2")
    assert (known.volumes(), known.counts["kubernetes.io/csi:d"]) == ([V2], 1)


def test_attached_pairs_are_the_confirmed_ones() -> None:
    known = actual(("v1", "n1", True), ("v1", "n2", False), ("v2", "n2", True))
    assert list(known.attached()) == [("n1", V1), ("n2", V2)]


def test_nodes_report_what_they_use() -> None:
    known = actual(("v1", "n1", True))
    known.observe_node("n1", (), 5)
    assert not known.is_in_use(V1, "n1")
    known.attach(V1, "n1", spec=spec(), confirmed=True)
    assert not known.is_in_use(V1, "n1")  # not a new attachment
    known.attach(V2, "n1", spec=spec("v2"), confirmed=True)
    known.observe_node("n1", (), 5)
    assert known.is_in_use(V2, "n1")  # the node has not changed since
    known.observe_node("n1", (V1,), 6)
    assert (known.is_in_use(V1, "n1"), known.is_in_use(V2, "n1")) == (True, False)


def test_time_of_the_first_request_to_detach_is_kept() -> None:
    known = actual(("v1", "n1", True))
    assert [known.request_detach(V1, "n1", now) for now in (100.0, 160.0)] == [0.0, 60.0]
    known.attach(V1, "n1", spec=spec(), confirmed=False)
    assert known.request_detach(V1, "n1", 170.0) == 70.0
    known.reset_detach(V1, "n1")
    assert known.request_detach(V1, "n1", 180.0) == 0.0
    for function in (known.reset_detach, lambda volume, node: known.request_detach(volume, node, 0.0)):
        with pytest.raises(KeyError):
            function(V1, "n2")


def test_reports_are_withdrawn_and_restored() -> None:
    known = actual(("v1", "n1", True))
    known.stop_reporting(V1, "n1")
    known.stop_reporting(V1, "n2")
    assert known.reports_about("n1") == []
    known.report(V1, "n1")
    known.report(V1, "n2")  # not attached there
    assert (known.reports_about("n1"), known.reports_about("n2")) == ([V1], None)


def test_volume_known_by_name_gets_its_spec_later() -> None:
    known = ActualState()
    known.attach(V1, "n1", spec=None, device_path="/dev/x", confirmed=True)
    assert (known.spec(V1), known.counts) == (None, {})
    known.attach(V1, "n1", spec=spec(), device_path="/dev/y", confirmed=True)
    assert (known.spec(V1), known.device_path(V1), known.counts) == (spec(), "/dev/y", {"kubernetes.io/csi:d": 1})


def operation(kind: OperationKind, node: str = "n1", lock: str = "") -> Operation:
    return Operation(kind=kind, node=node, lock=lock, spec=None)


@pytest.mark.parametrize(
    ("lock", "other", "excludes"),
    [("", "", True), ("", "n1", True), ("n1", "", True), ("n1", "n1", True), ("n1", "n2", False)],
)
def test_operations_on_the_same_volume_exclude_each_other(lock: str, other: str, excludes: bool) -> None:
    operations = Operations()
    begun = operations.begin(V1, operation(ATTACH, lock=lock))
    assert (operations.find(V1, other) is begun) is excludes
    assert operations.find(V2, other) is None
    assert operations.pending(V1) == [begun]
    operations.succeeded(V1, begun)
    assert (operations.find(V1, other), operations.pending(V1)) == (None, [])


def test_delay_of_retries_doubles_up_to_two_minutes() -> None:
    operations, now, delays = Operations(), 0.0, []
    for _ in range(10):
        delays.append(operations.fail(operations.begin(V1, operation(ATTACH)), now))
        assert operations.delay(V1, "", ATTACH, now) == delays[-1]
        assert operations.delay(V1, "", DETACH, now) == 0.0
        now += delays[-1]
        assert operations.delay(V1, "", ATTACH, now) == 0.0
    assert delays == [0.5, 1, 2, 4, 8, 16, 32, 64, 122, 122]


def test_operation_of_another_kind_begins_with_a_new_delay() -> None:
    operations = Operations()
    for _ in range(3):
        operations.fail(operations.begin(V1, operation(DETACH)), 0.0)
    assert operations.fail(operations.begin(V1, operation(ATTACH)), 0.0) == 0.5
    assert operations.delay(V1, "", DETACH, 0.0) == 0.0


def test_pending_operation_precedes_failed_ones() -> None:
    operations = Operations()
    operations.fail(operations.begin(V1, operation(ATTACH, "n1", "n1")), 0.0)
    pending = operations.begin(V1, operation(ATTACH, "n2", "n2"))
    assert operations.find(V1, "") is pending
    operations.clear(V1)
    assert operations.pending(V1) == [pending]
    operations.succeeded(V1, pending)
    operations.clear(V1)
    assert operations.find(V1, "") is None
