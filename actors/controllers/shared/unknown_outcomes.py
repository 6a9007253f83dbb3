"""Pod writes with unknown outcome, and the check that an owner is still the object that was read.

A write whose response was lost (outcome `Unknown`) may have been carried out, and the tables may not show that for a
long time. A controller that decided from its tables alone would create a second pod, or delete another pod beside the
first. Upstream waits for expectations, which expire after five minutes. Here, no sync waits:

- Creations: the controller chooses the name of a pod before it creates the pod (generated_names.py). A creation with
  unknown outcome is sent again under the same name, and meets AlreadyExists if the first one was carried out.
- Status: generated names derive from the owner's resourceVersion, which a status write changes. So the status is not
  written while the outcome of a creation is unknown. Otherwise a new incarnation of the controller, which has no memory
  of the creation, would choose another name, and create a second pod.
- Deletions: the next sync deletes first the pods whose deletion has an unknown outcome, whatever the deletion order is
  by then. Otherwise it would delete another pod as well, and that pod would have to be created again.
- Owner: adoption and other steps before a decision take time. When they are done, the tables show the pods as they are
  now, perhaps as another spec of the owner had them created. A decision from the old spec and the new pods would create
  or delete too many. So the sync starts over if the owner has changed.

A reconciler uses this module as follows:

    self._unknown: dict[Key, UnknownOutcomes[None]]                     # one entry per owner; deleted with the owner

    claimed = yield from claim(...)
    if not is_current(owners, entry):
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

A controller that determines each pod by its name or node (StatefulSet, DaemonSet) plans the same deletion again, and
needs no memory of deletions. A StatefulSet needs none of creations either, as its pod names are fixed.
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
UNREADABLE_DELAY = 10.0  # seconds until the next sync if a pod of the owner is unreadable: no event may announce it


class HasUid(Protocol):
    @property
    def uid(self) -> str: ...


PodT = TypeVar("PodT", bound=HasUid)
PurposeT = TypeVar("PurposeT")


def is_current(owners: Lister, owner: Entry) -> bool:
    """Report whether the table still shows this version of the owner."""
    latest = owners.entry(owner.key)
    return latest is not None and (latest.uid, latest.resource_version) == (owner.uid, owner.resource_version)


def raise_if_unknown(creations: Creations) -> None:
    """Raise the failure of these creations if the owner's status must not be written before they are retried.

    That is the case if some pod may have been created, or if a creation was refused before it was sent: then a status
    write would be refused as well.
    """
    failure = creations.failure
    if failure is not None and (creations.maybe_created or isinstance(failure.failure, Refused)):
        raise failure


class UnknownOutcomes(Generic[PurposeT]):
    """Pods of one owner whose creation or deletion had no response, kept in memory from one sync to the next.

    maybe_created: by the pod's name, what the pod is for: a node or a completion index, None if it has no purpose.
    maybe_deleted: uids of pods.
    """

    __slots__ = ("maybe_created", "maybe_deleted")

    def __init__(self) -> None:
        self.maybe_created: dict[str, PurposeT | None] = {}
        self.maybe_deleted: set[str] = set()

    def names_to_retry(self, namespace: str, *, taken: Callable[[Key], bool]) -> dict[str, PurposeT | None]:
        """Return the names in maybe_created that the lister does not show, and remove the others, which exist.

        taken: report whether the lister shows a pod with this key.
        """
        for name in [name for name in self.maybe_created if taken(make_key(namespace, name))]:
            del self.maybe_created[name]
        return dict(self.maybe_created)

    def record_creations(
        self, creations: Creations, resolved: Iterable[Key], purposes: Mapping[str, PurposeT] | None = None
    ) -> None:
        """Add the names whose creation has an unknown outcome, and remove those that are known to exist or not.

        resolved: keys returned by fetch_existing. purposes: by name.
        """
        for name in creations.maybe_created:
            self.maybe_created[name] = None if purposes is None else purposes.get(name)
        if self.maybe_created:
            # A name whose retry was rejected stays: admission rejects a request before the server looks for the name.
            for key in (*creations.created, *resolved):
                self.maybe_created.pop(split_key(key)[1], None)

    def maybe_deleted_first(self, pods: Iterable[PodT]) -> list[PodT]:
        """Return the pods in their order, except that those in maybe_deleted come first."""
        return sorted(pods, key=lambda pod: pod.uid not in self.maybe_deleted)

    def record_deletions(self, deletions: Deletions) -> None:
        """Add the pods whose deletion has an unknown outcome, and remove those whose outcome is known."""
        self.maybe_deleted.update(deletions.maybe_deleted)
        self.maybe_deleted.difference_update(deletions.known)
