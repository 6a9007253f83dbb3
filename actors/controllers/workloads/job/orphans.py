"""Pods that no Job will count any more, and that wait for nobody's finalizer but ours.

Keys: of a pod without a controller, or of a Job that is gone or has finished.

Source: kubernetes v1.36 pkg/controller/job/job_controller.go (syncOrphanPod, handleSingleOrphanPod). Differences:
- The pods of a Job that is gone are found by their owner, there by its selector.
- Before anything is taken from a Job that the table does not show, the server is asked: upstream also takes the
  finalizer from pods of a Job that its cache does not show yet, which are never counted then.
- A pod without a controller is let go as it was read: upstream also lets go what a Job has just adopted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kcm.actors.controllers.workloads.job.fields import FINALIZER, is_finished, manager_elsewhere
from kcm.actors.controllers.workloads.job.finalizers import untrack
from kcm.actors.reconciliation import Change, Reconciliation, Step, get_live, must, together
from kcm.protocols.messages.outcomes import CommandError, Done, NotFound
from kcm.protocols.objects import Key, Object, OwnerRef, decode_object, make_key, split_key, uid_of
from kcm.protocols.resources import JOBS, PODS
from kcm.runtime.tables.tables import Tables

BATCH = 100  # finalizers removed at a time


class Orphan(NamedTuple):
    """key: of the pod, or of the Job. owner: the uid of the Job; "" for a pod."""

    key: Key
    owner: str = ""

    def __str__(self) -> str:
        return f"pods of {self.key} ({self.owner})" if self.owner else self.key


def orphaned(change: Change, tables: Tables) -> Iterable[Orphan]:
    """Of a pod that has the finalizer: it has no controller; or it is going, and its Job does not count it any more.

    Every change of every Job's pods comes here, so it rests on what the table has derived, as of now.
    """
    pod = tables[PODS].entry(change.key)
    if pod is None or FINALIZER not in pod.finalizers:
        return
    owner = pod.controller
    if owner is None:
        yield Orphan(change.key)
    elif _is_job(owner) and pod.facts.deleting:
        key = make_key(change.namespace, owner.name)
        entry = tables[JOBS].entry(key)
        if entry is None or entry.uid != owner.uid or is_finished(tables[JOBS].object_of(entry)):
            yield Orphan(key, owner.uid)


def left_behind(change: Change, _tables: Tables) -> Iterable[Orphan]:
    """Of a Job that is gone or has finished: its pods."""
    job = change.new
    if (change.deleted or is_finished(job)) and manager_elsewhere(job) is None:
        yield Orphan(change.key, uid_of(job))
    if change.old is not None and uid_of(change.old) != uid_of(job):  # deleted and made anew between two looks
        yield Orphan(change.key, uid_of(change.old))


class OrphanReconciler:
    def __init__(self, *, tables: Tables) -> None:
        self._jobs, self._pods = tables[JOBS], tables[PODS]

    def reconcile(self, orphan: Orphan) -> Reconciliation:
        if orphan.owner:
            yield from self._release_all(orphan)
        else:
            entry = self._pods.entry(orphan.key)
            if entry is not None and entry.controller is None and FINALIZER in entry.finalizers:
                yield from must(untrack(entry, unchanged=True), but=(NotFound,))
        return None

    def _release_all(self, orphan: Orphan) -> Step[None]:
        entries = [
            entry
            for entry in self._pods.entries_owned_by(orphan.owner)
            if FINALIZER in entry.finalizers
            and entry.controller is not None
            and _is_job(entry.controller)
            and split_key(entry.key)[0] == split_key(orphan.key)[0]
        ]
        if not entries or not (yield from self._is_abandoned(orphan)):
            return
        commands = [untrack(entry) for entry in entries]
        failures: list[CommandError] = []
        for start in range(0, len(commands), BATCH):
            batch = commands[start : start + BATCH]
            outcomes = yield from together(batch)
            for command, outcome in zip(batch, outcomes, strict=True):
                if not isinstance(outcome, Done | NotFound):
                    failures.append(CommandError(command, outcome))
        if failures:
            raise failures[0]

    def _is_abandoned(self, orphan: Orphan) -> Step[bool]:
        """Whether nobody counts the pods of this Job any more."""
        job = self._jobs.get(orphan.key)
        if job is not None and uid_of(job) == orphan.owner:
            return _lets_go(job)
        outcome = yield from must(get_live(JOBS, orphan.key), but=(NotFound,))
        if not isinstance(outcome, Done):
            return True
        live = decode_object(outcome.body)
        return uid_of(live) != orphan.owner or _lets_go(live)


def _is_job(owner: OwnerRef) -> bool:
    """Others have kinds of this name too, and may use the finalizer."""
    return owner.kind == JOBS.kind and owner.api_version == JOBS.api_version


def _lets_go(job: Object) -> bool:
    return manager_elsewhere(job) is None and is_finished(job)
