"""What probes find out about a container, as a function of time: nothing is asked, and no timer runs between changes.

A course says from when on a container does well or not; a probe sees it every `period` seconds, and changes its mind
after so many equal results. Times are seconds from the container's start.

Source: kubernetes v1.36 pkg/kubelet/prober/worker.go, doProbe. Unlike there, an event comes when a probe's verdict
changes, not at each failure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple


class Probe(NamedTuple):
    """delay, period: seconds. failures, successes: how many in a row change its verdict."""

    delay: float = 0.0
    period: float = 10.0
    failures: int = 3
    successes: int = 1


class Turn(NamedTuple):
    """From `at` on it is so."""

    at: float
    good: bool


Course = Sequence[Turn]
"""Ascending, the first one at 0, good and bad by turns."""


def probe_of(container: Mapping[str, Any], kind: str) -> Probe | None:
    """kind: "readiness", "liveness" or "startup"."""
    spec = container.get(f"{kind}Probe")
    if not spec:
        return None
    return Probe(
        float(spec.get("initialDelaySeconds") or 0),
        float(spec.get("periodSeconds") or 10),
        spec.get("failureThreshold") or 3,
        spec.get("successThreshold") or 1,
    )


def course(*, good_from: float = 0.0, good_until: float | None = None) -> Course:
    """Bad, then good, then bad for good. good_until: None for ever."""
    if good_until is not None and good_until <= good_from:
        return (Turn(0.0, False),)
    turns = [Turn(0.0, True)] if good_from <= 0 else [Turn(0.0, False), Turn(good_from, True)]
    if good_until is not None:
        turns.append(Turn(good_until, False))
    return turns


def verdicts(probe: Probe, course: Course, *, since: float = 0.0) -> Iterator[Turn]:
    """When the probe makes up its mind, and how, each time that it does. since: when it begins at the earliest."""
    first = max(probe.delay, since)
    seen: list[tuple[int, bool]] = []  # each turn, and the number of the first probe that sees it
    for turn in course:
        number = max(0, math.ceil((turn.at - first) / probe.period))
        if seen and seen[-1][0] == number:
            seen.pop()  # no probe fell into the last one
        if not seen or seen[-1][1] != turn.good:
            seen.append((number, turn.good))
    for index, (number, good) in enumerate(seen):
        decisive = number + (probe.successes if good else probe.failures) - 1
        if index + 1 == len(seen) or decisive < seen[index + 1][0]:
            yield Turn(first + decisive * probe.period, good)


def first_verdict(probe: Probe, course: Course, *, good: bool, since: float = 0.0) -> float:
    """math.inf if it never comes."""
    return next((turn.at for turn in verdicts(probe, course, since=since) if turn.good == good), math.inf)


class Readiness(NamedTuple):
    """due: when it changes next, seconds from the start; None for never."""

    ready: bool
    due: float | None


def readiness(probe: Probe | None, course: Course, *, since: float, age: float) -> Readiness:
    """since: when the container had started up. age: seconds from its start. Without a probe it is seen at once."""
    turns: Iterator[Turn] = (Turn(max(since, turn.at), turn.good) for turn in course)
    if probe is not None:
        turns = verdicts(probe, course, since=since)
    ready = False
    for turn in turns:
        if turn.at <= age:
            ready = turn.good
        elif turn.good != ready:
            return Readiness(ready, turn.at)
    return Readiness(ready, None)
