"""The event recorder: writes core/v1 Events for records of reconcilers, aggregated and rate limited as upstream.

Takes Record (its sender does not wait), Settled, Wake. Sends Submit.

Ten events within ten minutes that differ only in their message are combined. A repeated event increments its count by
a patch. One source may write 25 events about one object at once, then one every five minutes.

Source: kubernetes v1.36 client-go/tools/record/{events_cache,event}.go. Differs: a repeated event updates the write
that is still queued, so that a burst takes one write for each event instead of one for each repetition; upstream drops
events that it cannot write in time. Upstream's caches keep the newest 4,096 values; here values that are equal to new
ones because of their age are evicted earlier.
"""

from __future__ import annotations

import random
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar
from uuid import NAMESPACE_OID, uuid5

from msgspec import Struct, field
from msgspec.structs import replace

from kcm.actors.engine.vitals import RecorderVitals, RefusedEvents
from kcm.actors.reconciliation import actor_names
from kcm.protocols.messages.commands import Command, Create, Patch, PatchType, Submit
from kcm.protocols.messages.events import Record
from kcm.protocols.messages.lifecycle import Restarted, Wake
from kcm.protocols.messages.outcomes import Done, Forbidden, NotFound, Outcome, Refused, Settled, Unknown
from kcm.protocols.names import dns_subdomain
from kcm.protocols.objects import Object, encode_object, make_key
from kcm.protocols.resources import EVENTS
from kcm.protocols.times import format_time
from kcm.runtime.metrics.families import DISCARDED_EVENTS
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.limiters import TokenBucket
from kcm.runtime.system.actor import Actor, Context
from kcm.runtime.system.vitals import Vitals

MOST_WAITING = 1000  # further events are dropped
TRIES, RETRY_SECONDS = 12, 10.0
SIMILAR, SIMILAR_SECONDS = 10, 600.0
SPAM_BURST, SPAM_QPS = 25, 1 / 300
CACHE, SPARE = 4096, 128  # maximum number of values; number at which expired values are first evicted
COMBINED = "(combined from similar events): "

K = TypeVar("K")
V = TypeVar("V")


class _Recent(Generic[K, V]):
    """LRU cache: when it is full, it evicts the least recently used value."""

    def __init__(self, most: int = CACHE) -> None:
        self._most = most
        self._expire_at = SPARE  # number of values
        self._values: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def expire(self, is_as_new: Callable[[V], bool]) -> None:
        """Evict the values that are as new, so that their loss has no effect, each time the number has doubled."""
        if len(self._values) < self._expire_at:
            return
        for key in [key for key, value in self._values.items() if is_as_new(value)]:
            del self._values[key]
        self._expire_at = 2 * len(self._values) + SPARE

    def get(self, key: K, make: Callable[[], V]) -> V:
        value = self._values.get(key)
        if value is None:
            value = self._values[key] = make()
            if len(self._values) > self._most:
                self._values.popitem(last=False)
        else:
            self._values.move_to_end(key)
        return value


class _Similar(Struct):
    messages: set[str] = field(default_factory=set)
    last: float = 0.0


class _Written(Struct):
    """Event that was written before: its name, its count, and when it first occurred."""

    name: str = ""
    count: int = 0
    first: float = 0.0


class EventWrite(Struct, frozen=True):
    """Write of one Record: create the event, or, if count > 1, update the count of the event with this name."""

    name: str
    count: int
    first: float  # Unix seconds
    last: float  # Unix seconds
    message: str
    combined: bool  # the event represents events with different messages


class _Spam(Struct):
    """Rate limit of the events of one source about one object. discards: the latest event was discarded."""

    bucket: TokenBucket
    discards: bool = False


