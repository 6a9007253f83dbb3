"""Events that controllers record about objects."""

from __future__ import annotations

from collections import deque

from actors.engine.event_recorder import SPAM_BURST
from actors.simulation import SimulatedCluster
from actors.simulation.invariants.observing import Fail, Observation, Recorded
from protocols.messages.recording import Record

WINDOW = 60.0  # seconds
# From then on the recorder drops what the same source records about the object, other events included, for minutes.
# Legitimate repetition stays below: a failure with backoff from 5 ms on is recorded 14 times in a minute, a resync
# every 15 s records 4 events.
MOST_EQUAL = SPAM_BURST


class NoEventStorm:
    """No object gets the same event again and again.

    Equal events have the same source, object, type, reason and message; those of a restarted manager are counted too.
    """

    name = "no event storm"
    observes = (Recorded,)

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._clock = cluster.clock
        self._times: dict[tuple[str, ...], deque[float]] = {}

    def observe(self, observation: Observation, fail: Fail) -> None:
        if not isinstance(observation, Recorded):
            return
        event, now = observation.record, self._clock.monotonic()
        times = self._times.setdefault(_identity(event), deque())
        times.append(now)
        while times[0] < now - WINDOW:
            times.popleft()
        if len(times) > MOST_EQUAL:
            fail(
                f"{event.component} records {len(times)} equal events about {event.kind} {_key(event)} within "
                f"{WINDOW:g} s: {event.type} {event.reason}: {event.message}"
            )


def _identity(event: Record) -> tuple[str, ...]:
    """What makes two events equal, as for the recorder."""
    return (
        event.component,
        event.kind,
        event.namespace,
        event.name,
        event.uid,
        event.type,
        event.reason,
        event.field_path,
        event.message,
    )


def _key(event: Record) -> str:
    return f"{event.namespace}/{event.name}" if event.namespace else event.name
