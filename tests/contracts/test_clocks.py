"""Contract of `Clock`: the system clock, those of the simulator and its processes, and one with injected jumps."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator

import pytest

from kcm.runtime.faults.actors import FaultyClock
from kcm.runtime.faults.plan_file import FaultPlan
from kcm.runtime.faults.triggers import Strikes
from kcm.runtime.faults.vocabulary import parse_faults
from kcm.runtime.scheduling.clock import Clock, SystemClock
from kcm.runtime.simulation.clock import ProcessClock, VirtualClock

PATIENCE = 10.0  # seconds
STEP = 0.01


class Side:
    """Clock, and how its time passes. pass_until: waits for the effect of an alarm."""

    def __init__(self, clock: Clock, *, virtual: VirtualClock | None = None, system: SystemClock | None = None) -> None:
        self.clock, self._virtual, self._system = clock, virtual, system
        self._moved = threading.Condition()
        self.sounded: list[str] = []

    def alarm(self, name: str) -> Callable[[], None]:
        def sound() -> None:
            with self._moved:
                self.sounded.append(name)
                self._moved.notify_all()

        return sound

    def pass_until(self, count: int) -> list[str]:
        """Wait until this number of alarms has gone off."""
        if self._virtual is not None:
            end = self._virtual.monotonic() + PATIENCE
            while (alarm := self._virtual.next_alarm()) is not None and alarm <= end and len(self.sounded) < count:
                self._virtual.advance_to(alarm)
                self._virtual.run_due()
        with self._moved:
            self._moved.wait_for(lambda: len(self.sounded) >= count, PATIENCE)
            return list(self.sounded)

    def close(self) -> None:
        if self._system is not None:
            self._system.close()


def system() -> Side:
    clock = SystemClock()
    return Side(clock, system=clock)


def virtual() -> Side:
    clock = VirtualClock()
    return Side(clock, virtual=clock)


def process() -> Side:
    base = VirtualClock()
    return Side(ProcessClock(base), virtual=base)


def set_forward() -> Side:
    clock = SystemClock()
    plan = FaultPlan(seed=1, faults=parse_faults("clock-jumped seconds=3600"))
    return Side(FaultyClock(clock, Strikes(plan, clock=clock)), system=clock)


@pytest.fixture(params=[system, virtual, process, set_forward], ids=lambda make: make.__name__)
def side(request: pytest.FixtureRequest) -> Iterator[Side]:
    made: Side = request.param()
    yield made
    made.close()


def test_alarms_sound_in_order_of_time_and_not_before(side: Side) -> None:
    now = side.clock.monotonic()
    side.clock.call_at("late", now + 2 * STEP, side.alarm("late"))
    side.clock.call_at("early", now + STEP, side.alarm("early"))
    side.clock.call_at("never", math.inf, side.alarm("never"))
    assert side.pass_until(2) == ["early", "late"]
    assert side.clock.monotonic() >= now + 2 * STEP


def test_a_name_has_one_alarm_and_a_cancelled_one_is_silent(side: Side) -> None:
    now = side.clock.monotonic()
    side.clock.call_at("a", now + STEP, side.alarm("replaced"))
    side.clock.call_at("a", now + 2 * STEP, side.alarm("a"))
    side.clock.call_at("b", now + STEP, side.alarm("cancelled"))
    side.clock.cancel("b")
    side.clock.cancel("nobody")
    side.clock.call_at("end", now + 3 * STEP, side.alarm("end"))
    assert side.pass_until(2) == ["a", "end"]


def test_an_alarm_that_is_due_already_sounds_and_may_set_itself_again(side: Side) -> None:
    def again() -> None:
        side.alarm("again")()
        if len(side.sounded) < 3:
            side.clock.call_at("again", side.clock.monotonic(), again)

    side.clock.call_at("again", side.clock.monotonic() - 5.0, again)
    assert side.pass_until(3) == ["again"] * 3


def test_time_does_not_go_back(side: Side) -> None:
    before = [side.clock.monotonic(), side.clock.now()]
    side.clock.call_at("a", before[0] + STEP, side.alarm("a"))
    side.pass_until(1)
    assert side.clock.monotonic() >= before[0] + STEP
    assert side.clock.now() >= before[1]
