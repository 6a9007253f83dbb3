"""Tests of node health: heartbeats, and the time since the last heartbeat."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm.actors.controllers.nodes.node_lifecycle.health import (
    GracePeriods,
    Liveness,
    NodeHealth,
    liveness,
    marked_unknown,
    observe,
)
from kcm.protocols.nodes import NodeFacts, node_facts
from kcm.protocols.objects import Object


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

# observation at 130 s → (last heartbeat, last change of Ready)
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
def test_time_of_the_last_heartbeat(node: NodeFacts, renewed: float | None, expected: tuple[float, float]) -> None:
    health = observe(SEEN, node, renewed, now=130.0)
    assert (health.probed, health.changed) == expected


def test_record_is_kept_without_new_heartbeat() -> None:
    assert observe(SEEN, facts(), 5.0, now=130.0) is SEEN


def test_first_status_counts_as_heartbeat() -> None:
    before = observe(None, facts(None), None, now=100.0)
    assert observe(before, facts(), None, now=130.0).probed == 130.0


def test_own_write_does_not_count_as_heartbeat() -> None:
    written = facts("Unknown", transitioned="t2")
    health = marked_unknown(SEEN, written, now=141.0)
    assert observe(health, written, 5.0, now=145.0) is health
    assert (health.probed, health.changed) == (100.0, 141.0)


GRACE_PERIODS = GracePeriods(grace=40.0, startup_grace=60.0)


@pytest.mark.parametrize(
    ("ready", "now", "heard", "expected"),
    [
        ("True", 140.0, 140.0, Liveness.ALIVE),
        ("True", 140.1, 140.0, Liveness.SILENT),
        ("True", 140.1, 130.2, Liveness.SILENT),
        ("True", 140.1, 130.0, Liveness.DOUBTFUL),
        ("True", 140.1, None, Liveness.DOUBTFUL),
        ("False", 140.1, 140.0, Liveness.SILENT),
        (None, 140.1, 140.0, Liveness.ALIVE),
        (None, 160.1, 160.0, Liveness.SILENT),
    ],
)
def test_node_is_unreachable_after_its_grace_period_if_the_tables_are_fresh(
    ready: str | None, now: float, heard: float | None, expected: Liveness
) -> None:
    node = facts(ready)
    health = observe(None, node, None, now=100.0)
    assert liveness(health, node, now=now, periods=GRACE_PERIODS, heard=heard) is expected


def test_short_grace_period_requires_fresher_tables() -> None:
    assert (GracePeriods(grace=8.0, startup_grace=60.0).stale_after, GRACE_PERIODS.stale_after) == (2.0, 10.0)


@given(st.lists(st.tuples(st.floats(0, 100), st.sampled_from(["h1", "h2", "h3"]), st.sampled_from([None, 1.0, 2.0]))))
def test_time_of_the_last_heartbeat_never_decreases(steps: list[tuple[float, str, float | None]]) -> None:
    now, health = 0.0, None
    for elapsed, heartbeat, renewed in steps:
        now += elapsed
        before: NodeHealth | None = health
        health = observe(before, facts(heartbeat=heartbeat), renewed, now)
        assert before is None or before.probed <= health.probed <= now
