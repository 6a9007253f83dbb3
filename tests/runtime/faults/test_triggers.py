"""Faults in a running system: their windows, and strikes from every thread."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from kcm.runtime.faults.plan_file import FaultPlan
from kcm.runtime.faults.triggers import Strikes
from kcm.runtime.faults.vocabulary import FaultKind, parse_faults
from kcm.runtime.simulation.clock import VirtualClock


def strikes(faults: str, clock: VirtualClock) -> Strikes:
    return Strikes(FaultPlan(seed=1, faults=parse_faults(faults)), clock=clock)


def test_windows_count_from_the_start_of_the_plan() -> None:
    clock = VirtualClock()
    clock.advance_to(1000.0)
    plan = strikes("actor-hung 5..10", clock)
    assert plan.moment(5.0) == 1005.0
    assert plan.strike(FaultKind.ACTOR_HUNG) is None
    clock.advance_to(1005.0)
    assert plan.monotonic() == 5.0
    assert plan.strike(FaultKind.ACTOR_HUNG) is not None


def test_a_plan_for_another_process_does_not_strike() -> None:
    plan = strikes("actor-hung process=hollow; actor-crashed process=manager", VirtualClock())
    assert plan.strike(FaultKind.ACTOR_HUNG) is None
    assert plan.strike(FaultKind.ACTOR_CRASHED) is not None


def test_the_strikes_of_all_threads_count_together() -> None:
    plan = strikes("actor-crashed most=100", VirtualClock())

    def many(_thread: int) -> int:
        return sum(plan.strike(FaultKind.ACTOR_CRASHED) is not None for _ in range(500))

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(many, range(8))) == 100
    assert plan.struck == {FaultKind.ACTOR_CRASHED: 100}


def test_a_fault_that_lasts_is_counted_when_it_begins() -> None:
    plan = strikes("server-away 0..5", VirtualClock())
    plan.happened(plan.faults[0])
    assert plan.struck == {FaultKind.SERVER_AWAY: 1}
