"""Virtual time, and the clock of a simulated process."""

from __future__ import annotations

import pytest

from kcm.runtime.simulation.clock import START, ProcessClock, VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def run_until(clock: VirtualClock, when: float) -> None:
    clock.advance_to(when)
    while clock.run_due():
        pass


def test_alarms_are_triggered_by_time_and_then_in_the_order_set(clock: VirtualClock) -> None:
    sounded: list[str] = []
    clock.call_at("late", 5.0, lambda: sounded.append("late"))
    clock.call_once(2.0, lambda: sounded.append("first"))
    clock.call_at("other", 2.0, lambda: sounded.append("second"))
    assert clock.next_alarm() == 2.0
    run_until(clock, 4.9)
    assert sounded == ["first", "second"]
    run_until(clock, 5.0)
    assert sounded == ["first", "second", "late"]
    assert clock.next_alarm() is None


def test_a_later_alarm_of_one_name_replaces_the_earlier_and_can_be_cancelled(clock: VirtualClock) -> None:
    sounded: list[float] = []
    for when in (1.0, 3.0):
        clock.call_at("a", when, lambda: sounded.append(clock.monotonic()))
    run_until(clock, 2.0)
    assert sounded == []
    run_until(clock, 3.0)
    assert sounded == [3.0]
    clock.call_at("a", 4.0, lambda: sounded.append(clock.monotonic()))
    clock.cancel("a")
    run_until(clock, 9.0)
    assert sounded == [3.0]


def test_an_alarm_may_set_itself_again(clock: VirtualClock) -> None:
    sounded: list[float] = []

    def again() -> None:
        sounded.append(clock.monotonic())
        clock.call_at("a", clock.monotonic() + 1.0, again)

    clock.call_at("a", 1.0, again)
    for second in (1.0, 2.0, 3.0):
        run_until(clock, second)
    assert sounded == [1.0, 2.0, 3.0]


def test_time_never_goes_back(clock: VirtualClock) -> None:
    clock.advance_to(7.0)
    clock.advance_to(3.0)
    assert (clock.monotonic(), clock.now()) == (7.0, START + 7.0)


def test_skewed_wall_clock_does_not_change_monotonic_time(clock: VirtualClock) -> None:
    process = ProcessClock(clock)
    process.skew = -3600.0
    clock.advance_to(10.0)
    assert (process.monotonic(), process.now()) == (10.0, START + 10.0 - 3600.0)
    assert clock.now() == START + 10.0


def test_ended_process_has_no_alarms(clock: VirtualClock) -> None:
    process, sounded = ProcessClock(clock), []
    process.call_at("before", 1.0, lambda: sounded.append("before"))
    process.stop()
    process.call_at("after", 1.0, lambda: sounded.append("after"))
    run_until(clock, 2.0)
    assert sounded == []


def test_alarms_of_a_paused_process_are_triggered_afterwards(clock: VirtualClock) -> None:
    process, sounded = ProcessClock(clock), list[tuple[str, float]]()
    for who, when in (("first", 1.0), ("second", 2.0), ("cancelled", 2.0)):
        process.call_at(who, when, lambda who=who: sounded.append((who, process.monotonic())))  # type: ignore[misc]
    process.paused_until = 5.0
    run_until(clock, 4.0)
    process.cancel("cancelled")
    assert (process.monotonic(), sounded) == (4.0, [])
    run_until(clock, 5.0)
    assert sounded == [("first", 5.0), ("second", 5.0)]
