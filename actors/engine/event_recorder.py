"""The event recorder: turns what reconcilers record into core/v1 Events, without flooding anybody.

Takes Record (nobody waits for it), Settled, Wake. Tells Submit.

Events that are the same but for their text are combined once there are ten within ten minutes; the same event again
raises its count by a patch; and one source may say only so much about one object (25 at once, then one each five
minutes). Source: kubernetes v1.36 client-go/tools/record/{events_cache,event}.go.
"""

from __future__ import annotations

import random
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from actors.reconciliation import actor_names
from protocols.messages.commands import Command, Create, Patch, PatchType, Submit
from protocols.messages.lifecycle import Restarted, Wake
from protocols.messages.outcomes import Done, NotFound, Refused, Settled, Unknown
from protocols.messages.recording import Record
from protocols.objects import Object, encode_object, make_key
from protocols.resources import EVENTS
from protocols.times import format_time
from runtime.scheduling.limiters import TokenBucket
from runtime.system.actor import Actor, Context

MOST_WAITING = 1000  # further events are dropped
TRIES, RETRY_SECONDS = 12, 10.0
SIMILAR, SIMILAR_SECONDS = 10, 600.0
SPAM_BURST, SPAM_QPS = 25, 1 / 300
CACHE = 4096
COMBINED = "(combined from similar events): "

K = TypeVar("K")
V = TypeVar("V")


class _Recent(Generic[K, V]):
    """A dict that forgets what was not used for longest."""

    def __init__(self, most: int = CACHE) -> None:
        self._most = most
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K, make: Callable[[], V]) -> V:
        value = self._values.get(key)
        if value is None:
            value = self._values[key] = make()
            if len(self._values) > self._most:
                self._values.popitem(last=False)
        else:
            self._values.move_to_end(key)
        return value


@dataclass(slots=True)
class _Similar:
    messages: set[str] = field(default_factory=set)
    last: float = 0.0


@dataclass(slots=True)
class _Told:
    """An event that was told before: its name, and how often."""

    name: str = ""
    count: int = 0
    first: float = 0.0


@dataclass(frozen=True, slots=True)
class Telling:
    """What to do about one Record: create the event, or (count > 1) raise the count of the one with this name."""

    name: str
    count: int
    first: float
    last: float
    message: str


class Correlator:
    """Decides what becomes of a Record: combined, counted, or dropped as spam. `now` is in unix seconds."""

    def __init__(self) -> None:
        self._similar: _Recent[tuple[str, ...], _Similar] = _Recent()
        self._told: _Recent[tuple[str, ...], _Told] = _Recent()
        self._spam: _Recent[tuple[str, ...], TokenBucket] = _Recent()
        self._last_name = 0

    def correlate(self, event: Record, now: float) -> Telling | None:
        """None: this source has said enough about this object."""
        about = (event.component, event.kind, event.namespace, event.name, event.uid, event.api_version)
        kind_of = (*about, event.type, event.reason)
        message, identity = self._combine(event, kind_of, now)
        told = self._told.get(identity, _Told)
        told.count += 1
        if told.count == 1:
            told.name, told.first = self._new_name(event, now), now
        telling = Telling(told.name, told.count, told.first, now, message)
        spam = self._spam.get((*about, event.type), lambda: TokenBucket(qps=SPAM_QPS, burst=SPAM_BURST, now=now))
        return telling if spam.try_take(now) else None

    def _combine(self, event: Record, kind_of: tuple[str, ...], now: float) -> tuple[str, tuple[str, ...]]:
        """The text to tell, and what makes two events the same one."""
        similar = self._similar.get(kind_of, _Similar)
        if now - similar.last > SIMILAR_SECONDS:
            similar.messages.clear()
        similar.last = now
        similar.messages.add(event.message)
        if len(similar.messages) < SIMILAR:
            return event.message, (*kind_of, event.field_path, event.message)
        # Any may be forgotten, upstream's choice is random; without this one, the first nine are told apart for good.
        similar.messages.discard(event.message)
        return COMBINED + event.message, kind_of

    def forget(self, event: Record, telling: Telling) -> None:
        """Its event is gone from the server and told anew: count from there."""
        kind_of = (
            event.component,
            event.kind,
            event.namespace,
            event.name,
            event.uid,
            event.api_version,
            event.type,
            event.reason,
        )
        combined = telling.message.startswith(COMBINED)
        self._told.get(kind_of if combined else (*kind_of, event.field_path, event.message), _Told).count = 1

    def _new_name(self, event: Record, now: float) -> str:
        self._last_name = max(int(now * 1e9), self._last_name + 1)  # two in one nanosecond are two events all the same
        return f"{event.name}.{self._last_name:x}"


