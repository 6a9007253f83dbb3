"""Invariant of objects with a time to live: they are not deleted before they expire."""

from __future__ import annotations

from collections.abc import Callable

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.observer import Fail, Handled, Observation, decoded, only
from kcm.protocols.objects import Object, is_deleting, key_of
from kcm.runtime.apiserver.storage.store import DELETED
from kcm.runtime.faults.vocabulary import FaultKind


class NotDeletedBeforeExpiry:
    """Invariant: a client deletes objects of one resource only after their expiry.

    The expiry is computed from the version that is deleted, even if the controller has observed only an older version.
    As upstream, a manager whose clock is ahead deletes earlier.
    """

    def __init__(
        self,
        cluster: SimulatedCluster,
        name: str,
        *,
        client: str,
        storage: str,
        expiry: Callable[[Object], float | None],
    ) -> None:
        """Initialise the invariant.

        name: name of the invariant.
        client: client whose deletions are checked.
        storage: resource of the objects, as in StoreChange.storage.
        expiry: returns the time from which an object may be deleted, in Unix seconds; None for never.
        """
        self.name = name
        self._cluster, self._client, self._storage, self._expiry = cluster, client, storage, expiry
        jumps = (fault for fault in cluster.injector.faults if fault.kind is FaultKind.CLOCK_JUMPED)
        self._ahead = sum(max(0.0, fault.seconds) for fault in jumps)
        self.observes = (only(Handled, client),)

    def observe(self, observation: Observation, fail: Fail) -> None:
        if not isinstance(observation, Handled) or observation.client != self._client:
            return
        for change in observation.changes:
            if change.storage != self._storage or not change.previous:
                continue
            before = decoded(change.previous)
            goes = change.type == DELETED or is_deleting(decoded(change.raw))
            if not goes or is_deleting(before):
                continue
            expires = self._expiry(before)
            if expires is None:
                fail(f"{key_of(before)} is deleted, but does not expire")
            elif expires > self._cluster.clock.now() + self._ahead:
                fail(f"{key_of(before)} is deleted {expires - self._cluster.clock.now():.3f} s too early")
