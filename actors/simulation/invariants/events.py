"""Events that controllers record about objects."""

from __future__ import annotations

from collections import deque

from actors.engine.event_recorder import SPAM_BURST
from actors.simulation import SimulatedCluster
from actors.simulation.invariants.observing import Admitted, Fail, Observation, ProcessStarted, Recorded
from protocols.messages.recording import Record

WINDOW = 60.0  # seconds
# From then on the recorder drops what the same source records about the object, other events included, for minutes.
# Legitimate repetition stays below: a failure with backoff from 5 ms on is recorded 14 times in a minute, a resync
# every 15 s records 4 events.
MOST_EQUAL = SPAM_BURST


class NoEventStorm:
    """No object gets the same event again and again from one incarnation of an actor.

    Equal events have the same source, object, type, reason and message. A restarted actor counts as another one, as it
    retries what failed with a new backoff.
    """

    name = "no event storm"
    observes = (ProcessStarted, Admitted, Recorded)

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._clock = cluster.clock
        self._times: dict[tuple[str, str], dict[tuple[str, ...], deque[float]]] = {}  # by process and actor
        self._incarnations: dict[tuple[str, str], int] = {}

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case ProcessStarted(process, _):
                self._times = {actor: times for actor, times in self._times.items() if actor[0] != process}
                self._incarnations = {
                    actor: number for actor, number in self._incarnations.items() if actor[0] != process
                }
            case Admitted(process, name, incarnation):
                if self._incarnations.get((process, name), incarnation) != incarnation:
                    self._times.pop((process, name), None)
                self._incarnations[process, name] = incarnation
            case Recorded(process, sender, event):
                self._recorded(self._times.setdefault((process, sender), {}), event, fail)

    def _recorded(self, times: dict[tuple[str, ...], deque[float]], event: Record, fail: Fail) -> None:
        now, equal = self._clock.monotonic(), times.setdefault(_identity(event), deque())
        equal.append(now)
        while equal[0] < now - WINDOW:
            equal.popleft()
        if len(equal) > MOST_EQUAL:
            fail(
                f"{event.component} records {len(equal)} equal events about {event.kind} {_key(event)} within "
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
