"""Case: one object of an explanation, as the rules see it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from kcm.actors.explanation.catalogue import CATALOGUE, ENDING
from kcm.actors.explanation.cause import Cause
from kcm.actors.explanation.evidence import Evidence, event_time, newest_event, time_of
from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import (
    Object,
    annotations_of,
    labels_of,
    make_key,
    name_of,
    namespace_of,
    uid_of,
)
from kcm.protocols.resources import Resource

DEEPEST = 8  # objects that a chain of causes passes through
MOST_FOLLOWED = 5  # dependents of one object that are looked at in detail


class Case:
    """Object with the evidence, and with the way to further objects.

    path: uids of the objects that led to this one.
    """

    def __init__(
        self,
        resource: Resource,
        obj: Object,
        evidence: Evidence,
        explain: Explain,
        path: tuple[str, ...] = (),
    ) -> None:
        self.resource, self.obj, self.evidence = resource, obj, evidence
        self._explain, self.path = explain, path

    # Parts of the object.

    @property
    def namespace(self) -> str:
        return namespace_of(self.obj)

    @property
    def name(self) -> str:
        return name_of(self.obj)

    @property
    def key(self) -> str:
        return make_key(self.namespace, self.name)

    @property
    def uid(self) -> str:
        return uid_of(self.obj)

    @property
    def about(self) -> str:
        return f"{self.resource.kind.lower()} {self.key}"

    @property
    def spec(self) -> Mapping[str, Any]:
        return self.obj.get("spec") or {}

    @property
    def status(self) -> Mapping[str, Any]:
        return self.obj.get("status") or {}

    @property
    def labels(self) -> Mapping[str, str]:
        return labels_of(self.obj)

    @property
    def annotations(self) -> Mapping[str, str]:
        return annotations_of(self.obj)

    @property
    def now(self) -> float:
        return self.evidence.now

    @property
    def created(self) -> float | None:
        return time_of((self.obj.get("metadata") or {}).get("creationTimestamp"))

    @property
    def deleted(self) -> float | None:
        """Return the time at which its deletion was requested, or at which its grace period ends."""
        return time_of((self.obj.get("metadata") or {}).get("deletionTimestamp"))

    @property
    def is_observed(self) -> bool:
        """Report whether its controller has seen its newest specification."""
        generation = (self.obj.get("metadata") or {}).get("generation") or 0
        return (self.status.get("observedGeneration") or 0) >= generation

    def condition(self, type: str) -> Mapping[str, Any] | None:
        return find_condition(self.status.get("conditions"), type)

    def condition_is(self, type: str, status: str) -> Mapping[str, Any] | None:
        """Return the condition if it has this status."""
        condition = self.condition(type)
        return condition if condition is not None and condition.get("status") == status else None

    def events(self) -> Sequence[Object]:
        return self.evidence.events(self.obj)

    def event(self, *reasons: str, within: float = 3600.0) -> Object | None:
        """Return its newest event with one of these reasons, if it is recent. within: seconds."""
        from_newest = newest_event(self.events(), *reasons)
        if from_newest is None:
            return None
        at = event_time(from_newest)
        return None if at is not None and self.now - at > within else dict(from_newest)

    def written(self, *fields: str) -> tuple[str, str] | None:
        """Return (field manager, time) of the latest write of a field; None if managedFields do not contain it.

        fields: path in managedFields, such as "f:spec", "f:unschedulable".
        """
        found: list[tuple[str, str]] = []
        for entry in (self.obj.get("metadata") or {}).get("managedFields") or ():
            part: Any = entry.get("fieldsV1") or {}
            for field in fields:
                part = part.get(field) if isinstance(part, dict) else None
            if part is not None:
                found.append((str(entry.get("manager")), str(entry.get("time"))))
        return max(found, key=lambda writer: writer[1], default=None)

    # Causes.

    def cause(
        self,
        code: str,
        summary: str,
        *evidence: str,
        controller: str = "",
        since: float | str | None = None,
        next_attempt: float | None = None,
        commands: Sequence[str] = (),
        about: str = "",
    ) -> Cause:
        """Return a cause of this object. since: Unix seconds, or a time of an object.

        Raises KeyError for a code that the catalogue does not contain.
        """
        known = CATALOGUE[code]
        namespace = f" -n {self.namespace}" if self.namespace else ""
        filled = known.command.format(
            kind=self.resource.kind.lower(), name=self.name, namespace=namespace, controller=controller
        )
        return Cause(
            code=code,
            about=about or self.about,
            summary=" ".join(summary.split()),
            evidence=tuple(" ".join(line.split()) for line in evidence if line),
            controller=controller,
            since=time_of(since) if isinstance(since, str) else since,
            next_attempt=next_attempt,
            commands=tuple(commands) or ((filled,) if filled else ()),
        )

    def follow(self, resource: Resource, obj: Object | None) -> Iterator[Cause]:
        """Yield the causes of another object, that this one waits for."""
        if obj is None or uid_of(obj) in (*self.path, self.uid) or len(self.path) >= DEEPEST:
            return
        yield from self._explain(Case(resource, obj, self.evidence, self._explain, (*self.path, self.uid)))


class Explain(Protocol):
    def __call__(self, case: Case, /) -> Iterable[Cause]: ...


def event_line(event: Mapping[str, Any] | None) -> str:
    """Return an event as a line of evidence, "" for None."""
    if event is None:
        return ""
    message = str(event.get("message") or event.get("note") or "")
    return f"event {event.get('reason')}: {message}"


def condition_line(condition: Mapping[str, Any] | None) -> str:
    """Return a condition as a line of evidence, "" for None."""
    if condition is None:
        return ""
    reason, message = condition.get("reason") or "", condition.get("message") or ""
    return f"condition {condition.get('type')}={condition.get('status')} {reason}: {message}".rstrip(": ")


def is_lasting(causes: Iterable[Cause]) -> bool:
    """Report whether one of the causes does not end by itself. False without causes."""
    return any(cause.code not in ENDING for cause in causes)


def grouped(causes: Iterable[Cause]) -> list[Cause]:
    """Return the causes with those of the same code and text as one, which names the further objects."""
    first: dict[tuple[str, str], Cause] = {}
    further: dict[tuple[str, str], list[str]] = {}
    for cause in causes:
        same = (cause.code, cause.summary)
        if same in first:
            further.setdefault(same, []).append(cause.about)
        else:
            first[same] = cause
    return [
        replace(cause, evidence=(*cause.evidence, f"also {', '.join(further[same])}")) if same in further else cause
        for same, cause in first.items()
    ]


def distinct(causes: Iterable[Cause]) -> list[Cause]:
    """Return the causes without repetitions, in order."""
    found: dict[tuple[str, str], Cause] = {}
    for cause in causes:
        found.setdefault((cause.code, cause.about), cause)
    return list(found.values())
