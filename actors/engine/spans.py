"""Spans of reconciliations and of the commands that they submit.

A reconciliation is the root of a trace, with one child for each command. Its links name what caused it: the write whose
result a watch event showed, and the trace context in the annotation of the object that it reconciles. The parent of a
write follows from Submit, which names the sender, the queue and the key.

Imports the API of OpenTelemetry, so it is imported only by a system that has a tracer.

Source: KEP-5915 (links instead of parents across asynchronous boundaries), kubernetes/enhancements
keps/sig-instrumentation/5915-async-trace-context-propagation.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace
from opentelemetry.context import Context as SpanContexts
from opentelemetry.trace import (
    Link,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    set_span_in_context,
)

from kcm.actors.engine.controller.keys import Route
from kcm.actors.engine.controller.retries import KINDS, error_kind, one_line, result_of
from kcm.actors.engine.controller.settings import ControllerSettings
from kcm.actors.reconciliation import Change, RequeueAfter, Watch, itself
from kcm.actors.reconciliation.actor_names import controller_of
from kcm.protocols.messages.calls import Call
from kcm.protocols.messages.commands import (
    Command,
    Create,
    Delete,
    DeleteCollection,
    Get,
    List,
    Patch,
    Submit,
    Update,
    in_words,
    object_in_words,
)
from kcm.protocols.messages.outcomes import Done, Outcome, Unknown
from kcm.protocols.objects import Key
from kcm.protocols.resources import name_of_resource
from kcm.protocols.versions import own_state, parse_version
from kcm.runtime.client.api import Request
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.scheduling.work_queue import WorkQueue
from kcm.runtime.tables.tables import Tables

ANNOTATION = "tracing.k8s.io/traceparent"
MOST_CAUSES = 8  # watch events that are remembered for a queued key, the newest
MOST_WRITTEN = 10_000  # objects with traced writes whose watch events are recognized, the newest
MOST_VERSIONS = 4  # traced writes of one object whose watch events are recognized, the newest
MOST_RETRIED = 10_000  # failing keys whose retries are counted
NANOSECONDS = 1_000_000_000
ROOT = SpanContexts()  # without a parent
_ANNOTATION = ANNOTATION.encode()
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_CHANGES = (Create, Update, Patch, Delete)
_OF_RESOURCES = (*_CHANGES, DeleteCollection, Get, List)
_TaskId = tuple[str, str, str]  # actor of the controller, queue, key
_Shown = tuple[str, Key, int]  # Resource.id, key and version of the object in an event; 0: deleted, -1: unknown


class _WakingEvent(Struct, frozen=True):
    """Watch event that enqueued a key."""

    resource: str  # Resource.id
    change: Change


class _Write(Struct, frozen=True):
    """Traced write that succeeded. version: resourceVersion of its result; 0 for a deletion."""

    version: int
    span: SpanContext


class _Controller(Struct, frozen=True):
    """State of one incarnation of a controller.

    objects: by queue, the resources whose objects' keys are those of the queue.
    events: by queue and key, the events since the last reconciliation of the key.
    """

    incarnation: int
    tables: Tables
    objects: Mapping[str, tuple[str, ...]]
    events: dict[tuple[str, str], list[_WakingEvent]] = field(default_factory=dict)


class _Reconciliation(Struct, frozen=True):
    """Running reconciliation. unexplained: the events that woke it and whose writes are not known yet."""

    span: Span
    incarnation: int
    unexplained: tuple[_Shown, ...] = ()


class WriteSpan:
    """Span of one command, from its submission to its outcome."""

    __slots__ = ("_command", "_span", "_tracing")

    def __init__(self, tracing: Tracing, span: Span, command: Command) -> None:
        self._tracing, self._span, self._command = tracing, span, command

    def sent(self, request: Request) -> Request:
        """Record that the request is sent now. Return it with the header traceparent."""
        self._span.set_attributes({"http.request.method": request.method, "url.path": request.path})
        self._span.add_event("sent", timestamp=self._tracing.now())
        return replace(request, traceparent=traceparent(self._span.get_span_context()))

    def responded(self, status: int) -> None:
        """Record the status of the response; 0 without a response."""
        if status:
            self._span.set_attribute("http.response.status_code", status)

    def end(self, outcome: Outcome) -> None:
        span, name = self._span, type(outcome).__name__
        span.set_attributes({"kcm.outcome": name, "kcm.outcome_unknown": isinstance(outcome, Unknown)})
        if isinstance(outcome, Done):
            version = self._tracing.remember(self._command, outcome, span.get_span_context())
            if version:
                span.set_attribute("kcm.resource_version", str(version))
        else:
            span.set_attribute("error.type", KINDS[type(outcome)])
            span.set_status(Status(StatusCode.ERROR, f"{name}: {outcome.message}"))
        span.end(self._tracing.now())


class Tracing:
    """Spans of one system. Methods are called on the threads of the actors and of the transport.

    A reconciliation that is not sampled has no further cost: its commands have no spans.
    """

    def __init__(self, tracer: Tracer, *, clock: Clock, handled_now: Callable[[], int]) -> None:
        """Create it without spans. handled_now: see ActorSystem.handled_now."""
        self._tracer, self._clock, self._handled_now = tracer, clock, handled_now
        self._controllers: dict[str, _Controller] = {}  # by actor
        self._running: dict[_TaskId, _Reconciliation] = {}
        self._retries: dict[_TaskId, int] = {}
        # Traced writes by Resource.id and key; objects and writes are in the order of the writes.
        self._writes: dict[tuple[str, Key], tuple[_Write, ...]] = {}
        # Spans of running reconciliations whose events may precede the responses to the writes that caused them.
        self._unexplained: dict[_Shown, list[Span]] = {}

    def now(self) -> int:
        """Return the time of spans: nanoseconds since 1970."""
        return int(self._clock.now() * NANOSECONDS)

    def follow(
        self,
        actor: str,
        incarnation: int,
        *,
        settings: ControllerSettings,
        tables: Tables,
        queues: Mapping[str, WorkQueue[Any]],
    ) -> list[Route]:
        """Begin to trace an incarnation of a controller. Return its routes, which note the events that enqueue keys."""
        objects = {
            queue.name: tuple(watch.resource.id for watch in queue.watches if watch.to is itself)
            for queue in settings.queues
        }
        controller = self._controllers[actor] = _Controller(incarnation, tables, objects)
        return [
            (_noting(watch, controller, queue.name), queues[queue.name])
            for queue in settings.queues
            for watch in queue.watches
        ]

    def begin(self, actor: str, queue: str, key: str) -> None:
        """Begin the span of a reconciliation. An entry of ActorSystem.beginnings."""
        controller = self._controllers.get(actor)
        if controller is None:
            return
        events = controller.events.pop((queue, key), ())
        shown = dict.fromkeys(map(_shown, events))
        explained = {event: link for event in shown if (link := self._write_link(event)) is not None}
        links = [*explained.values(), *_annotation_links(controller, queue, key)]
        span = self._tracer.start_span(
            f"reconcile {queue}", ROOT, SpanKind.CONSUMER, links=links, start_time=self.now()
        )
        task = (actor, queue, key)
        if not span.is_recording():
            return
        attributes: dict[str, Any] = {
            "kcm.controller": controller_of(actor) or actor,
            "kcm.queue": queue,
            "kcm.key": key,
            "kcm.incarnation": controller.incarnation,
            "kcm.retries": self._retries.get(task, 0),
        }
        if events:
            attributes["kcm.woken_by"] = [_event_in_words(event) for event in events]
        if message := self._handled_now():
            attributes["kcm.journal.message"] = message
        span.set_attributes(attributes)
        unexplained = tuple(event for event in shown if event not in explained)
        self._running[task] = _Reconciliation(span, controller.incarnation, unexplained)
        for event in unexplained:
            self._unexplained.setdefault(event, []).append(span)
            if (late := self._write_link(event)) is not None:
                self._explain(event, late)

    def end(self, actor: str, queue: str, key: str, result: object) -> None:
        """End the span of a reconciliation. An entry of ActorSystem.endings.

        Results and types of errors are those of kcm_reconciliations_total and kcm_reconcile_errors_total.
        """
        task = (actor, queue, key)
        running = self._running.pop(task, None)
        self._count_retries(task, result)
        if running is None:
            return
        span = running.span
        for event in running.unexplained:
            waiting = self._unexplained.get(event, [])
            with contextlib.suppress(ValueError):
                waiting.remove(span)
            if not waiting:
                self._unexplained.pop(event, None)
        match result:
            case RequeueAfter(seconds=seconds):
                span.set_attributes({"kcm.result": "requeue_after", "kcm.requeue_after_seconds": float(seconds)})
            case Exception() if (requested := result_of(result)) != "error":
                span.set_attributes({"kcm.result": requested, "kcm.requeue_reason": one_line(result)})
            case Exception():
                span.set_attributes({"kcm.result": "error", "error.type": error_kind(result)})
                span.set_status(Status(StatusCode.ERROR, one_line(result)))
            case _:
                span.set_attribute("kcm.result", "success")
        span.end(self.now())

    def begin_writes(self, submit: Submit, cause: int) -> Sequence[WriteSpan] | None:
        """Begin the spans of the commands; None if no sampled reconciliation submitted them.

        cause: number of the Submit in the journal; 0 without a journal.
        """
        running = self._running.get((submit.sender, submit.queue, submit.key))
        if running is None or running.incarnation != submit.incarnation:
            return None
        parent, now = set_span_in_context(running.span, ROOT), self.now()
        spans = []
        for command in submit.commands:
            attributes = _attributes(command)
            if cause:
                attributes["kcm.journal.message"] = cause
            span = self._tracer.start_span(_span_name(command), parent, SpanKind.CLIENT, attributes, start_time=now)
            spans.append(WriteSpan(self, span, command))
        return spans

    def remember(self, command: Command, outcome: Done, span: SpanContext) -> int:
        """Remember a write, so that its watch event links to it. Return the resourceVersion of its result, or 0."""
        if not isinstance(command, _CHANGES):
            return 0
        state = own_state(outcome.body)
        if isinstance(command, Delete):
            key, version = command.key, 0
        elif state is None or (isinstance(command, Create) and command.subresource):
            return 0
        else:
            key, version = state.key, state.version
        writes = self._writes
        earlier = writes.pop((command.resource, key), ())
        writes[command.resource, key] = (*earlier, _Write(version, span))[-MOST_VERSIONS:]
        if len(writes) > MOST_WRITTEN:
            with contextlib.suppress(RuntimeError, KeyError):  # another thread changes it; the next call drops more
                del writes[next(iter(writes))]
        shown = (command.resource, key, version)
        if shown in self._unexplained:
            self._explain(shown, _link_to(span))
        return version

    def _write_link(self, event: _Shown) -> Link | None:
        """Return a link to the newest traced write whose result this event showed, or None."""
        resource, key, version = event
        for write in reversed(self._writes.get((resource, key), ())):
            if write.version == version:
                return _link_to(write.span)
        return None

    def _explain(self, event: _Shown, link: Link) -> None:
        """Link the running reconciliations that this event woke before the response to its write arrived."""
        for span in self._unexplained.pop(event, ()):
            if span.is_recording():
                span.add_link(link.context, link.attributes)

    def _count_retries(self, task: _TaskId, result: object) -> None:
        if not isinstance(result, Exception):
            self._retries.pop(task, None)
        elif task in self._retries or len(self._retries) < MOST_RETRIED:
            self._retries[task] = self._retries.get(task, 0) + 1


def traceparent(span: SpanContext) -> str:
    """Return the W3C header of a sampled span.

    The flag for random trace ids is omitted, because releases of OpenTelemetry for Go reject it.
    """
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-01"


def parse_traceparent(text: object) -> SpanContext | None:
    """Return the span that a W3C traceparent names; None if it is invalid."""
    found = _TRACEPARENT.fullmatch(text) if isinstance(text, str) else None
    if found is None or (found[4] and found[0].startswith("00")):
        return None
    sampled = int(found[3], 16) & TraceFlags.SAMPLED
    return SpanContext(int(found[1], 16), int(found[2], 16), is_remote=True, trace_flags=TraceFlags(sampled))


def _noting(watch: Watch[Any], controller: _Controller, queue: str) -> Watch[Any]:
    """Return the watch with a `to` that notes the changes by the keys that they enqueue."""
    to, resource, noted = watch.to, watch.resource.id, controller.events

    def noting_to(change: Change, tables: Tables) -> Iterable[Any]:
        keys = to(change, tables)
        if isinstance(keys, str):
            return keys  # a mistake, which the caller reports
        keys = tuple(keys)
        for key in keys:
            events = noted.setdefault((queue, str(key)), [])
            events.append(_WakingEvent(resource, change))
            if len(events) > MOST_CAUSES:
                del events[0]
        return keys

    return replace(watch, to=noting_to)


def _annotation_links(controller: _Controller, queue: str, key: str) -> list[Link]:
    """Return links to the spans that the annotation of the reconciled object names."""
    links = []
    for resource_id in controller.objects.get(queue, ()):
        overlay = controller.tables.overlay(resource_id)
        entry = overlay.get(key) if overlay is not None else None
        if entry is not None and _ANNOTATION in entry.raw:
            annotations = Change.of_entry(entry).new["metadata"].get("annotations") or {}
            span = parse_traceparent(annotations.get(ANNOTATION))
            if span is not None:
                links.append(Link(span, {"kcm.cause": "annotation"}))
    return links


def _link_to(write: SpanContext) -> Link:
    return Link(write, {"kcm.cause": "write"})


def _shown(event: _WakingEvent) -> _Shown:
    change = event.change
    return event.resource, change.key, 0 if change.deleted else _version(change) or -1


def _version(change: Change) -> int | None:
    return parse_version(change.new["metadata"].get("resourceVersion"))


def _event_in_words(event: _WakingEvent) -> str:
    change = event.change
    return f"{change.type} {name_of_resource(event.resource)} {change.key} at {_version(change)}"


def _span_name(command: Command) -> str:
    if isinstance(command, _OF_RESOURCES):
        return f"{_verb(command)} {name_of_resource(command.resource)}"
    return f"call {command.function}" if isinstance(command, Call) else _verb(command)


def _verb(command: Command) -> str:
    return type(command).__name__.lower()  # as in rules of RBAC: create, update, patch, delete, deletecollection, …


def _attributes(command: Command) -> dict[str, Any]:
    if not isinstance(command, _OF_RESOURCES):
        return {"kcm.command": in_words(command)}
    attributes: dict[str, Any] = {
        "kcm.verb": _verb(command),
        "kcm.resource": name_of_resource(command.resource),
        "kcm.object": object_in_words(command),
    }
    subresource = getattr(command, "subresource", "")
    return {**attributes, "kcm.subresource": subresource} if subresource else attributes
