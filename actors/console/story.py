"""Story of one object: its changes, events, decisions and commands in one timeline, and the objects around it.

The object is read from the tables of the manager, and its events from the API server. Its spec and data are not shown.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import orjson

from kcm.actors.app.controller_plans import queue_name
from kcm.actors.app.system import ControllerSystem
from kcm.actors.engine.controller import SyncDecision
from kcm.actors.engine.controller.decisions import Sent
from kcm.actors.reconciliation import itself
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.protocols.messages.commands import Create
from kcm.protocols.messages.outcomes import Done
from kcm.protocols.objects import Key, make_key, split_key
from kcm.protocols.resources import EVENTS, Resource, resource_path
from kcm.protocols.times import parse_time
from kcm.runtime.client.api import Request, Response
from kcm.runtime.tables.entry import OWNER, Entry
from kcm.runtime.tables.table import Table

Send = Callable[[Request], Response]
EVENTS_EVERY = 3  # samples between two requests for events
MOST_EVENTS = 200
MOST_ENTRIES = 300
CREATED_WITHIN = 2.0  # seconds between a command that creates an object and its creationTimestamp, in whole seconds
MOST_RELATED = 60
DEEPEST = 4  # owners of owners, and dependents of dependents
ANSWERED_WITHIN = 3.0  # seconds


class StoryTopic:
    """Rows "object", "graph" and "entry/…" in the order of time."""

    def __init__(self, system: ControllerSystem, send: Send | None, *, kind: str, namespace: str, name: str) -> None:
        """Create the topic.

        send: sends a request to the API server; None to leave the events out.
        kind: "Pod", "pods" or "pods.v1", with the group for a resource whose kind is not unique.

        Raises LookupError for a kind without a table.
        """
        self._system, self._send = system, send
        self._table = table_of_kind(system.tables, kind)
        self._namespace, self._name = namespace, name
        self._key = make_key(namespace, name)
        self._specs = [spec for spec in system.controllers if spec.name in system.enabled]
        self._owns = {spec.name: owned_by_queues(spec) for spec in self._specs}
        self._samples, self._events = 0, list[dict[str, Any]]()
        self._events_problem = ""

    def sample(self) -> dict[str, Any]:
        resource, entry = self._table.resource, self._table.get(self._key)
        if self._send is not None and self._samples % EVENTS_EVERY == 0:
            self._read_events(self._send)
        self._samples += 1
        obj = orjson.loads(entry.raw) if entry is not None else None
        created = None if obj is None else seconds(obj["metadata"].get("creationTimestamp"))
        entries = [
            *(changes_of(obj) if obj is not None else ()),
            *map(event_entry, self._events),
            *self._decided(entry, created),
        ]
        rows: dict[str, Any] = {
            "object": {
                "kind": resource.kind,
                "resource": resource.id,
                "namespace": self._namespace,
                "name": self._name,
                "eventsProblem": self._events_problem,
                **(summary_of(obj) if obj is not None else {"exists": False}),
            },
            "graph": related(self._system.tables, self._table, entry),
        }
        entries.sort(key=lambda line: line["at"])
        for line in entries[-MOST_ENTRIES:]:
            digest = zlib.crc32(orjson.dumps(line))
            rows[f"entry/{line['at']:.3f}/{digest:08x}"] = line
        return rows

    def _read_events(self, send: Send) -> None:
        kind = self._table.resource.kind
        selector = f"involvedObject.kind={kind},involvedObject.name={self._name}"
        response = send(
            Request(
                method="GET",
                path=resource_path(EVENTS.id, self._namespace or "default"),
                query={"fieldSelector": selector, "limit": str(MOST_EVENTS)},
                timeout=ANSWERED_WITHIN,
            )
        )
        if response.status == 200:
            self._events, self._events_problem = orjson.loads(response.body)["items"], ""
        else:
            self._events_problem = response.error or f"the API server responds with status {response.status}"

    def _decided(self, entry: Entry | None, created: float | None) -> Iterator[dict[str, Any]]:
        """Yield the decisions about the object, and commands of others that concern it.

        created: creationTimestamp of the object.
        """
        system, resource = self._system, self._table.resource
        offset = system.clock.now() - system.clock.monotonic()
        for spec in self._specs:
            owns = self._owns[spec.name]
            known = system.decisions(spec.name)
            decisions = known.recent()
            if any(about.id == resource.id for about in owns.values()):
                latest = [decision for decision in known.of(self._key) if decision.queue in owns]
                decisions = [*(decision for decision in latest if decision not in decisions), *decisions]
            for decision in decisions:
                about = owns.get(decision.queue)
                if about is not None and about.id == resource.id and decision.key == self._key:
                    yield decision_entry(spec.name, decision, offset)
                    continue
                is_owner = is_owned_by(entry, about, decision.key)
                near = created is not None and abs(decision.ended + offset - created) < CREATED_WITHIN
                for sent, command in zip(decision.sent, decision.commands, strict=True):
                    if not concerns(sent, resource.id, self._key, created_by_owner=is_owner and near):
                        continue
                    yield {
                        "at": round(decision.ended + offset, 3),
                        "kind": "command",
                        "title": str(command),
                        "who": spec.name,
                        "bad": command.outcome is not Done,
                        "details": list(decision.reasons),
                        **({} if about is None else {"cause": _named(about.kind, str(decision.key))}),
                    }


def owned_by_queues(spec: ControllerSpec) -> dict[str, Resource]:
    """Return the resources whose objects the keys of a controller name, by queue."""
    return {
        queue_name(spec, queue): watch.resource
        for queue in spec.queues
        for watch in queue.watches
        if watch.to is itself
    }


def is_owned_by(entry: Entry | None, about: Resource | None, key: Key) -> bool:
    """Report whether the controller owner of an object is the object of a queue, by kind and key."""
    if entry is None or entry.controller is None or about is None:
        return False
    owner, namespace = entry.controller, split_key(entry.key)[0]
    return about.kind == owner.kind and key in (make_key(namespace, owner.name), owner.name)


def concerns(sent: Sent, resource_id: str, key: Key, *, created_by_owner: bool) -> bool:
    """Report whether a command was for this object. The name of a created object is not remembered.

    created_by_owner: the command was sent for the object's owner, when the object was created.
    """
    verb, place, outcome, _ = sent
    if len(place) < 2 or place[0] != resource_id:
        return False
    if verb is Create and outcome is Done:
        return created_by_owner and place[1] == split_key(key)[0]
    return place[1] == key


def table_of_kind(tables: Mapping[str, Table], kind: str) -> Table:
    """Return the table of a kind, by its name or plural. Raises LookupError."""
    wanted = kind.lower()
    for table in list(tables.values()):
        resource = table.resource
        names = (resource.kind.lower(), resource.plural, f"{resource.plural}.{resource.group}")
        if table.id == resource.id and wanted in names:
            return table
    raise LookupError(f"the manager has no table of {kind!r}" if kind else "kind is missing")


def summary_of(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata and conditions of an object."""
    meta = obj.get("metadata") or {}
    status = obj.get("status") or {}
    conditions = status.get("conditions") if isinstance(status, dict) else None
    return {
        "exists": True,
        "uid": meta.get("uid", ""),
        "version": meta.get("resourceVersion", ""),
        "generation": meta.get("generation"),
        "created": seconds(meta.get("creationTimestamp")),
        "deleting": seconds(meta.get("deletionTimestamp")),
        "finalizers": meta.get("finalizers") or [],
        "owners": [
            {"kind": owner.get("kind", ""), "name": owner.get("name", ""), "controller": bool(owner.get("controller"))}
            for owner in meta.get("ownerReferences") or ()
        ],
        "phase": status.get("phase") or "" if isinstance(status, dict) else "",
        "conditions": [
            {name: condition.get(name, "") for name in ("type", "status", "reason", "message", "lastTransitionTime")}
            for condition in conditions or ()
            if isinstance(condition, dict)
        ],
    }


