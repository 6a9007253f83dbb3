"""State of the manager and of its controllers, as the rules read it. Times are Unix seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct


class KeyReport(Struct, frozen=True, kw_only=True):
    """One key in one queue of a controller, with its latest decision. See KeyProgress and SyncDecision."""

    queue: str
    queued: float | None = None
    due: float | None = None
    taken: float | None = None
    failures: int = 0
    awaited: tuple[str, ...] = ()
    began: float | None = None
    ended: float | None = None
    reasons: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()  # messages of the server, of commands that failed
    error: str = ""
    again: float | None = None


class ControllerState(Struct, frozen=True, kw_only=True):
    """State of one controller.

    known: the manager has a controller with this name.
    enabled: it is enabled by flags.
    alive: its actor runs.
    started: since when.
    ready: its tables are complete.
    waiting_for: tables that it waits for before it begins.
    gave_up: it failed too often and is left stopped.
    failures: recent restarts.
    busy_since: since when it handles the same message; None if it makes progress.
    held: keys whose reconciliation hung, "queue key".
    denied: rights that the API server denies, as texts.
    tables: troubles of its tables: "the table of pods is not synced: …".
    client: its API client, and `throttled`: the number of commands of this client that wait for its rate limit.
    elsewhere: replica that runs the group of the controller; "" if none does, None if this process runs it.
    """

    name: str
    known: bool = True
    enabled: bool = True
    alive: bool = True
    started: float | None = None
    ready: bool = True
    paused: bool = False
    waiting_for: tuple[str, ...] = ()
    gave_up: bool = False
    failures: int = 0
    last_error: str = ""
    busy_since: float | None = None
    held: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    client: str = ""
    throttled: int = 0
    elsewhere: str | None = None


class LeadershipState(Struct, frozen=True, kw_only=True):
    """State of the leader election, and of the manager as a whole.

    elects: it works only under a lease.
    holder: identity in the lease.
    identity: the manager's own.
    failure: why the lease cannot be read or renewed; since `failing_since`.
    brake: why the storm brake is engaged; "" while it is released.
    """

    elects: bool = False
    leading: bool = True
    holder: str = ""
    identity: str = ""
    failure: str = ""
    failing_since: float | None = None
    draining: bool = False
    brake: str = ""
    brake_since: float | None = None


class ZoneReport(Struct, frozen=True, kw_only=True):
    """State of a zone of nodes.

    state: Normal, PartialDisruption or FullDisruption.
    spared: no node is evicted, because all zones are disrupted, or as flags require.
    qps: nodes per second that are released for eviction; None before there is a rate.
    is_set: an operator has set the rate.
    paused: an operator has paused the evictions.
    waiting: number of nodes in the queue; `next_nodes` are the first of them.
    due: when the next node may be released.
    """

    state: str
    spared: bool = False
    qps: float | None = None
    is_set: bool = False
    paused: bool = False
    waiting: int = 0
    next_nodes: tuple[str, ...] = ()
    due: float | None = None


class ManagerView(Protocol):
    """The running manager. Its methods return at once, also while a controller hangs."""

    def leadership(self) -> LeadershipState: ...

    def controller(self, name: str) -> ControllerState: ...

    def keys(self, name: str, resource_id: str, key: str) -> list[KeyReport]:
        """Return the reports of an object's key in the queues whose keys name objects of this resource."""

    def zone(self, name: str) -> ZoneReport | None:
        """Return the state of a zone of nodes; None if it is unknown."""

    def interested(self, resource_id: str) -> list[str]:
        """Return the controllers whose keys name objects of this resource."""


class JoinedViews:
    """A manager, and other systems of controllers that work on the same cluster: its leadership, all their keys."""

    def __init__(self, manager: ManagerView, others: Sequence[ManagerView]) -> None:
        self._manager, self._views = manager, (manager, *others)

    def leadership(self) -> LeadershipState:
        return self._manager.leadership()

    def controller(self, name: str) -> ControllerState:
        states = (view.controller(name) for view in self._views)
        return next((state for state in states if state.known), ControllerState(name=name, known=False))

    def keys(self, name: str, resource_id: str, key: str) -> list[KeyReport]:
        return next((found for view in self._views if (found := view.keys(name, resource_id, key))), [])

    def zone(self, name: str) -> ZoneReport | None:
        return self._manager.zone(name)

    def interested(self, resource_id: str) -> list[str]:
        return list(dict.fromkeys(name for view in self._views for name in view.interested(resource_id)))
