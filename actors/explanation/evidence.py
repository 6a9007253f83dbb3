"""Evidence of an explanation: objects, events and the state of the manager, read at most once and in bounded number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from kcm.actors.explanation.manager_state import ControllerState, ManagerView
from kcm.protocols.objects import Key, Object, controller_of, labels_of, make_key, name_of, namespace_of, uid_of
from kcm.protocols.resources import EVENTS, Resource
from kcm.protocols.selectors import LabelSelector, label_selector_of, map_selector
from kcm.protocols.times import parse_time

MOST_READS = 80  # of one explanation
MOST_LISTED = 500  # objects of one list


class ReadError(Exception):
    """An object could not be read. The text contains the reason."""


class Reader(Protocol):
    """Source of objects. Both methods may block, for a bounded time, and raise ReadError."""

    def get(self, resource: Resource, key: Key) -> Object | None: ...

    def list(self, resource: Resource, namespace: str, *, labels: str, most: int) -> Sequence[Object]:
        """Return at most `most` objects of a namespace; "" for all namespaces, and for cluster-scoped objects.

        labels: label selector, which may be ignored; "" for all objects.
        """

    def events(self, namespace: str, uid: str, *, most: int) -> Sequence[Object]:
        """Return events about the object with this uid."""

    def find(self, group: str, kind: str) -> Resource | None:
        """Return the served resource of a kind; None if it is not served. group: "" for the core group."""


class Evidence:
    """Reads of one explanation.

    now: Unix seconds.
    manager: None without a manager.
    cluster: of all objects, in a program that works on several; otherwise "".
    notes: what could not be read.
    """

    def __init__(self, reader: Reader, *, now: float, manager: ManagerView | None = None, cluster: str = "") -> None:
        self.now, self.manager, self.cluster = now, manager, cluster
        self.notes: list[str] = []
        self._reader, self._reads = reader, 0
        self._objects: dict[tuple[str, Key], Object | None] = {}
        self._unread: set[tuple[str, Key]] = set()
        self._lists: dict[tuple[str, str, str], Sequence[Object]] = {}
        self._events: dict[str, Sequence[Object]] = {}

    def get(self, resource: Resource, key: Key) -> Object | None:
        """Return an object; None if it does not exist, or if it could not be read, which adds a note."""
        place = (resource.id, key)
        if place not in self._objects:
            self._objects[place] = None
            if not self._may_read():
                self._unread.add(place)
                return None
            try:
                self._objects[place] = self._reader.get(resource, key)
            except ReadError as err:
                self._note(f"{resource.name} {key}: {err}")
                self._unread.add(place)
        return self._objects[place]

    def must_get(self, resource: Resource, key: Key) -> Object | None:
        """Return an object, None if it does not exist. Raises ReadError."""
        self._reads += 1
        found = self._reader.get(resource, key)
        self._objects[resource.id, key] = found
        return found

    def is_missing(self, resource: Resource, key: Key) -> bool:
        """Report whether an object surely does not exist. False if it could not be read."""
        return self.get(resource, key) is None and (resource.id, key) not in self._unread

    def list(self, resource: Resource, namespace: str = "", *, labels: str = "") -> Sequence[Object]:
        """Return the objects of a namespace, at most MOST_LISTED; none if they could not be read.

        labels: label selector, by which the result may be restricted.
        """
        place = (resource.id, namespace, labels)
        if place not in self._lists:
            found: Sequence[Object] = ()
            try:
                if self._may_read():
                    found = self._reader.list(resource, namespace, labels=labels, most=MOST_LISTED)
            except ReadError as err:
                self._note(f"{resource.name} in {namespace or 'all namespaces'}: {err}")
            if len(found) >= MOST_LISTED:
                self._note(f"only the first {MOST_LISTED} {resource.name} were read")
            self._lists[place] = found
        return self._lists[place]

    def selected(self, resource: Resource, namespace: str, selector: LabelSelector) -> Sequence[Object]:
        found = self.list(resource, namespace, labels=str(selector))
        return [obj for obj in found if selector.matches(labels_of(obj))]

    def owned(self, owner: Object, resource: Resource) -> Sequence[Object]:
        """Return the objects whose controller is this owner, and whose labels its selector matches, if it has one."""
        uid, labels = uid_of(owner), _selector_text(owner)
        return [
            obj
            for obj in self.list(resource, namespace_of(owner), labels=labels)
            if (ref := controller_of(obj)) is not None and ref.uid == uid
        ]

    def events(self, obj: Object) -> Sequence[Object]:
        """Return the events about an object, the newest first."""
        uid = uid_of(obj)
        if uid not in self._events:
            found: Sequence[Object] = ()
            try:
                found = self._reader.events(namespace_of(obj), uid, most=MOST_LISTED) if self._may_read() else ()
            except ReadError as err:
                self._note(f"{EVENTS.name} of {make_key(namespace_of(obj), name_of(obj))}: {err}")
            self._events[uid] = sorted(found, key=lambda event: -(event_time(event) or 0.0))
        return self._events[uid]

    def find(self, group: str, kind: str) -> Resource | None:
        try:
            return self._reader.find(group, kind)
        except ReadError as err:
            self._note(f"discovery: {err}")
            return None

    def controller(self, name: str) -> ControllerState | None:
        """Return the state of a controller; None without a manager, or for a controller that it does not have."""
        if self.manager is None:
            return None
        state = self.manager.controller(name)
        return state if state.known else None

    def age(self, text: object) -> float | None:
        """Return the seconds since a time of an object; None for a missing or malformed time."""
        at = time_of(text)
        return None if at is None else self.now - at

    def _may_read(self) -> bool:
        self._reads += 1
        if self._reads == MOST_READS + 1:
            self._note(f"more than {MOST_READS} reads: the rest was left out")
        return self._reads <= MOST_READS

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def _selector_text(owner: Object) -> str:
    """Return the selector of a workload as in queries; "" without one, and for a malformed one."""
    selector = (owner.get("spec") or {}).get("selector") or {}
    try:
        if "matchLabels" in selector or "matchExpressions" in selector:
            return str(label_selector_of(selector))
        return str(map_selector(selector))  # of a ReplicationController
    except (ValueError, TypeError, AttributeError):
        return ""


def time_of(text: object) -> float | None:
    """Return a time of an object in Unix seconds; None for a missing or malformed time."""
    if not isinstance(text, str) or not text:
        return None
    try:
        return parse_time(text)
    except ValueError:
        return None


def event_time(event: Mapping[str, Any]) -> float | None:
    """Return the latest time of an event in Unix seconds."""
    series = event.get("series") or {}
    times = (
        time_of(text)
        for text in (
            series.get("lastObservedTime"),
            event.get("lastTimestamp"),
            event.get("eventTime"),
            event.get("firstTimestamp"),
        )
    )
    return max((at for at in times if at is not None), default=None)


def newest_event(events: Iterable[Mapping[str, Any]], *reasons: str) -> Mapping[str, Any] | None:
    """Return the first event with one of these reasons; `events` begin with the newest."""
    return next((event for event in events if event.get("reason") in reasons), None)
