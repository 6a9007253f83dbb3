"""Invariants of groups of controllers: one writer for each, and no endless moves between replicas."""

from __future__ import annotations

from collections import defaultdict

from msgspec import Struct

from kcm.actors.engine.elector.groups import GROUP_LABEL
from kcm.actors.engine.elector.lease import CLIENT
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.observer import (
    Committed,
    Entitled,
    Fail,
    Observation,
    ProcessStarted,
    Sent,
    decoded,
    only,
)
from kcm.protocols.objects import labels_of
from kcm.protocols.resources import LEASES
from kcm.runtime.apiserver.storage.store import StoreChange

MOST_MOVES_AT_REST = 3


def group_of(change: StoreChange) -> str:
    """Return the group whose Lease has changed; "" for another object."""
    return labels_of(decoded(change.raw)).get(GROUP_LABEL, "") if change.storage == LEASES.name else ""


def holder_of(change: StoreChange) -> str:
    return str(decoded(change.raw)["spec"].get("holderIdentity") or "")


class _GroupLease(Struct):
    holder: str = ""
    renewed_at: float = float("-inf")


class NoWriteWithoutGroupLease:
    """Invariant: a replica sends no write of a controller unless it holds the Lease of the controller's group.

    Its permission by its own clock must not have ended, and the Lease on the server must name it and not have expired.
    So no two replicas write for a group at the same time.
    """

    name = "no write without the lease of the group"
    observes = (ProcessStarted, Sent, Entitled, only(Committed, LEASES.name))

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._groups: dict[str, dict[str, str]] = {}  # by process: groups by client
        self._until: dict[tuple[str, str], float] = {}  # by process and group: end of the permission to write
        self._leases: dict[str, _GroupLease] = defaultdict(_GroupLease)

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case ProcessStarted(process, system):
                specs, groups = self._cluster.processes[process].specs, system.groups
                if groups is not None:
                    self._groups[process] = {spec.client or spec.name: groups.group_of(spec.name) for spec in specs}
                self._until = {which: until for which, until in self._until.items() if which[0] != process}
            case Entitled(process, until, _, group) if group:
                self._until[process, group] = max(until, self._until.get((process, group), until))
            case Committed(changes):
                for change in changes:
                    if group := group_of(change):
                        lease = self._leases[group]
                        lease.holder, lease.renewed_at = holder_of(change), self._cluster.clock.monotonic()
            case Sent(process, client, request, _) if request.method != "GET" and client != CLIENT:
                of_client = self._groups.get(process, {}).get(client)
                if of_client is not None:
                    self._check(process, of_client, f"{request.method} {request.path}", fail)

    def _check(self, process: str, group: str, what: str, fail: Fail) -> None:
        election = self._cluster.processes[process].election
        identity, now = getattr(election, "identity", ""), self._cluster.clock.monotonic()
        lease, until = self._leases[group], self._until.get((process, group))
        if until is None:
            fail(f"{process} begins {what}, but has never held the lease of group {group}")
        elif now >= until:
            fail(f"{process} begins {what} {now - until:.2f} s after its permission for group {group} has ended")
        elif lease.holder != identity:
            fail(f"{process} begins {what}, but the holder of group {group} is {lease.holder!r}")
        elif now >= lease.renewed_at + getattr(election, "lease_duration", 0.0):
            fail(f"{process} begins {what}, but the lease of group {group} has expired")


class GroupsComeToRest:
    """Invariant: some time after the last fault, groups stay with their replicas.

    A few may still be moved, as the measured costs change when users act no longer.
    """

    name = "groups come to rest"
    observes = (only(Committed, LEASES.name),)

    def __init__(self, cluster: SimulatedCluster, *, after: float) -> None:
        """Create it. after: virtual seconds from which on groups must rest."""
        self._cluster, self._after = cluster, after
        self._holders: dict[str, str] = {}
        self._moves: list[str] = []

    def observe(self, observation: Observation, fail: Fail) -> None:
        if not isinstance(observation, Committed):
            return
        for change in observation.changes:
            group = group_of(change)
            if not group:
                continue
            before, holder = self._holders.get(group, ""), holder_of(change)
            self._holders[group] = holder
            if before and holder != before and self._cluster.clock.monotonic() >= self._after:
                self._moves.append(f"{group} leaves {before}")
                if len(self._moves) > MOST_MOVES_AT_REST:
                    fail(f"groups still move: {', '.join(self._moves)}")
