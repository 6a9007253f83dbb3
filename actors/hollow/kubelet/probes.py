"""Results of probes as a function of time. No probe is executed, and no timer runs between two changes of a result.

A course lists the times from which on a container is healthy or unhealthy. A probe samples it every `period` seconds,
and its result changes after a number of equal samples. Times are seconds from the container's start.

Source: kubernetes v1.36 pkg/kubelet/prober/worker.go, doProbe. Unlike upstream, an event is recorded when the result
changes, not at each failure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple


class Probe(NamedTuple):
    """Settings of a probe.

    delay, period: seconds.
    failures, successes: number of consecutive samples that change its result.
    """

    delay: float = 0.0
    period: float = 10.0
    failures: int = 3
    successes: int = 1


class StateChange(NamedTuple):
    """Change of a course or of a probe's result, effective from `at`."""

    at: float
    good: bool


Course = Sequence[StateChange]
"""Ascending, the first one at 0, good and bad by turns."""


def probe_of(container: Mapping[str, Any], kind: str) -> Probe | None:
    """Return the settings of a probe; None if the container has none. kind: "readiness", "liveness" or "startup"."""
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
    """Return a course that is good between two times. good_until: None if it stays good."""
    if good_until is not None and good_until <= good_from:
        return (StateChange(0.0, False),)
    turns = [StateChange(0.0, True)] if good_from <= 0 else [StateChange(0.0, False), StateChange(good_from, True)]
    if good_until is not None:
        turns.append(StateChange(good_until, False))
    return turns


def verdicts(probe: Probe, course: Course, *, since: float = 0.0) -> Iterator[StateChange]:
    """Yield each change of the probe's result. since: earliest time of the first sample."""
    first = max(probe.delay, since)
    seen: list[tuple[int, bool]] = []  # (number of the first sample after a change of the course, result)
    for turn in course:
        number = max(0, math.ceil((turn.at - first) / probe.period))
        if seen and seen[-1][0] == number:
            seen.pop()  # no sample was taken between the last two changes
        if not seen or seen[-1][1] != turn.good:
            seen.append((number, turn.good))
    for index, (number, good) in enumerate(seen):
        decisive = number + (probe.successes if good else probe.failures) - 1
        if index + 1 == len(seen) or decisive < seen[index + 1][0]:
            yield StateChange(first + decisive * probe.period, good)


def first_verdict(probe: Probe, course: Course, *, good: bool, since: float = 0.0) -> float:
    """Return when the probe first has this result; math.inf if never."""
    return next((turn.at for turn in verdicts(probe, course, since=since) if turn.good == good), math.inf)


class ContainerReadiness(NamedTuple):
    """Readiness of a container. due: seconds from the start at which it next changes, None for never."""

    ready: bool
    due: float | None


def readiness(probe: Probe | None, course: Course, *, since: float, age: float) -> ContainerReadiness:
    """Return the readiness at `age`, in seconds from the start. since: time at which startup has finished.

    Without a probe, changes of the course take effect at once.
    """
    turns: Iterator[StateChange] = (StateChange(max(since, turn.at), turn.good) for turn in course)
    if probe is not None:
        turns = verdicts(probe, course, since=since)
    ready = False
    for turn in turns:
        if turn.at <= age:
            ready = turn.good
        elif turn.good != ready:
            return ContainerReadiness(ready, turn.at)
    return ContainerReadiness(ready, None)