class Correlator:
    """Decides whether a Record is combined, counted or dropped as spam, like upstream's EventCorrelator."""

    def __init__(self) -> None:
        self._similar: _Recent[tuple[str, ...], _Similar] = _Recent()
        self._written: _Recent[tuple[str, ...], _Written] = _Recent()
        self._spam: _Recent[tuple[str, ...], _Spam] = _Recent()
        self._last_name = 0
        self.storm_begins = False  # whether the latest event is the first that exceeds the rate of its source

    def correlate(self, event: Record, now: float) -> EventWrite | None:
        """Return the write of this event, or None if its source exceeds its rate for this object."""
        self._similar.expire(lambda similar: now - similar.last > SIMILAR_SECONDS)
        self._spam.expire(lambda spam: spam.bucket.saturation(now) == 0.0)
        about = (event.component, event.kind, event.namespace, event.name, event.uid, event.api_version, event.cluster)
        kind_of = (*about, event.type, event.reason)
        identity = self._identity(event, kind_of, now)
        combined = identity == kind_of
        message = COMBINED + event.message if combined else event.message
        written = self._written.get(identity, _Written)
        written.count += 1
        if written.count == 1:
            written.name, written.first = self._new_name(event, now), now
        write = EventWrite(written.name, written.count, written.first, now, message, combined)
        spam = self._spam.get((*about, event.type), lambda: _Spam(TokenBucket(qps=SPAM_QPS, burst=SPAM_BURST, now=now)))
        is_written = spam.bucket.try_take(now)
        self.storm_begins = not is_written and not spam.discards
        spam.discards = not is_written
        return write if is_written else None

    def _identity(self, event: Record, kind_of: tuple[str, ...], now: float) -> tuple[str, ...]:
        """Return the key under which an event is counted. It contains the message until too many messages differ."""
        similar = self._similar.get(kind_of, _Similar)
        if now - similar.last > SIMILAR_SECONDS:
            similar.messages.clear()
        similar.last = now
        similar.messages.add(event.message)
        if len(similar.messages) < SIMILAR:
            return (*kind_of, event.field_path, event.message)
        # Upstream removes a random message. Removing the newest one keeps the first nine separate permanently.
        similar.messages.discard(event.message)
        return kind_of

    def forget(self, event: Record, write: EventWrite) -> None:
        """Restart the count of an event that was deleted on the server and is created again."""
        kind_of = (
            event.component,
            event.kind,
            event.namespace,
            event.name,
            event.uid,
            event.api_version,
            event.cluster,
            event.type,
            event.reason,
        )
        identity = kind_of if write.combined else (*kind_of, event.field_path, event.message)
        self._written.get(identity, _Written).count = 1

    def _new_name(self, event: Record, now: float) -> str:
        self._last_name = max(int(now * 1e9), self._last_name + 1)  # unique, even within one nanosecond
        name = f"{event.name}.{self._last_name:x}"
        # Names of RBAC objects may contain colons, and other names may be too long. Source: GenerateEventName.
        return str(uuid5(NAMESPACE_OID, f"{event.uid}/{name}")) if dns_subdomain(name) else name


def event_object(event: Record, write: EventWrite) -> Object:
    """Return the core/v1 Event of a write."""
    involved = {
        "kind": event.kind,
        "namespace": event.namespace,
        "name": event.name,
        "uid": event.uid,
        "apiVersion": event.api_version,
        "resourceVersion": event.resource_version,
        "fieldPath": event.field_path,
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": write.name, "namespace": event.namespace or "default"},
        "involvedObject": {name: value for name, value in involved.items() if value},
        "reason": event.reason,
        "message": write.message,
        "source": {"component": event.component, **({"host": event.host} if event.host else {})},
        "firstTimestamp": format_time(write.first),
        "lastTimestamp": format_time(write.last),
        "count": write.count,
        "type": event.type,
        "eventTime": None,
        # Upstream's aggregator does not set these two fields.
        "reportingComponent": "" if write.combined else event.component,
        "reportingInstance": "" if write.combined else event.host,
    }


class _Job(Struct):
    """Queued write."""

    event: Record
    write: EventWrite
    creates: bool  # create, otherwise patch; the count of a creation that waited may be above 1
    tries: int = 0