def event_object(event: Record, telling: Telling) -> Object:
    """The core/v1 Event."""
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
        "metadata": {"name": telling.name, "namespace": event.namespace or "default"},
        "involvedObject": {name: value for name, value in involved.items() if value},
        "reason": event.reason,
        "message": telling.message,
        "source": {"component": event.component},
        "firstTimestamp": format_time(telling.first),
        "lastTimestamp": format_time(telling.last),
        "count": telling.count,
        "type": event.type,
        "eventTime": None,
        # Upstream's aggregator forgets it.
        "reportingComponent": "" if telling.message.startswith(COMBINED) else event.component,
        "reportingInstance": "",
    }


@dataclass(slots=True)
class _Job:
    event: Record
    telling: Telling
    tries: int = 0


class EventRecorder(Actor):
    """See the module. One event is on its way at a time and client, in order, as upstream has one writer a source."""

    def __init__(self, context: Context, *, seed: int | None = None) -> None:
        super().__init__(context)
        self._random = random.Random(seed)
        self._correlator = Correlator()
        self._waiting: dict[str, deque[_Job]] = {}  # by client; the first of each is on its way or due again
        self._sent: dict[int, str] = {}  # ticket → client
        self._again: dict[str, float] = {}  # client → when its first is tried again
        self._ticket = context.incarnation * 1_000_000_000
        self._told_to = 0  # which incarnation of the dispatcher
        self.dropped = 0

    def receive(self, message: Any) -> None:
        match message:
            case Record():
                self._record(message)
            case Settled(ticket=ticket):
                client = self._sent.pop(ticket, None)
                if client is not None:
                    self._settled(client, message)
            case Wake():
                now = self.clock.monotonic()
                for client in [client for client, due in self._again.items() if due <= now]:
                    del self._again[client]
                    self._send(client)
                self._ask_for_wake()
            case Restarted(name=actor_names.DISPATCHER):
                self._tell_again()
            case Restarted():
                pass
            case _:
                super().receive(message)

    def _record(self, event: Record) -> None:
        telling = self._correlator.correlate(event, self.clock.now())
        if telling is None:
            return
        if self._told_to != self.context.system.incarnation(actor_names.DISPATCHER):
            self._tell_again()  # whoever was to say that it is another one may have failed while telling
        waiting = self._waiting.setdefault(event.client, deque())
        if len(waiting) >= MOST_WAITING:
            self.dropped += 1
            self.log.warning("event dropped, too many wait", client=event.client, reason=event.reason)
            return
        waiting.append(_Job(event, telling))
        if len(waiting) == 1:
            self._send(event.client)

    def _tell_again(self) -> None:
        """The dispatcher is new: what the one before it had not sent is lost, and what it had sent is there already."""
        self._told_to = self.context.system.incarnation(actor_names.DISPATCHER)
        for client in list(self._sent.values()):
            self._send(client)

    def _send(self, client: str) -> None:
        job = self._waiting[client][0]
        self._sent = {ticket: owner for ticket, owner in self._sent.items() if owner != client}
        self._ticket += 1
        self._sent[self._ticket] = client
        self.tell(
            actor_names.DISPATCHER,
            Submit(self.name, self.context.incarnation, client, self._ticket, (self._command(job),)),
        )

    def _command(self, job: _Job) -> Command:
        event, telling = job.event, job.telling
        namespace = event.namespace or "default"
        if telling.count > 1:
            changes = {
                "count": telling.count,
                "lastTimestamp": format_time(telling.last),
                "message": telling.message,
            }
            return Patch(EVENTS.id, make_key(namespace, telling.name), encode_object(changes), PatchType.STRATEGIC)
        return Create(EVENTS.id, namespace, encode_object(event_object(event, telling)))

    def _settled(self, client: str, settled: Settled) -> None:
        job = self._waiting[client][0]
        match settled.outcome:
            case Done():
                pass
            case NotFound() if job.telling.count > 1:
                job.telling = Telling(job.telling.name, 1, job.telling.first, job.telling.last, job.telling.message)
                self._correlator.forget(job.event, job.telling)
                self._send(client)
                return
            case Unknown() | Refused() if job.tries + 1 < TRIES:
                # The first wait is random, so that many clients of a server that was away do not come back at once.
                wait = RETRY_SECONDS * (self._random.random() if job.tries == 0 else 1.0)
                job.tries += 1
                self._again[client] = self.clock.monotonic() + wait
                self._ask_for_wake()
                return
            case failure:
                self.log.info(
                    "event not written",
                    reason=job.event.reason,
                    key=make_key(job.event.namespace, job.event.name),
                    error=f"{type(failure).__name__}: {failure.message}",
                )
        self._waiting[client].popleft()
        if self._waiting[client]:
            self._send(client)

    def _ask_for_wake(self) -> None:
        if self._again:
            self.wake_at(min(self._again.values()))
