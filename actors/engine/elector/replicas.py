"""Leases of groups and replicas as last observed, and the Lease by which this replica shows that it is alive.

The Leases of replicas are numbered. A replica takes the lowest one that is free, so their number is bounded by the
number of replicas that ran at the same time, without a right to delete Leases.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from kcm.actors.engine.elector.election import Election
from kcm.actors.engine.elector.groups import (
    CONFIGURATION,
    COST,
    GROUP_LABEL,
    LEASE_LABEL,
    REPLICA_LABEL,
    STATE,
    replica_lease,
)
from kcm.actors.engine.elector.lease import renewed, seconds_of
from kcm.protocols.objects import Object, annotations_of, labels_of, metadata, name_of
from kcm.protocols.resources import LEASES
from kcm.protocols.times import parse_time

READY, WAITING, LEAVING = "ready", "waiting", "leaving"  # states: READY holds the main Lease, and can take groups
MOST_LEASES = 500  # Leases that are listed
ABANDONED = 600.0  # seconds without renewal after which a new replica takes over the Lease of another
HIGHEST_COST = 1000.0


class Observation(Struct):
    """Lease as last seen. changed_at: monotonic time at which its spec was first seen."""

    lease: Object
    changed_at: float

    @property
    def spec(self) -> Object:
        spec: Object = self.lease.get("spec") or {}
        return spec

    @property
    def holder(self) -> str:
        return str(self.spec.get("holderIdentity") or "")

    def is_fresh(self, now: float) -> bool:
        return now < self.changed_at + seconds_of(self.spec)


class ObservedReplicas:
    """Observed Leases of groups and replicas.

    The coordinator writes it; the elector of the main Lease reads `expired`, on another thread. Outlives incarnations.
    """

    def __init__(self, election: Election) -> None:
        assert election.groups is not None
        self._election, self._fingerprint = election, election.groups.fingerprint
        self.groups: dict[str, Observation] = {}  # by group
        self.replicas: dict[int, Observation] = {}  # by number
        self.expired: frozenset[tuple[str, str]] = frozenset()  # (name, resourceVersion) of Leases of dead replicas
        self.foreign: set[int] = set()  # numbers of Leases that exist and were not listed, for example without labels
        self.seen_at = -math.inf  # monotonic time of the last list

    @property
    def label_selector(self) -> str:
        return f"{LEASE_LABEL}={self._election.name}"

    @property
    def replica_selector(self) -> str:
        return f"{self.label_selector},{REPLICA_LABEL}"

    def see(self, leases: Iterable[Object], now: float, *, period: float) -> None:
        """Record a list of Leases. period: usual seconds between two lists.

        The time in which this process saw no list does not count towards the expiry of other replicas: it was frozen,
        or the server was not available and no replica could renew its Lease.
        """
        missed = max(0.0, now - self.seen_at - 2 * period) if self.seen_at > -math.inf else 0.0
        for observation in self.replicas.values():
            observation.changed_at += missed
        self.seen_at = now
        groups, replicas = dict[str, Observation](), dict[int, Observation]()
        for lease in leases:
            labels = labels_of(lease)
            if labels.get(LEASE_LABEL) != self._election.name:
                continue
            if group := labels.get(GROUP_LABEL):
                groups[group] = _observed(lease, self.groups.get(group), now)
            elif (number := labels.get(REPLICA_LABEL, "")).isdecimal():
                replicas[int(number)] = _observed(lease, self.replicas.get(int(number)), now)
        self.groups, self.replicas = groups, replicas
        self.expired = frozenset(
            _version(replica.lease) for replica in replicas.values() if not (replica.holder and replica.is_fresh(now))
        )

    def wrote(self, number: int, lease: Object, now: float) -> None:
        """Record the Lease of this replica as it was written."""
        self.replicas[number] = Observation(lease, now)

    def alive(self, now: float) -> dict[str, str]:
        """Return the states of the living replicas with the same groups, by identity."""
        return {
            replica.holder: annotations_of(replica.lease).get(STATE, WAITING)
            for replica in self.replicas.values()
            if self._is_alive(replica, now) and self._has_same_groups(replica)
        }

    def strangers(self, now: float) -> list[str]:
        """Return the identities of living replicas that have other groups."""
        return sorted(
            replica.holder
            for replica in self.replicas.values()
            if self._is_alive(replica, now) and not self._has_same_groups(replica)
        )

    def may_hold(self, leases: Iterable[Object]) -> bool:
        """Report whether another replica may hold the main Lease together with this one.

        leases: all Leases of replicas, listed just now.
        """
        return any(
            holder not in ("", self._election.identity)
            and holder not in self._election.ended
            and annotations_of(lease).get(CONFIGURATION) == self._fingerprint
            and _version(lease) not in self.expired
            for lease in leases
            for holder in [str((lease.get("spec") or {}).get("holderIdentity") or "")]
        )

    def cost(self, group: str) -> float | None:
        """Return the cost in a group's Lease; None if it contains no valid one."""
        found = self.groups.get(group)
        try:
            cost = float(annotations_of(found.lease)[COST]) if found is not None else -1.0
        except (KeyError, ValueError):
            return None
        return min(cost, HIGHEST_COST) if cost >= 0 else None

    def own(self) -> tuple[int, Object] | None:
        """Return the number and the Lease of this replica; None if it has none."""
        for number, replica in self.replicas.items():
            if replica.holder == self._election.identity:
                return number, replica.lease
        return None

    def free(self, now: float, *, unix_now: float) -> tuple[int, Object | None]:
        """Return a number for this replica with its present Lease; None if it must be created."""
        for number, replica in sorted(self.replicas.items()):
            abandoned = not replica.holder or (unix_now - _renewed_at(replica.spec) > ABANDONED)
            if abandoned or not replica.is_fresh(now) or replica.holder in self._election.ended:
                return number, replica.lease
        taken = self.replicas.keys() | self.foreign
        return next(number for number in range(len(taken) + 1) if number not in taken), None

    def lease_of_replica(self, number: int, present: Object | None, *, state: str, unix_now: float) -> Object:
        """Return the Lease of this replica after a renewal. present: as it is now; None if it does not exist."""
        election = self._election
        before: Object = present or {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"namespace": election.namespace, "name": replica_lease(election.name, number)},
            "spec": {"leaseTransitions": -1},
        }
        meta = metadata(before)
        labels = {**(meta.get("labels") or {}), LEASE_LABEL: election.name, REPLICA_LABEL: str(number)}
        annotations = {**(meta.get("annotations") or {}), CONFIGURATION: self._fingerprint, STATE: state}
        spec = renewed(before.get("spec") or {}, election, now=unix_now)
        return {**before, "metadata": {**meta, "labels": labels, "annotations": annotations}, "spec": spec}

    def released(self, lease: Object) -> Object:
        """Return the Lease of this replica after its release, so that the other replicas need not wait."""
        return {**lease, "spec": {**(lease.get("spec") or {}), "holderIdentity": "", "leaseDurationSeconds": 1}}

    def _is_alive(self, replica: Observation, now: float) -> bool:
        return bool(replica.holder) and replica.holder not in self._election.ended and replica.is_fresh(now)

    def _has_same_groups(self, replica: Observation) -> bool:
        return annotations_of(replica.lease).get(CONFIGURATION) == self._fingerprint


def _observed(lease: Object, before: Observation | None, now: float) -> Observation:
    if before is not None and before.spec == (lease.get("spec") or {}) and name_of(before.lease) == name_of(lease):
        return Observation(lease, before.changed_at)
    return Observation(lease, now)


def _version(lease: Object) -> tuple[str, str]:
    return name_of(lease), str(metadata(lease).get("resourceVersion") or "")


def _renewed_at(spec: Mapping[str, object]) -> float:
    """Return the Unix time of the last renewal by the clock of its holder; infinity if it is malformed."""
    stamp = spec.get("renewTime")
    try:
        return parse_time(stamp) if isinstance(stamp, str) else math.inf
    except ValueError:
        return math.inf


def items_of(listed: Object) -> Iterator[Object]:
    """Yield the Leases of a list that are objects."""
    for item in listed.get("items") or ():
        if isinstance(item, dict):
            yield item