class EventRecorder(Actor):
    """Actor that writes Events, named "event-recorder", or "event-recorder:CLUSTER" for the controllers under a Lease.

    Each client has at most one write in flight, in order, as upstream; with several clusters, one on each of them.
    """

    def __init__(self, context: Context, *, vitals: Vitals, metrics: Metrics, seed: int | None = None) -> None:
        super().__init__(context)
        self._vitals, self._metrics = vitals, metrics
        self._refused: dict[str, RefusedEvents] = {}  # by client
        self._random = random.Random(seed)
        self._correlator = Correlator()
        # By lane, which is a client, with a cluster in front if the program has several. The first of each is in flight
        # or waits for its retry.
        self._waiting: dict[str, deque[_Job]] = {}
        self._unsent: dict[str, _Job] = {}  # by event name: the writes in _waiting that were not submitted yet
        self._sent: dict[int, str] = {}  # ticket → lane
        self._again: dict[str, float] = {}  # lane → when its first write is retried
        self._ticket = context.incarnation * 1_000_000_000
        self._dispatcher = 0  # last known incarnation

    def receive(self, message: Any) -> None:
        match message:
            case Record():
                self._record(message)
            case Settled(ticket=ticket):
                lane = self._sent.pop(ticket, None)
                if lane is not None:
                    self._settled(lane, message)
            case Wake():
                now = self.clock.monotonic()
                for lane in [lane for lane, due in self._again.items() if due <= now]:
                    del self._again[lane]
                    self._send(lane)
                self._ask_for_wake()
            case Restarted(name=actor_names.DISPATCHER):
                self._resend()
            case Restarted():
                pass
            case _:
                super().receive(message)

    def _record(self, event: Record) -> None:
        self.log.info(
            "Event occurred",
            v=0 if event.kind == "Lease" else 3,
            object=make_key(event.namespace, event.name),
            kind=event.kind,
            apiVersion=event.api_version,
            type=event.type,
            reason=event.reason,
            message=event.message,
        )
        write = self._correlator.correlate(event, self.clock.now())
        if write is None:
            self._discard(event)
            return
        if self._dispatcher != self.context.system.incarnation(actor_names.DISPATCHER):
            self._resend()  # the manager may have failed before it sent Restarted
        unsent = self._unsent.get(write.name)
        if unsent is not None:
            unsent.write = write
            return
        lane = f"{event.cluster}:{event.client}" if event.cluster else event.client
        waiting = self._waiting.setdefault(lane, deque())
        if len(waiting) >= MOST_WAITING:
            self._metrics.counter(DISCARDED_EVENTS, event.component, "backlog").inc()
            self.log.warning("event dropped, too many wait", client=event.client, reason=event.reason)
            return
        job = self._unsent[write.name] = _Job(event, write, creates=write.count == 1)
        waiting.append(job)
        if len(waiting) == 1:
            self._send(lane)

    def _discard(self, event: Record) -> None:
        self._metrics.counter(DISCARDED_EVENTS, event.component, "rate_limit").inc()
        if self._correlator.storm_begins:
            self.log.warning(
                "event storm: discarding events, because their source records too many about this object",
                component=event.component,
                object=make_key(event.namespace, event.name),
                kind=event.kind,
                type=event.type,
                reason=event.reason,
                message=event.message,
            )

    def _resend(self) -> None:
        """Submit all writes to a new dispatcher again. A repeated creation has the same name, so it is harmless."""
        self._dispatcher = self.context.system.incarnation(actor_names.DISPATCHER)
        for lane in list(self._sent.values()):
            self._send(lane)

    def _send(self, lane: str) -> None:
        job = self._waiting[lane][0]
        self._unsent.pop(job.write.name, None)
        self._sent = {ticket: owner for ticket, owner in self._sent.items() if owner != lane}
        self._ticket += 1
        self._sent[self._ticket] = lane
        self.tell(
            actor_names.DISPATCHER,
            Submit(self.name, self.context.incarnation, job.event.client, self._ticket, (self._command(job),)),
        )

    def _command(self, job: _Job) -> Command:
        event, write = job.event, job.write
        namespace, resource_id = event.namespace or "default", EVENTS.id
        if event.cluster:
            resource_id = EVENTS.on(event.cluster).id
        if not job.creates:
            changes = {
                "count": write.count,
                "lastTimestamp": format_time(write.last),
                "message": write.message,
            }
            key = make_key(namespace, write.name)
            return Patch(resource_id, key, encode_object(changes), PatchType.STRATEGIC, user=event.user)
        return Create(resource_id, namespace, encode_object(event_object(event, write)), user=event.user)

    def _settled(self, lane: str, settled: Settled) -> None:
        job = self._waiting[lane][0]
        if self._refused or type(settled.outcome) is Forbidden:
            self._note_refusal(job.event.client, job, settled.outcome)
        match settled.outcome:
            case Done():
                pass
            case NotFound() if not job.creates:
                job.write, job.creates = replace(job.write, count=1), True
                self._correlator.forget(job.event, job.write)
                self._send(lane)
                return
            case Unknown() | Refused() if job.tries + 1 < TRIES:
                # The first delay is random, so that clients do not all retry at once after an outage of the server.
                wait = RETRY_SECONDS * (self._random.random() if job.tries == 0 else 1.0)
                job.tries += 1
                self._again[lane] = self.clock.monotonic() + wait
                self._ask_for_wake()
                return
            case failure:
                self.log.info(
                    "event not written",
                    reason=job.event.reason,
                    key=make_key(job.event.namespace, job.event.name),
                    error=f"{type(failure).__name__}: {failure.message}",
                )
        self._waiting[lane].popleft()
        if self._waiting[lane]:
            self._send(lane)

    def _note_refusal(self, client: str, job: _Job, outcome: Outcome) -> None:
        """Publish for how long the events of a client have been refused. Any successful write ends that."""
        known = self._refused.get(client)
        if isinstance(outcome, Forbidden) and b"NamespaceTerminating" not in outcome.status:
            now = self.clock.monotonic()
            times, since = (1, now) if known is None else (known.times + 1, known.since)
            verb = "create" if job.creates else "patch"
            self._refused[client] = RefusedEvents(verb, times, since, now, outcome.message)
        elif isinstance(outcome, Done) and known is not None:
            del self._refused[client]
        else:
            return
        self._vitals.say(self.name, RecorderVitals(dict(self._refused)))

    def _ask_for_wake(self) -> None:
        if self._again:
            self.wake_at(min(self._again.values()))
