"""The trace of a run."""

from __future__ import annotations

from kcm.runtime.simulation.trace import Trace


def test_digest_depends_on_every_step_and_their_order() -> None:
    def trace(*words: str) -> Trace:
        made = Trace()
        for word in words:
            made.note(0.0, "manager", "cluster", word)
            made.handled(0.0, "manager", "a", word.encode())
        return made

    assert trace("a", "b").digest == trace("a", "b").digest
    assert len({trace("a", "b").digest, trace("b").digest, trace("b", "a").digest}) == 3


def test_notes_are_kept_and_other_steps_only_digested() -> None:
    trace = Trace()
    empty = trace.digest
    trace.note(1.0, "manager", "cluster", "process crashed")
    trace.passed(2.0, "manager", "POST arrives")
    trace.handled(3.0, "manager", "a", b"frame")
    assert [(note.at, note.text) for note in trace.notes] == [(1.0, "process crashed")]
    assert trace.digest != empty
