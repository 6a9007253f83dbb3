"""Removes the tracking finalizer from pods that no Job will count any more.

The keys are pods without a controller, and Jobs that are deleted or finished.

Source: kubernetes v1.36 pkg/controller/job/job_controller.go (syncOrphanPod, handleSingleOrphanPod). Differences:

- The pods of a deleted Job are found by their owner reference; upstream finds them by the Job's selector.
- A Job that is missing in the table is read from the server. Upstream also removes the finalizer from pods of a Job
  that its cache does not contain yet, and those pods are never counted.
- The finalizer of a pod without a controller is removed only if the pod has not changed since it was read. Upstream
  also removes it from a pod that a Job has just adopted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kcm.actors.controllers.workloads.job.fields import FINALIZER, external_manager
from kcm.actors.controllers.workloads.job.finalizers import untrack
from kcm.actors.reconciliation import Change, Reconciliation, Step, get_live, must, together
from kcm.protocols.jobs import is_finished
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import Done, NotFound
from kcm.protocols.objects import Key, Object, OwnerRef, decode_object, make_key, split_key, uid_of
from kcm.protocols.resources import JOBS, PODS
from kcm.runtime.tables.tables import Tables

BATCH = 100  # finalizers removed together


class Orphan(NamedTuple):
    """Queue key for one pod without a controller, or for all pods of a Job.

    `key` is the key of the pod or the Job; `owner` is the Job's uid, "" for a pod.
    """

    key: Key
    owner: str = ""

    def __str__(self) -> str:
        return f"pods of {self.key} ({self.owner})" if self.owner else self.key


def orphaned(change: Change, tables: Tables) -> Iterable[Orphan]:
    """Enqueue a pod without a controller, or the Job of a terminating pod if the Job is deleted or finished.

    Called for every change of such a pod. It therefore uses the facts in the table, and decodes no pod.
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
    """Enqueue a Job that was deleted, finished, or replaced by a new Job of the same name."""
    job = change.new
    if (change.deleted or is_finished(job)) and external_manager(job) is None:
        yield Orphan(change.key, uid_of(job))
    if (replaced := change.replaced) is not None:
        yield Orphan(change.key, uid_of(replaced))


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
        """Report whether this Job is finished, deleted or replaced, so that no controller will count its pods."""
        job = self._jobs.get(orphan.key)
        if job is not None and uid_of(job) == orphan.owner:
            return _is_done(job)
        outcome = yield from must(get_live(JOBS, orphan.key), but=(NotFound,))
        if not isinstance(outcome, Done):
            return True
        live = decode_object(outcome.body)
        return uid_of(live) != orphan.owner or _is_done(live)


def _is_job(owner: OwnerRef) -> bool:
    """Report whether the owner is a batch/v1 Job. Jobs of other API groups may use the same finalizer."""
    return owner.kind == JOBS.kind and owner.api_version == JOBS.api_version


def _is_done(job: Object) -> bool:
    return external_manager(job) is None and is_finished(job)
