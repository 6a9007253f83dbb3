"""The pure decisions of node-lifecycle as tables: signs of life, zones, conditions, taints, labels."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.controllers.nodes.node_lifecycle.conditions import silent_node
from actors.controllers.nodes.node_lifecycle.health import (
    NodeHealth,
    Patience,
    Verdict,
    observe,
    taken_for_silent,
    verdict,
)
from actors.controllers.nodes.node_lifecycle.labels import missing_labels
from actors.controllers.nodes.node_lifecycle.taints import taint_patch, taints_are_right, wanted_no_execute
from actors.controllers.nodes.node_lifecycle.zones import (
    EvictionLimits,
    Mode,
    ZoneHealth,
    ZoneState,
    assess,
    zone_state,
)
from protocols.nodes import NOT_READY, UNREACHABLE, NodeFacts, node_facts
from protocols.objects import Object

NORMAL, PARTIAL, FULL = ZoneState.NORMAL, ZoneState.PARTIAL_DISRUPTION, ZoneState.FULL_DISRUPTION


# Signs of life.


def facts(
    ready: str | None = "True", heartbeat: str = "h1", transitioned: str = "t1", uid: str = "u", *, taints: Any = ()
) -> NodeFacts:
    conditions: list[Object] = []
    if ready is not None:
        times = {"lastHeartbeatTime": heartbeat, "lastTransitionTime": transitioned}
        conditions.append({"type": "Ready", "status": ready, **times})
    spec = {"taints": [{"key": key, "effect": "NoExecute"} for key in taints]}
    return node_facts({"metadata": {"uid": uid}, "spec": spec, "status": {"conditions": conditions}})


SEEN = observe(None, facts(), 5.0, now=100.0)

# what is seen at 130 s → (last sign of life, when Ready changed)
SIGNS: dict[str, tuple[NodeFacts, float | None, tuple[float, float]]] = {
    "nothing new": (facts(), 5.0, (100.0, 100.0)),
    "a heartbeat": (facts(heartbeat="h2"), 5.0, (130.0, 100.0)),
    "a heartbeat with another state": (facts("False", "h2", "t2"), 5.0, (130.0, 130.0)),
    "a renewed Lease": (facts(), 6.0, (130.0, 100.0)),
    "a Lease renewed by a clock that was set back": (facts(), 4.0, (130.0, 100.0)),
    "a Lease that is gone": (facts(), None, (100.0, 100.0)),
    "a condition that is gone": (facts(None), 5.0, (100.0, 100.0)),
    "another node of that name": (facts(uid="other"), 5.0, (130.0, 130.0)),
}


@pytest.mark.parametrize(("node", "renewed", "expected"), SIGNS.values(), ids=SIGNS)
def test_signs_of_life(node: NodeFacts, renewed: float | None, expected: tuple[float, float]) -> None:
    health = observe(SEEN, node, renewed, now=130.0)
    assert (health.probed, health.changed) == expected


def test_nothing_new_is_no_new_record() -> None:
    assert observe(SEEN, facts(), 5.0, now=130.0) is SEEN


def test_the_first_status_of_a_node_is_a_sign_of_life() -> None:
    before = observe(None, facts(None), None, now=100.0)
    assert observe(before, facts(), None, now=130.0).probed == 130.0


def test_our_own_write_is_no_sign_of_life() -> None:
    written = facts("Unknown", transitioned="t2")
    health = taken_for_silent(SEEN, written, now=141.0)
    assert observe(health, written, 5.0, now=145.0) is health
    assert (health.probed, health.changed) == (100.0, 141.0)


PATIENCE = Patience(grace=40.0, startup_grace=60.0)


@pytest.mark.parametrize(
    ("ready", "now", "heard", "expected"),
    [
        ("True", 140.0, 140.0, Verdict.ALIVE),
        ("True", 140.1, 140.0, Verdict.SILENT),
        ("True", 140.1, 130.2, Verdict.SILENT),
        ("True", 140.1, 130.0, Verdict.DOUBTFUL),
        ("True", 140.1, None, Verdict.DOUBTFUL),
        ("False", 140.1, 140.0, Verdict.SILENT),
        (None, 140.1, 140.0, Verdict.ALIVE),
        (None, 160.1, 160.0, Verdict.SILENT),
    ],
)
def test_a_node_is_silent_after_its_grace_period_if_we_would_have_heard_it(
    ready: str | None, now: float, heard: float | None, expected: Verdict
) -> None:
    node = facts(ready)
    health = observe(None, node, None, now=100.0)
    assert verdict(health, node, now=now, patience=PATIENCE, heard=heard) is expected


def test_with_a_short_grace_period_tables_have_to_be_fresher() -> None:
    assert (Patience(grace=8.0, startup_grace=60.0).hearing, PATIENCE.hearing) == (2.0, 10.0)


@given(st.lists(st.tuples(st.floats(0, 100), st.sampled_from(["h1", "h2", "h3"]), st.sampled_from([None, 1.0, 2.0]))))
def test_the_last_sign_of_life_never_goes_back(steps: list[tuple[float, str, float | None]]) -> None:
    now, health = 0.0, None
    for elapsed, heartbeat, renewed in steps:
        now += elapsed
        before: NodeHealth | None = health
        health = observe(before, facts(heartbeat=heartbeat), renewed, now)
        assert before is None or before.probed <= health.probed <= now


# Zones.


@pytest.mark.parametrize(
    ("ready", "not_ready", "state"),
    [
        (0, 0, NORMAL),
        (1, 0, NORMAL),
        (0, 1, FULL),
        (0, 50, FULL),
        (1, 2, NORMAL),  # up to two never disrupt
        (1, 3, PARTIAL),
        (3, 2, NORMAL),
        (2, 3, PARTIAL),
        (9, 11, PARTIAL),  # 0.55
        (10, 11, NORMAL),
    ],
)
def test_the_state_of_a_zone(ready: int, not_ready: int, state: ZoneState) -> None:
    assert zone_state(ZoneHealth(ready, not_ready), unhealthy_threshold=0.55) is state


LIMITS = EvictionLimits(eviction_rate=0.1, secondary_rate=0.01, full_disruption_rate=0.5, large_zone=50)
WELL, DOWN = ZoneHealth(10, 0), ZoneHealth(0, 10)


@pytest.mark.parametrize(
    ("health", "rate"),
    [
        (WELL, 0.1),
        (DOWN, 0.5),
        (ZoneHealth(4, 6), 0.0),
        (ZoneHealth(20, 30), 0.0),  # 50 is not large
        (ZoneHealth(20, 31), 0.01),
        (ZoneHealth(0, 0), 0.1),
    ],
)
def test_the_rate_of_a_zone_while_another_is_well(health: ZoneHealth, rate: float) -> None:
    found = assess({"a": health, "b": WELL}, LIMITS, was_all_down=False)
    assert (found.rates["a"], found.spared, found.mode) == (rate, frozenset(), Mode.UNCHANGED)


@pytest.mark.parametrize(
    ("zones", "was_all_down", "all_down", "mode"),
    [
        ({"a": DOWN, "b": DOWN}, False, True, Mode.ENTERED),
        ({"a": DOWN, "b": DOWN}, True, True, Mode.UNCHANGED),
        ({"a": DOWN, "b": WELL}, True, False, Mode.LEFT),
        ({"a": DOWN, "b": WELL}, False, False, Mode.UNCHANGED),
        ({"a": DOWN, "b": ZoneHealth(0, 0)}, False, True, Mode.ENTERED),  # in b no node counts
        ({}, False, False, Mode.UNCHANGED),
        ({}, True, True, Mode.UNCHANGED),
    ],
)
def test_master_disruption_mode(zones: dict[str, ZoneHealth], was_all_down: bool, all_down: bool, mode: Mode) -> None:
    found = assess(zones, LIMITS, was_all_down=was_all_down)
    assert (found.all_down, found.mode) == (all_down, mode)
    if all_down:
        assert set(found.rates.values()) <= {0.0}
        assert found.spared == set(zones)


def test_disrupted_zones_may_be_spared_as_a_whole() -> None:
    limits = EvictionLimits(pause_when_disrupted=True)
    found = assess({"a": DOWN, "b": ZoneHealth(4, 6), "c": WELL}, limits, was_all_down=False)
    assert found.spared == {"a", "b"}
    assert found.rates == {"a": 0.0, "b": 0.0, "c": 0.1}


# The conditions of a silent node.

CREATED, STAMP = "2026-01-01T00:00:00Z", "2027-01-15T08:00:00Z"
NOW = 1_800_000_000.0


def test_a_node_that_never_said_anything_gets_all_four_conditions() -> None:
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


def test_conditions_that_were_known_become_unknown_and_keep_their_heartbeat() -> None:
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
    assert ready["status"] == "True", "what was read is left alone"


# Taints.


@pytest.mark.parametrize(
    ("ready", "has", "due", "spared", "wanted"),
    [
        ("True", (), False, False, ()),
        ("True", (UNREACHABLE, NOT_READY), True, False, ()),
        ("False", (), False, False, ()),
        ("False", (), True, False, (NOT_READY,)),
        ("False", (NOT_READY,), False, False, (NOT_READY,)),
        ("False", (UNREACHABLE,), False, False, (NOT_READY,)),  # at once, not in its turn
        ("Unknown", (), True, False, (UNREACHABLE,)),
        ("Unknown", (NOT_READY,), False, False, (UNREACHABLE,)),
        ("Unknown", (UNREACHABLE,), False, True, ()),
        ("Unknown", (), True, True, ()),
        (None, (UNREACHABLE,), True, False, (UNREACHABLE,)),  # nothing is known: nothing is changed
    ],
)
def test_the_no_execute_taint_that_a_node_should_have(
    ready: str | None, has: tuple[str, ...], due: bool, spared: bool, wanted: tuple[str, ...]
) -> None:
    assert wanted_no_execute(facts(ready, taints=has), due=due, spared=spared) == set(wanted)


def test_taints_of_others_stay_and_ours_are_swapped_in_one_patch() -> None:
    theirs = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
    prefer = {"key": UNREACHABLE, "effect": "PreferNoSchedule"}
    old = {"key": NOT_READY, "effect": "NoExecute", "timeAdded": CREATED}
    node = {
        "metadata": {"resourceVersion": "7", "uid": "u"},
        "spec": {"taints": [old, theirs, prefer]},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]},
    }
    patch = taint_patch(node, node_facts(node), frozenset({UNREACHABLE}), NOW)
    assert patch["metadata"]["resourceVersion"] == "7"
    assert patch["spec"]["taints"] == [
        theirs,
        prefer,
        {"key": UNREACHABLE, "effect": "NoSchedule", "timeAdded": STAMP},
        {"key": UNREACHABLE, "effect": "NoExecute", "timeAdded": STAMP},
    ]


def test_a_taint_that_is_there_keeps_the_time_at_which_it_was_added() -> None:
    there = {"key": UNREACHABLE, "effect": "NoExecute", "timeAdded": CREATED}
    node = {"spec": {"taints": [there]}, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    found = node_facts(node)
    assert not taints_are_right(found, frozenset({UNREACHABLE}))
    assert taint_patch(node, found, frozenset({UNREACHABLE}), NOW)["spec"]["taints"][0] == there


def test_the_last_taint_goes_with_the_list() -> None:
    node = {"spec": {"taints": [{"key": NOT_READY, "effect": "NoSchedule"}]}}
    assert taint_patch(node, node_facts(node), frozenset(), NOW)["spec"]["taints"] is None


# Labels.

OS, OLD_OS = "kubernetes.io/os", "beta.kubernetes.io/os"
ARCH, OLD_ARCH = "kubernetes.io/arch", "beta.kubernetes.io/arch"


@pytest.mark.parametrize(
    ("labels", "missing"),
    [
        (None, {}),
        ({"other": "x"}, {}),
        ({OLD_OS: "linux"}, {}),
        ({OS: "linux", ARCH: "arm64"}, {OLD_OS: "linux", OLD_ARCH: "arm64"}),
        ({OS: "linux", OLD_OS: "windows"}, {OLD_OS: "linux"}),
        ({OS: "linux", OLD_OS: "linux"}, {}),
        ({OS: ""}, {OLD_OS: ""}),
    ],
)
def test_older_labels_say_what_the_newer_ones_say(labels: dict[str, str] | None, missing: dict[str, str]) -> None:
    assert missing_labels({"metadata": {"labels": labels}}) == missing
