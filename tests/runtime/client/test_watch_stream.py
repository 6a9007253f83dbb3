from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm.runtime.client.api import Request, Response
from kcm.runtime.client.watch_stream import MOST_HELD, ClientStream, HeldLines, LineSplitter
from kcm.runtime.scheduling.clock import SystemClock
from kcm.runtime.simulation.clock import VirtualClock

REQUEST = Request(method="GET", path="/api/v1/pods")
PATIENCE = 10.0


@pytest.mark.parametrize(
    ("chunks", "pieces", "unfinished"),
    [
        ([b'{"a":1}\n'], [b'{"a":1}\n'], 0),
        ([b"one\ntwo\nthree\n"], [b"one\ntwo\nthree\n"], 0),
        ([b"one\ntw", b"o\n"], [b"one\n", b"two\n"], 0),
        ([b"on", b"e", b"\n"], [b"one\n"], 0),
        ([b"one\ntw"], [b"one\n"], 2),
        ([b"", b"one"], [], 3),
        ([b"\n", b"\n"], [b"\n", b"\n"], 0),
    ],
)
def test_chunk_delivers_all_lines_that_it_completes(chunks: list[bytes], pieces: list[bytes], unfinished: int) -> None:
    splitter = LineSplitter()
    assert [lines for chunk in chunks if (lines := splitter.feed(chunk))] == pieces
    assert splitter.unfinished == unfinished


@given(st.lists(st.binary(max_size=20).map(lambda chunk: chunk.replace(b"a", b"\n"))))
def test_every_complete_line_is_delivered_once_for_any_chunking(chunks: list[bytes]) -> None:
    splitter = LineSplitter()
    pieces = [splitter.feed(chunk) for chunk in chunks]
    whole, newline, rest = b"".join(chunks).rpartition(b"\n")
    assert b"".join(pieces) == whole + newline
    assert all(not lines or lines.endswith(b"\n") for lines in pieces)
    assert splitter.unfinished == len(rest)


def test_large_line_in_small_chunks_is_delivered_whole() -> None:
    splitter = LineSplitter()
    assert all(splitter.feed(b"x" * 1024) == b"" for _ in range(8192))
    assert splitter.feed(b"\n") == b"x" * (8 << 20) + b"\n"


def stream(**callbacks: object) -> ClientStream:
    defaults = {"on_lines": lambda lines: None, "on_end": lambda end: None, "stop": lambda stream: None}
    return ClientStream(REQUEST, client="tester", **{**defaults, **callbacks})  # type: ignore[arg-type]


def test_cancelled_watch_calls_no_callbacks() -> None:
    calls: list[object] = []
    watch = stream(on_lines=calls.append, on_end=calls.append)
    watch.cancel()
    watch.deliver(b"late\n")
    watch.end(Response(status=200))
    assert calls == []


def test_repeated_cancellation_stops_a_watch_once() -> None:
    stopped: list[ClientStream] = []
    watch = stream(stop=stopped.append)
    watch.cancel()
    watch.cancel()
    assert stopped == [watch]


def test_watch_ends_once_and_is_not_stopped_afterwards() -> None:
    ends: list[Response] = []
    stopped: list[ClientStream] = []
    watch = stream(on_end=ends.append, stop=stopped.append)
    watch.end(Response(status=200))
    watch.end(Response(status=0))
    watch.cancel()
    assert [end.status for end in ends] == [200]
    assert stopped == []


def test_on_end_may_cancel_the_watch() -> None:
    ends: list[Response] = []

    def on_end(end: Response) -> None:
        watch.cancel()
        ends.append(end)

    watch = stream(on_end=on_end)
    watch.end(Response(status=200))
    assert len(ends) == 1


def test_cancel_waits_for_an_on_end_that_is_running() -> None:
    in_callback, go_on = threading.Event(), threading.Event()
    order: list[str] = []

    def on_end(end: Response) -> None:
        in_callback.set()
        go_on.wait(PATIENCE)
        order.append("told")

    def cancel() -> None:
        watch.cancel()
        order.append("cancelled")

    watch = stream(on_end=on_end)
    ending = threading.Thread(target=watch.end, args=(Response(status=200),))
    ending.start()
    assert in_callback.wait(PATIENCE)
    cancelling = threading.Thread(target=cancel)
    cancelling.start()
    go_on.set()
    ending.join()
    cancelling.join()
    assert order == ["told", "cancelled"]


def held_lines(clock: VirtualClock, *, holds: bool = True) -> tuple[HeldLines, list[bytes]]:
    delivered: list[bytes] = []
    return HeldLines(delivered.append, clock=clock, every=1.0, holds=holds), delivered


def test_held_lines_are_delivered_together_after_a_while() -> None:
    clock = VirtualClock()
    held, delivered = held_lines(clock)
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
    held, delivered = held_lines(VirtualClock())
    assert not held.release()
    held.take(b"a\n")
    assert delivered == [b"a\n"]
    held.hold()
    held.take(b"b\n")
    assert delivered == [b"a\n"]


def test_held_bytes_are_bounded_and_forgotten_with_their_watch() -> None:
    clock = VirtualClock()
    held, delivered = held_lines(clock)
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
