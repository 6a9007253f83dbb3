"""Plans of faults, drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from kcm.runtime.faults.vocabulary import OF_CALLS, Fault, FaultKind, format_faults, parse_faults
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
def test_the_same_seed_draws_the_same_plan_and_another_seed_another(draw: Draw) -> None:
    assert plans(draw) == plans(draw)
    assert len(set(plans(draw))) > 25


@pytest.mark.parametrize("draw", [draw_plan, *PATTERNS])
def test_a_plan_reads_back_from_its_text(draw: Draw) -> None:
    for plan in plans(draw):
        assert parse_faults(format_faults(plan)) == plan


def test_every_kind_outside_clouds_is_drawn_and_those_of_clouds_when_asked_for() -> None:
    drawn = {fault.kind for plan in plans(draw_plan, 200) for fault in plan}
    assert drawn == set(FaultKind) - set(OF_CALLS) - set(ON_REQUEST)
    (fault,) = draw_plan(1, seconds=SECONDS, actors=ACTORS, kinds=(FaultKind.CALL_LOST,), least=1, most=1)
    assert fault.kind is FaultKind.CALL_LOST


@pytest.mark.parametrize("kind", FaultKind)
def test_a_fault_of_any_kind_begins_within_the_run_and_is_over_when_it_says(kind: FaultKind) -> None:
    chance = random.Random(str(kind))
    for _ in range(50):
        fault = draw_fault(chance, kind, seconds=SECONDS, process="manager*", actors=ACTORS)
        assert fault.kind is kind
        assert 0.0 <= fault.start <= SECONDS * 0.7
        assert fault.until is not None or kind is FaultKind.LEASE_STOLEN
        if kind in (FaultKind.ACTOR_CRASHED, FaultKind.ACTOR_BROKEN, FaultKind.ACTOR_VANISHED):
            assert fault.most is not None


def test_a_controller_in_an_intermediate_state_is_the_victim() -> None:
    crashed = [
        fault
        for plan in plans(draw_intermediate_state)
        for fault in plan
        if fault.kind in (FaultKind.ACTOR_CRASHED, FaultKind.ACTOR_BROKEN)
    ]
    assert {fault.actor for fault in crashed} == {"controller:replicaset-controller"}
    assert {fault.most for fault in crashed} == {1}
