"""Explanations as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from kcm.actors.explanation.cause import Cause, ControllerReport, Explanation
from kcm.protocols.times import human_duration


def text_of(explanation: Explanation) -> str:
    """Return an explanation as lines, which end in a newline."""
    return "\n".join(_lines(explanation)) + "\n"


def _lines(explanation: Explanation) -> Iterator[str]:
    at = explanation.at
    where = f" on cluster {explanation.cluster}" if explanation.cluster else ""
    if explanation.verdict == "not found":
        yield f"{explanation.summary}{where}"
    else:
        yield f"{explanation.about}{where}: {explanation.verdict}" + (
            "" if explanation.verdict == "nothing is wrong" else f": {explanation.summary}"
        )
    for number, cause in enumerate(explanation.causes, 1):
        yield ""
        yield from _cause(number, cause, at)
    if explanation.controllers:
        yield ""
        yield "Controllers:"
        for report in explanation.controllers:
            yield from _controller(report, at)
    if explanation.notes:
        yield ""
        yield from (f"Note: {note}" for note in explanation.notes)


def _cause(number: int, cause: Cause, at: float) -> Iterator[str]:
    yield f"{number}. {cause.about}: {cause.summary}  [{cause.code}]"
    when = []
    if cause.since is not None:
        when.append(f"for {human_duration(at - cause.since)}")
    if cause.next_attempt is not None:
        when.append(f"next attempt {_in(cause.next_attempt - at)}")
    if cause.controller:
        when.append(cause.controller)
    if when:
        yield f"   {', '.join(when)}"
    yield from (f"   - {line}" for line in cause.evidence)
    yield from (f"   $ {command}" for command in cause.commands)


def _in(seconds: float) -> str:
    return "now" if seconds <= 0 else f"in {human_duration(seconds)}"


def _controller(report: ControllerReport, at: float) -> Iterator[str]:
    parts = [report.state]
    if report.state == "delayed" and report.until is not None:
        parts = [f"looks again {_in(report.until - at)}"]
    elif report.since is not None:
        parts = [f"{report.state} for {human_duration(at - report.since)}"]
    if report.failures:
        parts.append(f"failed {report.failures} times in a row")
    if report.trouble:
        parts.append(report.trouble)
    yield f"  {report.name}: {', '.join(parts)}"
    if report.decided is not None:
        result = report.error or ("asked to look again later" if report.again is not None else "done")
        yield f"    last sync {human_duration(at - report.decided)} ago: {result}"
    yield from (f"    because {reason}" for reason in report.reasons)
    yield from (f"    {command}" for command in report.commands)
    yield from (f"    waits for {command}" for command in report.awaited)
