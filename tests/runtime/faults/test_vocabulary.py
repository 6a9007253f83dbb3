"""Faults as values: text form, random drawing, activation and shrinking."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcm.runtime.faults.injection import Injector
from kcm.runtime.faults.vocabulary import Fault, FaultKind, format_faults, parse_fault, parse_faults
from kcm.runtime.simulation.clock import VirtualClock
from kcm.runtime.simulation.plan import (
    draw_fault,
    draw_intermediate_state,
    draw_plan,
    draw_stale_state,
    draw_unobserved_state,
)
from kcm.runtime.simulation.shrinker import shrunk

ACTORS = ("dispatcher", "controller:replicaset-controller")


@pytest.mark.parametrize("draw", [draw_plan, draw_stale_state, draw_unobserved_state, draw_intermediate_state])
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_plan_round_trips_through_text_and_ends_in_time(draw, seed: int) -> None:
    plan = draw(seed, seconds=40.0, process="manager*", actors=ACTORS)
    assert plan
    assert parse_faults(format_faults(plan)) == plan
    assert draw(seed, seconds=40.0, process="manager*", actors=ACTORS) == plan
    assert all(fault.start <= 40.0 for fault in plan)


@pytest.mark.parametrize("kind", FaultKind)
def test_every_kind_is_drawn_with_its_parameters_and_round_trips(kind: FaultKind) -> None:
    for seed in range(20):
        fault = draw_fault(random.Random(seed), kind, seconds=40.0, process="manager*", actors=ACTORS)
        assert fault.kind is kind
        assert parse_fault(str(fault)) == fault


@pytest.mark.parametrize(
    "text",
    [
        "no-such-fault 1..2",
        "partition 5..2",
        "actor-crashed rate=2",
        "actor-crashed rate=often",
        "actor-crashed whom=me",
        "actor-crashed 1..2 nonsense",
        "command-answered status=200",
        "call-answered",
    ],
)
def test_invalid_fault_is_rejected_with_its_text(text: str) -> None:
    with pytest.raises(ValueError, match=text.split()[0]):
        parse_fault(text)


def strikes(fault: Fault, *, seconds: int, **where: str) -> list[float]:
    clock = VirtualClock()
    injector = Injector([fault], seed=1, clock=clock)
    times = []
    for second in range(seconds):
        clock.advance_to(float(second))
        if injector.strike(fault.kind, **where) is not None:
            times.append(float(second))
    return times


def test_a_fault_strikes_in_its_window_only() -> None:
    assert strikes(Fault(kind=FaultKind.COMMAND_LOST, start=3.0, until=6.0), seconds=10) == [3.0, 4.0, 5.0]


def test_fault_strikes_at_most_its_limit() -> None:
    assert strikes(Fault(kind=FaultKind.COMMAND_LOST, most=2), seconds=10) == [0.0, 1.0]


def test_fault_strikes_at_its_rate() -> None:
    assert 150 < len(strikes(Fault(kind=FaultKind.COMMAND_LOST, rate=0.2), seconds=1000)) < 250


@pytest.mark.parametrize(
    ("scope", "where", "hit"),
    [
        ({"actor": "controller:*"}, {"actor": "controller:x"}, True),
        ({"actor": "controller:*"}, {"actor": "dispatcher"}, False),
        ({"process": "manager*"}, {"process": "manager-2"}, True),
        ({"process": "manager"}, {"process": "hollow"}, False),
        ({"resource": "pods"}, {"resource": "pods", "key": "default/a"}, True),
        ({"object": "default/*"}, {"resource": "pods", "key": "other/a"}, False),
    ],
)
def test_fault_strikes_in_its_scope_only(scope: dict[str, str], where: dict[str, str], hit: bool) -> None:
    assert bool(strikes(Fault(kind=FaultKind.COMMAND_LOST, **scope), seconds=1, **where)) is hit


def test_strikes_do_not_depend_on_other_faults_of_the_plan() -> None:
    kept = Fault(kind=FaultKind.COMMAND_LOST, rate=0.3)
    other = Fault(kind=FaultKind.COMMAND_LOST, rate=0.3, actor="nobody")

    def times(*plan: Fault) -> list[int]:
        injector = Injector(plan, seed=5, clock=VirtualClock())
        return [n for n in range(50) if injector.strike(FaultKind.COMMAND_LOST, actor="x") is not None]

    assert times(kept) == times(other, kept)


@given(st.sets(st.integers(0, 19), min_size=1, max_size=3))
@settings(max_examples=40, deadline=None)
def test_shrinking_keeps_only_necessary_faults(needed: set[int]) -> None:
    tried: Counter[tuple[int, ...]] = Counter()

    def fails(plan: tuple[int, ...]) -> bool:
        tried[plan] += 1
        return needed <= set(plan)

    assert set(shrunk(range(20), fails)) == needed
    assert sum(tried.values()) <= 200
