"""Invariant of PodGroups: they are protected from deletion while pods use them."""

from __future__ import annotations

from kcm.actors.controllers.workloads.podgroup_protection import FINALIZER, group_key, has_finished
from kcm.actors.simulation.invariants.observer import Committed, Fail, Handled, Observation, decoded, only
from kcm.protocols.objects import Key, Object, finalizers_of, is_deleting, key_of, name_of, uid_of
from kcm.runtime.apiserver.storage.store import ADDED, DELETED, StoreChange

GROUPS, PODS = "podgroups.scheduling.k8s.io", "pods"
CLIENT = "podgroup-protection-controller"


class GroupsOutliveTheirPods:
    """Invariant: the finalizer is removed only from a PodGroup that no unfinished pod refers to.

    A pod that was created after the deletion of the PodGroup does not count: the controller may have listed the pods
    before.
    """

    name = "a PodGroup outlives its pods"
    observes = (only(Committed, GROUPS, PODS), only(Handled, CLIENT))

    def __init__(self) -> None:
        self._created: dict[str, int] = {}  # by uid of a pod: revision of its creation
        self._active: dict[str, tuple[str, Key]] = {}  # by uid of an unfinished pod: its name, and key of its PodGroup
        self._deleted: dict[str, int] = {}  # by uid: revision at which a PodGroup was marked for deletion

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Committed(changes):
                for change in changes:
                    self._committed(change)
            case Handled(client=client, changes=changes) if client == CLIENT:
                for change in changes:
                    if change.storage == GROUPS and change.previous:
                        self._check(decoded(change.previous), decoded(change.raw), change.type, fail)

    def _committed(self, change: StoreChange) -> None:
        if change.storage == GROUPS and is_deleting(decoded(change.raw)):
            self._deleted.setdefault(uid_of(decoded(change.raw)), change.revision)
        elif change.storage == PODS:
            pod = decoded(change.raw)
            if change.type == ADDED:
                self._created[uid_of(pod)] = change.revision
            self._active.pop(uid_of(pod), None)
            if change.type != DELETED and not has_finished(pod) and group_key(pod):
                self._active[uid_of(pod)] = name_of(pod), group_key(pod)

    def _check(self, before: Object, after: Object, type_: str, fail: Fail) -> None:
        if FINALIZER not in finalizers_of(before) or (FINALIZER in finalizers_of(after) and type_ != DELETED):
            return
        deleted = self._deleted.get(uid_of(before), 0)
        for uid, (pod, group) in self._active.items():
            if group == key_of(before) and self._created.get(uid, 0) < deleted:
                fail(f"PodGroup {key_of(before)} loses its finalizer, but pod {pod} uses it")
