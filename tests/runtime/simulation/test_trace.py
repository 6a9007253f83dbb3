"""The trace of a run."""

from __future__ import annotations

from protocols.codec import encode
from protocols.messages.lifecycle import Pause, Ping
from runtime.simulation.trace import WIDTH, Trace


def test_the_digest_is_of_every_entry_also_those_that_are_not_kept() -> None:
    def trace(*words: str) -> Trace:
        made = Trace(kept=1)
        for word in words:
            made.note(0.0, "manager", "network", word)
        return made

    assert trace("a", "b").digest == trace("a", "b").digest
    assert len({trace("a", "b").digest, trace("b").digest, trace("b", "a").digest}) == 3
    assert [entry.text for entry in trace("a", "b").entries] == ["b"]


def test_the_last_lines_are_in_order_and_without_pings() -> None:
    trace = Trace()
    trace.handled(1.0, "manager", "a", encode(Pause("first")))
    trace.handled(2.0, "manager", "a", encode(Ping(7)))
    trace.note(3.0, "manager", "network", "POST arrives")
    assert [line.split(maxsplit=3)[3] for line in trace.last(5)] == ["Pause(controller='first')", "POST arrives"]
    assert len(trace.last(1)) == 1
    assert "POST" in trace.last(1)[0]


def test_a_frame_that_cannot_be_decoded_is_a_line_too() -> None:
    trace = Trace()
    trace.handled(1.0, "manager", "a", b"\xc1")
    assert "undecodable: " in trace.last(1)[0]


def test_long_messages_are_cut_off() -> None:
    trace = Trace()
    trace.note(1.0, "manager", "a", "x" * 1000)
    assert len(trace.last(1)[0]) == WIDTH
