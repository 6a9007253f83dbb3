"""Fault plans that are drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from kcm.runtime.faults.vocabulary import OF_CALLS, OF_WEBHOOKS, Fault, FaultKind, format_faults, parse_faults
from kcm.runtime.simulation.plan import (
    ON_REQUEST,
    draw_fault,
    draw_intermediate_state,
    draw_plan,
    draw_stale_state,
    draw_unobserved_state,
)

SECONDS = 60.0
ACTORS = ("dispatcher", "controller:replicaset-controller")
PATTERNS = (draw_stale_state, draw_unobserved_state, draw_intermediate_state)

Draw = Callable[..., tuple[Fault, ...]]


def plans(draw: Draw, count: int = 50) -> list[tuple[Fault, ...]]:
    return [draw(seed, seconds=SECONDS, process="manager*", actors=ACTORS) for seed in range(count)]


@pytest.mark.parametrize("draw", [draw_plan, *PATTERNS])
def test_plan_is_determined_by_the_seed(draw: Draw) -> None:
    assert plans(draw) == plans(draw)
    assert len(set(plans(draw))) > 25


@pytest.mark.parametrize("draw", [draw_plan, *PATTERNS])
def test_plan_round_trips_through_text(draw: Draw) -> None:
    for plan in plans(draw):
        assert parse_faults(format_faults(plan)) == plan


def test_cloud_faults_are_drawn_only_on_request() -> None:
    drawn = {fault.kind for plan in plans(draw_plan, 200) for fault in plan}
    assert drawn == set(FaultKind) - set(OF_CALLS) - set(OF_WEBHOOKS) - set(ON_REQUEST)
    (fault,) = draw_plan(1, seconds=SECONDS, actors=ACTORS, kinds=(FaultKind.CALL_LOST,), least=1, most=1)
    assert fault.kind is FaultKind.CALL_LOST


@pytest.mark.parametrize("kind", FaultKind)
def test_fault_begins_and_ends_within_the_run(kind: FaultKind) -> None:
    chance = random.Random(str(kind))
    for _ in range(50):
        fault = draw_fault(chance, kind, seconds=SECONDS, process="manager*", actors=ACTORS)
        assert fault.kind is kind
        assert 0.0 <= fault.start <= SECONDS * 0.7
        assert fault.until is not None or kind is FaultKind.LEASE_STOLEN
        if kind in (FaultKind.ACTOR_CRASHED, FaultKind.ACTOR_BROKEN, FaultKind.ACTOR_VANISHED):
            assert fault.most is not None


def test_controller_in_an_intermediate_state_is_crashed() -> None:
    crashed = [
        fault
        for plan in plans(draw_intermediate_state)
        for fault in plan
        if fault.kind in (FaultKind.ACTOR_CRASHED, FaultKind.ACTOR_BROKEN)
    ]
    assert {fault.actor for fault in crashed} == {"controller:replicaset-controller"}
    assert {fault.most for fault in crashed} == {1}
