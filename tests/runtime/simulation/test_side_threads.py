"""A simulated thread beside the actors: it runs its tasks in order, and none after its process has ended."""

from __future__ import annotations

from kcm.runtime.simulation.clock import VirtualClock
from kcm.runtime.simulation.side_threads import SideThread


def run_until(clock: VirtualClock, when: float) -> None:
    while (alarm := clock.next_alarm()) is not None and alarm <= when:
        clock.advance_to(alarm)
        clock.run_due()
    clock.advance_to(when)


def test_task_runs_at_once() -> None:
    thread, done = SideThread(VirtualClock()), list[int]()
    thread.do(lambda: done.append(1))
    assert done == [1]


def test_tasks_of_a_blocked_thread_run_in_order_afterwards() -> None:
    clock = VirtualClock()
    thread, done = SideThread(clock), list[str]()
    thread.hold(2.0)
    thread.do(lambda: (done.append("a"), thread.do(lambda: done.append("from a"))))
    thread.do(lambda: done.append("b"))
    run_until(clock, 1.9)
    thread.hold(3.0)
    run_until(clock, 2.9)
    assert done == []
    run_until(clock, 3.0)
    assert done == ["a", "b", "from a"]
    thread.do(lambda: done.append("c"))
    assert done[-1] == "c"


def test_tasks_of_an_ended_process_do_not_run() -> None:
    clock = VirtualClock()
    thread, done = SideThread(clock), list[int]()
    thread.hold(1.0)
    thread.do(lambda: done.append(1))
    thread.stop()
    thread.do(lambda: done.append(2))
    run_until(clock, 5.0)
    assert done == []
