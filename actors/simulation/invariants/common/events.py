"""Invariant of recorded events: the same event is not recorded repeatedly without a cause."""

from __future__ import annotations

import math
import re
from collections import deque

from msgspec import Struct

from kcm.actors.engine.event_recorder import SPAM_BURST
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.observer import (
    Admitted,
    Committed,
    Fail,
    Observation,
    ProcessStarted,
    Recorded,
)
from kcm.protocols.messages.events import Record
from kcm.protocols.objects import make_key, split_key
from kcm.runtime.apiserver.storage.store import MODIFIED, StoreChange

WINDOW = 60.0  # seconds
# With more events than this, the recorder would drop all events of the source about the object for minutes. Legitimate
# repetitions are fewer: a failure with a backoff that starts at 5 ms is recorded 14 times in a minute, and a resync
# every 15 s records 4 events.
MOST_EQUAL = SPAM_BURST
# Equal events within this time, in seconds, count as one event. A sync records an event for each pod that it fails to
# create or delete. The errors of a real server contain the name of the pod, so that these events differ; the errors of
# injected faults do not.
ONE_SYNC = 0.01
IGNORED = ("events", "leases.coordination.k8s.io")  # storages whose changes do not justify events

_GENERATION = re.compile(rb'"generation": ?(\d+)')


class _Repeated(Struct):
    """Equal events of one source.

    revision: revision of the newest change that may have caused an event, when the latest event was recorded.
    times: virtual times of the events that no change has caused, without those that count as one with another.
    latest: virtual time of the latest event that a change has caused, or that is in `times`.
    status_repeated: whether a change of the object's own status has justified an event since `revision`.
    """

    revision: int
    times: deque[float]
    latest: float = -math.inf
    status_repeated: bool = False


class NoEventStorm:
    """Invariant: no incarnation of an actor records the same event about an object repeatedly without a cause.

    Equal events have the same source, object, type, reason and message. Equal events of one sync count once. A
    repetition is justified by a change of another object in the namespace, or of the object's own spec, because
    controllers record a failure at each sync, as upstream does. A change of the object's status justifies one
    repetition after each of these changes: the controller writes the status after the first sync, and the write causes
    a second sync. Further changes of the status do not justify it, as a controller could cause them endlessly. A
    restarted actor counts as another source, because it retries failures with a new backoff.
    """

    name = "no event storm"
    observes = (ProcessStarted, Admitted, Committed, Recorded)

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._clock = cluster.clock
        self._repeated: dict[tuple[str, str], dict[tuple[str, ...], _Repeated]] = {}  # by process and actor
        self._incarnations: dict[tuple[str, str], int] = {}
        # By namespace, then storage and key: newest revision, in the order of these changes.
        self._changes: dict[str, dict[tuple[str, str], int]] = {}
        self._storages: set[str] = set()  # those of the changes
        self._specs: dict[tuple[str, str], int] = {}  # by storage and key: newest revision that changed the spec

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case ProcessStarted(process, _):
                self._repeated = {actor: known for actor, known in self._repeated.items() if actor[0] != process}
                self._incarnations = {
                    actor: number for actor, number in self._incarnations.items() if actor[0] != process
                }
            case Admitted(process, name, incarnation):
                if self._incarnations.get((process, name), incarnation) != incarnation:
                    self._repeated.pop((process, name), None)
                self._incarnations[process, name] = incarnation
            case Committed(changes):
                for change in changes:
                    if change.storage not in IGNORED:
                        self._changed(change)
            case Recorded(process, sender, event):
                self._recorded(self._repeated.setdefault((process, sender), {}), event, fail)

    def _changed(self, change: StoreChange) -> None:
        of_spec = change.type != MODIFIED or _generation(change.raw) != _generation(change.previous)
        changed = (change.storage, change.key)
        if of_spec:
            self._specs[changed] = change.revision
        namespace = split_key(change.key)[0]
        if namespace or of_spec:  # nodes report their status continuously
            changes = self._changes.setdefault(namespace, {})
            changes.pop(changed, None)  # the newest change is the last one
            changes[changed] = change.revision
            self._storages.add(change.storage)

    def _recorded(self, known: dict[tuple[str, ...], _Repeated], event: Record, fail: Fail) -> None:
        now = self._clock.monotonic()
        revision, status = self._newest_reasons(event)
        equal = known.setdefault(_identity(event), _Repeated(revision, deque()))
        if equal.revision != revision:
            equal.revision, equal.latest, equal.status_repeated = revision, now, False
        elif now - equal.latest >= ONE_SYNC:
            equal.latest = now
            if status > revision and not equal.status_repeated:
                equal.status_repeated = True
            else:
                equal.times.append(now)
        while equal.times and equal.times[0] < now - WINDOW:
            equal.times.popleft()
        if len(equal.times) > MOST_EQUAL:
            fail(
                f"{event.component} records {len(equal.times)} equal events about {event.kind} {_key(event)} within "
                f"{WINDOW:g} s without a cause: {event.type} {event.reason}: {event.message}"
            )

    def _newest_reasons(self, event: Record) -> tuple[int, int]:
        """Return the newest revisions of a change that may have caused the event, and of a change of its own object.

        A revision is 0 if there is no such change. A change of the object's status is only in the second revision.
        """
        newest = newest_own = 0
        key, beginning = _key(event), event.kind.lower()[:-1]
        own = {(storage, key) for storage in self._storages if storage.startswith(beginning)}
        for namespace in {"", event.namespace} if event.namespace else self._changes:
            changes = self._changes.get(namespace, {})
            others = (revision for changed, revision in reversed(changes.items()) if changed not in own)
            mine = [changed for changed in own if changed in changes]
            newest = max(newest, next(others, 0), *(self._specs.get(changed, 0) for changed in mine))
            newest_own = max(newest_own, 0, *(changes[changed] for changed in mine))
        return newest, newest_own


def _generation(raw: bytes) -> bytes:
    """Return metadata.generation without decoding the object, as this is called for every change; b"" if missing."""
    found = _GENERATION.search(raw)
    return b"" if found is None else found[1]


def _identity(event: Record) -> tuple[str, ...]:
    """Return the fields by which the recorder considers two events equal."""
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
    return make_key(event.namespace, event.name)
