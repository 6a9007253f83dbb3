"""Handling of pod creations and deletions with unknown outcome, and detection of owners that changed during a sync.

A write whose response was lost (outcome `Unknown`) may have been carried out, and the informer caches may not contain
its result for a long time. A controller that decided from its caches alone would create a second pod, or delete another
pod besides the first. Upstream waits until its expectations expire after five minutes. Here, no sync waits:

- Creations: the controller chooses the name of a pod before it creates the pod (generated_names.py). A creation with
  unknown outcome is retried under the same name, and fails with AlreadyExists if the first request was carried out.
- Status: generated names are derived from the owner's resourceVersion, which a status write changes. So the status is
  not written while the outcome of a creation is unknown. Otherwise a restarted controller, which has no memory of the
  creation, would choose another name and create a second pod.
- Deletions: the next sync first deletes the pods whose deletion has an unknown outcome, regardless of the deletion
  order. Otherwise it would delete another pod as well, which would then be created again.
- Owner: a sync takes time, for example for adoptions, and the caches change meanwhile. A decision from an old spec of
  the owner and the present pods would create or delete too many pods. So the sync starts over if the owner has changed.

A reconciler uses this module as follows:

    self._unknown: dict[Key, UnknownOutcomes[None]]                     # one entry per owner; deleted with the owner

    claimed = yield from claim(...)
    if not is_current(owner_lister, entry):
        return (yield from self.reconcile(key))                         # or requeue the key at once

    retried = unknown.names_to_retry(namespace, taken=taken)            # these names first, then generated names
    creations = yield from create_pods(form, names, ...)
    resolved = yield from fetch_existing(creations)
    unknown.record_creations(creations, resolved)
    raise_if_unknown(creations)                                         # before the status is written
    requeue after RETRY_DELAY if creations.existing

    victims = unknown.maybe_deleted_first(ordered)[:count]
    deletions = yield from delete_pods(victims, ...)
    unknown.record_deletions(deletions)
    requeue after RETRY_DELAY if deletions.conflicting

A controller that selects each pod by its name or node (StatefulSet, DaemonSet) plans the same deletion in the next
sync, and need not record deletions. The StatefulSet controller need not record creations either, because the names of
its pods are fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

from kcm.actors.controllers.shared.pod_control import Creations, Deletions
from kcm.protocols.messages.outcomes import Refused
from kcm.protocols.objects import Key, make_key, split_key
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import Entry

RETRY_DELAY = 1.0  # seconds until the next sync if a pod's name already existed, or a pod could not be deleted
UNREADABLE_DELAY = 10.0  # seconds until the next sync if a pod of the owner is unreadable; there may be no event


class HasUid(Protocol):
    @property
    def uid(self) -> str: ...


PodT = TypeVar("PodT", bound=HasUid)
PurposeT = TypeVar("PurposeT")


def is_current(lister: Lister, owner: Entry) -> bool:
    """Report whether an owner is unchanged: the informer cache still contains the version in the entry `owner`."""
    latest = lister.entry(owner.key)
    return latest is not None and (latest.uid, latest.resource_version) == (owner.uid, owner.resource_version)


def raise_if_unknown(creations: Creations) -> None:
    """Raise the failure of these creations if the outcome of one of them is unknown.

    The caller then does not write the owner's status: this would change the resourceVersion that the names of pods are
    derived from, and a restarted controller would create a second pod under another name. The failure is also raised if
    a creation was refused before it was sent, because a status write would be refused as well.
    """
    failure = creations.failure
    if failure is not None and (creations.maybe_created or isinstance(failure.failure, Refused)):
        raise failure


class UnknownOutcomes(Generic[PurposeT]):
    """Pods of one owner whose creation or deletion has an unknown outcome; kept in memory between syncs.

    maybe_created: by pod name, the purpose of the pod: its node or its completion index; None for interchangeable pods
    maybe_deleted: uids of pods
    """

    __slots__ = ("maybe_created", "maybe_deleted")

    def __init__(self) -> None:
        self.maybe_created: dict[str, PurposeT | None] = {}
        self.maybe_deleted: set[str] = set()

    def names_to_retry(self, namespace: str, *, taken: Callable[[Key], bool]) -> dict[str, PurposeT | None]:
        """Return the names and purposes of the pods whose creation must be retried, because its outcome is unknown.

        Pods that exist by now are forgotten.

        taken: reports whether the informer cache contains a pod with this key.
        """
        for name in [name for name in self.maybe_created if taken(make_key(namespace, name))]:
            del self.maybe_created[name]
        return dict(self.maybe_created)

    def record_creations(
        self, creations: Creations, resolved: Iterable[Key], purposes: Mapping[str, PurposeT] | None = None
    ) -> None:
        """Record which creations have an unknown outcome (maybe_created), and remove those with a known outcome.

        resolved: keys of pods whose existence is known, from fetch_existing
        purposes: by pod name, the purpose to record
        """
        for name in creations.maybe_created:
            self.maybe_created[name] = None if purposes is None else purposes.get(name)
        if self.maybe_created:
            # A name stays if its retry was rejected: admission runs before the server checks whether the name exists.
            for key in (*creations.created, *resolved):
                self.maybe_created.pop(split_key(key)[1], None)

    def maybe_deleted_first(self, pods: Iterable[PodT]) -> list[PodT]:
        """Sort the pods whose deletion has an unknown outcome first. The order is otherwise unchanged."""
        return sorted(pods, key=lambda pod: pod.uid not in self.maybe_deleted)

    def record_deletions(self, deletions: Deletions) -> None:
        """Record which deletions have an unknown outcome (maybe_deleted), and remove those with a known outcome."""
        self.maybe_deleted.update(deletions.maybe_deleted)
        self.maybe_deleted.difference_update(deletions.known)
