"""The last sync of each key of a recorded run, and events that could still cause another one.

A run that does not converge ends in a state in which no controller has work left. For each relevant object, the report
of such a run contains when its controllers last synced it, with which result, and why no further sync is pending.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from kcm.actors.app.system import ControllerSystem
from kcm.actors.engine.controller.actor import Controller
from kcm.actors.engine.controller.retries import one_line
from kcm.actors.engine.vitals import ControllerVitals, PendingKey
from kcm.actors.reconciliation import RequeueAfter, itself
from kcm.actors.reconciliation.actor_names import controller_name, controller_of
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.observer import shown
from kcm.actors.simulation.processes import Running
from kcm.protocols.messages.commands import in_words
from kcm.protocols.objects import Key, Object, key_of, resource_version_of, split_key
from kcm.protocols.resources import Resource

MOST = 12  # maximum number of lines in a report
LONGEST = 200  # characters of an exception that a sync raised


class _Sync(NamedTuple):
    """Reconciliation of a key. Times are virtual seconds.

    ended: None while it runs, or if its actor was replaced meanwhile.
    result: return value or exception.
    """

    began: float
    ended: float | None = None
    result: object = None


class KeyState(NamedTuple):
    """Key of a controller's queue at the end of a run.

    kind: kind of the object that the key names; "" if the keys of the queue do not name objects.
    is_ready: whether the controller can sync keys: it runs, its informers have synced, and it is not paused.
    text: line of the report.
    """

    process: str
    controller: str
    queue: str
    key: Key
    kind: str
    is_ready: bool
    text: str


class SyncLog:
    """Recorder of the last reconciliation of each key. Must be attached to a cluster before any process starts."""

    def __init__(self) -> None:
        self._syncs: dict[tuple[str, str, str, str], _Sync] = {}  # by process, controller's actor, queue and key

    def attach(self, cluster: SimulatedCluster) -> None:
        clock, syncs = cluster.clock, self._syncs

        def started(process: str, system: ControllerSystem) -> None:
            for known in [known for known in syncs if known[0] == process]:
                del syncs[known]  # a restarted process has no memory

            def begins(actor: str, queue: str, key: str) -> None:
                syncs[process, actor, queue, key] = _Sync(clock.monotonic())

            def ends(actor: str, queue: str, key: str, result: object) -> None:
                began = syncs.get((process, actor, queue, key))
                now = clock.monotonic()
                syncs[process, actor, queue, key] = _Sync(now if began is None else began.began, now, result)

            system.actors.beginnings.append(begins)
            system.actors.endings.append(ends)

        cluster.started.append(started)

    def states(self, cluster: SimulatedCluster) -> list[KeyState]:
        """Return a KeyState for each key that was synced, is pending, or belongs to an object on the server."""
        found: list[KeyState] = []
        for process, running in cluster.processes.items():
            for spec in running.specs:
                found += self._of_controller(cluster, process, running, spec)
        return found

    def _of_controller(
        self, cluster: SimulatedCluster, process: str, running: Running, spec: ControllerSpec
    ) -> Iterator[KeyState]:
        actor = controller_name(spec.name)
        controller = cluster.world.actor(running.system.actors, actor)
        pending: dict[tuple[str, str], PendingKey] = {}
        if isinstance(controller, Controller):
            pending = {(entry.queue, entry.key): entry for entry in controller.pending()}
        obstacle = _obstacle(running, actor, alive=controller is not None)
        for queue, resource in _queues(spec):
            objects = {} if resource is None else _objects(cluster, spec, resource)
            synced = [key for of, by, name, key in self._syncs if (of, by, name) == (process, actor, queue)]
            for key in dict.fromkeys([*objects, *synced, *(key for name, key in pending if name == queue)]):
                parts = _parts(self._syncs.get((process, actor, queue, key)), pending.get((queue, key)), obstacle)
                if resource is not None and key in objects:
                    parts += _difference(running.system, resource, key, int(resource_version_of(objects[key])))
                name = spec.name if len(spec.queues) == 1 else f"{spec.name}, {queue}"
                kind = "" if resource is None else resource.kind
                text = f"{name} {key}: {', '.join(parts)}"
                yield KeyState(process, spec.name, queue, key, kind, not obstacle, text)


def _queues(spec: ControllerSpec) -> Iterator[tuple[str, Resource[Any] | None]]:
    """Yield the name of each queue, and the resource that its keys name; None if they do not name a single one."""
    for queue in spec.queues:
        own = [watch.resource for watch in queue.watches if watch.to is itself]
        yield spec.queue_named(queue.name), own[0] if len(own) == 1 else None


def _objects(cluster: SimulatedCluster, spec: ControllerSpec, resource: Resource[Any]) -> dict[Key, Object]:
    """Return the objects on the server by key.

    Empty if the controller watches only a selection of them, or if the server does not serve the resource.
    """
    if any(watch.resource == resource and watch.is_restricted for watch in spec.selecting):
        return {}
    try:
        return {key_of(obj): obj for obj in cluster.shown(resource)}
    except AssertionError:
        return {}


def _parts(last: _Sync | None, pending: PendingKey | None, obstacle: str) -> list[str]:
    """Return texts about a key: its last sync, pending syncs, and the reason why it cannot be synced."""
    taken = None if pending is None else pending.state.taken
    parts = [*_of_last(last, taken=taken)]
    if taken is not None and pending is not None:
        waits = ", ".join(map(in_words, pending.awaited))
        parts.append(f"in work since {taken:.3f} s" + (f", waits for the outcome of {waits}" if waits else ""))
    due = None if pending is None else pending.state.due
    queued = None if pending is None else pending.state.queued
    if due is not None:
        parts.append(f"next sync due at {due:.3f} s")
    elif taken is None and queued is None:
        parts.append("no retry pending")
    if queued is not None:
        parts.append(f"queued since {queued:.3f} s")
    elif taken is None:
        parts.append("no event since" if last is not None else "no event")
    return [*parts, obstacle] if obstacle else parts


def _of_last(last: _Sync | None, *, taken: float | None) -> Iterator[str]:
    if last is None:
        yield "never synced"
    elif last.ended is None:
        if taken is None:
            yield f"last sync began at {last.began:.3f} s and did not end, as its actor was replaced"
    else:
        until = f" to {last.ended:.3f} s" if last.ended > last.began else ""
        yield f"last sync at {last.began:.3f} s{until}"
        yield _ending(last.result)


def _ending(result: object) -> str:
    if isinstance(result, Exception):
        text = one_line(result)
        return f"raised {text[:LONGEST]}{'…' * (len(text) > LONGEST)}"
    if isinstance(result, RequeueAfter):
        return f"returned RequeueAfter({result.seconds:g})"
    return f"returned {result}"


def _obstacle(running: Running, actor: str, *, alive: bool) -> str:
    """Return the reason why the controller cannot sync any key; "" if it can."""
    if not running.process.alive:
        return "its process is not running"
    if not alive:
        return f"controller {controller_of(actor)} is not running"
    vitals = running.system.vitals.of(actor, ControllerVitals)
    if vitals is None or not vitals.ready:
        tables = () if vitals is None else vitals.waiting_for_tables
        waits = f", waits for the tables of {', '.join(sorted(tables))}" if tables else ""
        return f"controller is not ready{waits}"
    return "controller is paused" if vitals.paused else ""


def _difference(system: ControllerSystem, resource: Resource[Any], key: Key, version: int) -> list[str]:
    """Return a text if the process's informer cache does not contain the object in the version that the server has."""
    entry = shown(system, resource.id, key)
    if entry is None:
        return [f"its table does not have the object, the server has version {version}"]
    known = entry.resource_version
    return [] if known == version else [f"its table has version {known} of the object, the server {version}"]


def is_named(state: KeyState, words: Collection[str]) -> bool:
    """Report whether the words contain the key of a KeyState, as "namespace/name" or "name"."""
    return state.key in words or split_key(state.key)[1] in words


def lines(states: Iterable[KeyState], words: Collection[str]) -> list[str]:
    """Return the line of each key that the words name, at most MOST lines.

    Keys come first if the words also contain the kind of their object. A key of a process that cannot sync, such as a
    standby manager, is omitted if another process can sync it.

    words: words of the violations of the run.
    """
    named = [state for state in states if is_named(state, words)]
    works = {(state.controller, state.queue, state.key) for state in named if state.is_ready}
    named = [state for state in named if state.is_ready or (state.controller, state.queue, state.key) not in works]
    named.sort(key=lambda state: state.kind not in words)
    texts = [state.text for state in named[:MOST]]
    return [*texts, f"({len(named) - MOST} more)"] if len(named) > MOST else texts
