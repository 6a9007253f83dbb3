"""Lines that are held: order, bounds, and the threads that may release them."""

from __future__ import annotations

import threading

from kcm.runtime.client.watch_stream import MOST_HELD, HeldLines
from kcm.runtime.scheduling.clock import SystemClock
from kcm.runtime.simulation.clock import VirtualClock


def lines_of(clock: VirtualClock, *, holds: bool = True) -> tuple[HeldLines, list[bytes]]:
    delivered: list[bytes] = []
    return HeldLines(delivered.append, clock=clock, every=1.0, holds=holds), delivered


def test_lines_are_delivered_together_after_a_while() -> None:
    clock = VirtualClock()
    held, delivered = lines_of(clock)
    held.take(b"a\n")
    clock.advance_to(0.9)
    held.take(b"b\n")
    assert delivered == []
    clock.advance_to(1.0)
    assert clock.run_due()
    assert delivered == [b"a\nb\n"]
    held.take(b"c\n")
    assert held.release()
    assert delivered == [b"a\nb\n", b"c\n"]
    assert clock.next_alarm() is None


def test_lines_are_delivered_as_they_arrive_after_a_release() -> None:
    held, delivered = lines_of(VirtualClock())
    assert not held.release()
    held.take(b"a\n")
    assert delivered == [b"a\n"]
    held.hold()
    held.take(b"b\n")
    assert delivered == [b"a\n"]


def test_held_bytes_are_bounded_and_forgotten_with_their_watch() -> None:
    clock = VirtualClock()
    held, delivered = lines_of(clock)
    held.take(b"x" * MOST_HELD)
    assert delivered == [b"x" * MOST_HELD]
    held.take(b"a\n")
    held.drop()
    assert not held.release()
    assert clock.next_alarm() is None


def test_lines_stay_in_order_while_another_thread_releases_them() -> None:
    delivered: list[bytes] = []
    clock = SystemClock()
    held = HeldLines(delivered.append, clock=clock, every=60.0, holds=True)
    ended = threading.Event()

    def switch() -> None:
        while not ended.is_set():
            held.release()
            held.hold()

    other = threading.Thread(target=switch)
    other.start()
    for number in range(2000):
        held.take(b"%d\n" % number)
    ended.set()
    other.join()
    held.release()
    clock.close()
    assert b"".join(delivered).split() == [b"%d" % number for number in range(2000)]