def changes_of(obj: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what the object itself shows of its past."""
    meta = obj.get("metadata") or {}
    yield from _at(meta.get("creationTimestamp"), "object", "created")
    if meta.get("deletionTimestamp"):
        yield from _at(meta["deletionTimestamp"], "object", "deletion requested, to be complete at this time")
    for managed in meta.get("managedFields") or ():
        part = f" of {managed['subresource']}" if managed.get("subresource") else ""
        title = f"{managed.get('operation', 'Update').lower()}{part} by {managed.get('manager', '')}"
        yield from _at(managed.get("time"), "object", title)
    status = obj.get("status") or {}
    for condition in (status.get("conditions") if isinstance(status, dict) else None) or ():
        title = f"condition {condition.get('type')} is {condition.get('status')}"
        details = [text for text in (condition.get("reason"), condition.get("message")) if text]
        yield from _at(condition.get("lastTransitionTime"), "object", title, details)


def _at(time: object, kind: str, title: str, details: Iterable[str] = ()) -> Iterator[dict[str, Any]]:
    at = seconds(time)
    if at is not None:
        yield {"at": at, "kind": kind, "title": title, "who": "", "bad": False, "details": list(details)}


def event_entry(event: Mapping[str, Any]) -> dict[str, Any]:
    series = event.get("series") or {}
    last = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    count = series.get("count") or event.get("count") or 1
    source = (event.get("source") or {}).get("component") or event.get("reportingComponent") or ""
    repeated = f" ({count} times)" if count > 1 else ""
    meta = event.get("metadata") or {}
    return {
        "at": seconds(last) or seconds(meta.get("creationTimestamp")) or 0.0,
        "kind": "event",
        "title": f"{event.get('reason', '')}: {event.get('message', '')}{repeated}",
        "who": source,
        "bad": event.get("type") == "Warning",
        "details": [],
    }


def decision_entry(controller: str, decision: SyncDecision, offset: float) -> dict[str, Any]:
    """Return the entry of a reconciliation. offset: of Unix seconds from monotonic ones."""
    commands = [str(command) for command in decision.commands]
    if decision.more:
        commands.append(f"and {decision.more} further commands")
    title = decision.reasons[0] if decision.reasons else "nothing to do" if not commands else "reconciled"
    if decision.error:
        title = f"failed: {decision.error}"
    again = [] if decision.again is None else [f"again in {decision.again:.3g} s"]
    return {
        "at": round(decision.ended + offset, 3),
        "kind": "decision",
        "title": title,
        "who": controller,
        "bad": bool(decision.error),
        "details": [*decision.reasons[1:], *commands, *again],
    }


def related(tables: Mapping[str, Table], table: Table, entry: Entry | None) -> dict[str, Any]:
    """Return the owners and dependents of an object as nodes and edges of a graph."""
    if entry is None:
        return {"nodes": [], "edges": []}
    whole = [other for other in list(tables.values()) if other.id == other.resource.id]
    nodes, edges = {entry.uid: _node(table, entry)}, list[tuple[str, str]]()
    child, depth = entry, 0
    while child.controller is not None and depth < DEEPEST:
        owner = child.controller
        namespace = split_key(child.key)[0]
        found = next(
            (
                (other, candidate)
                for other in whole
                if other.resource.kind == owner.kind
                for key in ((make_key(namespace, owner.name)), owner.name)
                if (candidate := other.get(key)) is not None and candidate.uid == owner.uid
            ),
            None,
        )
        if found is None:
            break
        nodes[owner.uid] = _node(*found)
        edges.append((owner.uid, child.uid))
        child, depth = found[1], depth + 1
    level = [entry]
    for _ in range(DEEPEST):
        below = [
            (parent, other, child) for parent in level for other in whole for child in other.indexed(OWNER, parent.uid)
        ]
        for parent, other, child in below[: MOST_RELATED - len(nodes)]:
            nodes[child.uid] = _node(other, child)
            edges.append((parent.uid, child.uid))
        level = [child for _, _, child in below]
        if not level or len(nodes) >= MOST_RELATED:
            break
    return {"nodes": [{"id": uid, **node} for uid, node in nodes.items()], "edges": edges}


def _node(table: Table, entry: Entry) -> dict[str, Any]:
    return _named(table.resource.kind, entry.key)


def _named(kind: str, key: Key) -> dict[str, Any]:
    namespace, name = split_key(key)
    return {"kind": kind, "namespace": namespace, "name": name}


def seconds(time: object) -> float | None:
    """Return a time of the API in Unix seconds; None if it is missing or invalid."""
    if not isinstance(time, str):
        return None
    try:
        return parse_time(time)
    except ValueError:
        return None
