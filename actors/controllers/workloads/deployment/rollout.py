"""A Deployment and its ReplicaSets during one sync, and the writes of that sync.

After each write the returned object is kept, so that the next write of the same object does not conflict. (Upstream
discards some of these objects, gets a conflict, and syncs again.)

Source: kubernetes v1.36 pkg/controller/deployment/sync.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kcm.actors.controllers.shared.pod_control import is_namespace_terminating
from kcm.actors.controllers.workloads.deployment.objects import (
    REVISION,
    Deployment,
    ReplicaSet,
    parse_deployment,
    parse_replica_set,
    with_annotations,
)
from kcm.actors.controllers.workloads.deployment.plans import Resize, resized
from kcm.actors.controllers.workloads.deployment.revisions import (
    Rollback,
    Templates,
    history_to_delete,
    is_new_replica_set,
    new_replica_set,
    next_revision,
    split_new_and_old,
    synced_replica_set,
)
from kcm.actors.controllers.workloads.deployment.status import (
    PROGRESSING,
    calculated_status,
    condition,
    next_check,
    pause_condition,
    progressing_condition,
    rollout_status,
    same_status,
    with_status,
)
from kcm.actors.reconciliation import (
    RequeueAfter,
    Retry,
    Step,
    create,
    delete,
    get_live,
    must,
    must_object,
    perform,
    record,
    update,
)
from kcm.protocols.conditions import with_condition
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Create
from kcm.protocols.messages.events import Record
from kcm.protocols.messages.outcomes import AlreadyExists, Done, Failure, NotFound, Refused
from kcm.protocols.objects import Key, Object, annotations_of, decode_object, key_of, name_of
from kcm.protocols.resources import DEPLOYMENTS, REPLICASETS
from kcm.runtime.scheduling.backoff import Backoff
from kcm.runtime.scheduling.clock import Clock

MIN_LIFETIME = 60.0  # seconds; a ReplicaSet that was deleted later was not deleted because of its creation
BACKOFF = Backoff(first=1.0, most=30.0)


class _Creation(NamedTuple):
    identity: tuple[str, int, str]  # the Deployment's uid and generation, and the ReplicaSet's name
    time: float  # monotonic seconds
    repeats: int  # creations of the same ReplicaSet since the first


class CreationBackoff:
    """Backoff for creating a ReplicaSet that is repeatedly deleted right after its creation.

    If the watch of Deployments is late, the Deployment may already be deleted, and the garbage collector deletes each
    ReplicaSet that is created for it. The deletion enqueues the Deployment, which creates the next ReplicaSet. Upstream
    repeats this as fast as its client permits. Here the first repetition is immediate, and later ones are increasingly
    delayed until the Deployment changes.
    """

    def __init__(self) -> None:
        self._newest: dict[Key, _Creation] = {}  # by Deployment

    def seconds_left(self, deployment: Deployment, name: str, now: float) -> float:
        """Return the seconds until a ReplicaSet of this name may be created; 0.0 if it may be created now.

        now: monotonic seconds.
        """
        newest = self._newest.get(deployment.key)
        if newest is None or newest.identity != _identity(deployment, name) or newest.repeats == 0:
            return 0.0
        return max(0.0, newest.time + BACKOFF.delay(newest.repeats - 1) - now)

    def record_creation(self, deployment: Deployment, name: str, now: float) -> None:
        identity, newest = _identity(deployment, name), self._newest.get(deployment.key)
        repeats = 0
        if newest is not None and newest.identity == identity and now - newest.time < MIN_LIFETIME:
            repeats = newest.repeats + 1
        self._newest[deployment.key] = _Creation(identity, now, repeats)

    def forget(self, deployment: Key) -> None:
        self._newest.pop(deployment, None)


def _identity(deployment: Deployment, name: str) -> tuple[str, int, str]:
    return deployment.uid, deployment.generation, name


class Rollout:
    """A Deployment and its ReplicaSets as last written, and the steps of a sync.

    `new` is the ReplicaSet with the Deployment's template, or None. `old` contains all others, oldest first.
    Every step raises CommandError if a write fails.
    """

    def __init__(
        self,
        deployment: Deployment,
        claimed: Iterable[ReplicaSet],  # that the Deployment owns and selects
        *,
        clock: Clock,
        templates: Templates,
        backoff: CreationBackoff,
        counts_terminating: bool = True,  # whether the status has terminatingReplicas
    ) -> None:
        self.deployment = deployment
        self.new, self.old = split_new_and_old(deployment, claimed, comparable=templates.comparable)
        self._clock, self._backoff, self._counts_terminating = clock, backoff, counts_terminating
        self._has_unwritten = False  # whether the status or annotations of `deployment` are not written yet

    @property
    def all(self) -> list[ReplicaSet]:
        """The old ReplicaSets, followed by the new one."""
        return [*self.old, self.new] if self.new is not None else self.old

    # The new ReplicaSet.

    def sync_new(self) -> Step[None]:
        """Update annotations and revision of the new ReplicaSet, if it exists, and set its revision on the Deployment.

        Source: the first half of getNewReplicaSet.
        """
        if self.new is None:
            return
        synced = synced_replica_set(self.deployment, self.new, next_revision(self.old))
        if synced is not None:
            self.new = parse_replica_set((yield from must_object(update(REPLICASETS, synced))))
        found = None
        if self.deployment.progress_deadline is not None and progressing_condition(self.deployment) is None:
            found = self._progressing("True", "FoundNewReplicaSet", f'Found new replica set "{self.new.name}"')
        self._note(self.new.annotations.get(REVISION) or "", found)

    def ensure_new(self) -> Step[ReplicaSet]:
        """Return the new ReplicaSet, creating it if it is missing. Raises ValueError if the strategy is unknown.

        Source: the second half of getNewReplicaSet.
        """
        if self.new is None:
            self.new = yield from self._create(new_replica_set(self.deployment, self.old))
        return self.new

    def _create(self, wanted: Object) -> Step[ReplicaSet]:
        wait = self._backoff.seconds_left(self.deployment, name_of(wanted), self._clock.monotonic())
        if wait > 0:
            raise Retry(f"ReplicaSet {name_of(wanted)} was deleted right after its creation", after=wait)
        command = create(REPLICASETS, wanted)
        outcome = yield from perform(command)
        revision = annotations_of(wanted)[REVISION]
        if isinstance(outcome, AlreadyExists):
            existing = yield from self._existing(command, outcome, wanted)
            self._note(revision, None)
            return existing
        if not isinstance(outcome, Done):
            yield from self._creation_failed(outcome, wanted)
            raise CommandError(command, outcome)
        created = parse_replica_set(decode_object(outcome.body))
        self._backoff.record_creation(self.deployment, created.name, self._clock.monotonic())
        size: int = wanted["spec"]["replicas"]
        if size > 0:
            yield self._scaled(created, 0, size)
        begun = None
        if self.deployment.progress_deadline is not None:
            begun = self._progressing("True", "NewReplicaSetCreated", f'Created new replica set "{created.name}"')
        self._note(revision, begun)
        return created

    def _existing(self, command: Create, outcome: AlreadyExists, wanted: Object) -> Step[ReplicaSet]:
        """Return the existing ReplicaSet after a creation failed with AlreadyExists, if it is the one to be created.

        A different ReplicaSet of that name is a hash collision: collisionCount is incremented, so that the next sync
        uses another name, and CommandError is raised. The ReplicaSet is read from the API server. Upstream reads its
        cache, which may contain a deleted ReplicaSet, and then creates a second one.
        """
        get = get_live(REPLICASETS, key_of(wanted))
        found = yield from perform(get)
        if isinstance(found, NotFound):
            raise CommandError(command, outcome)
        if not isinstance(found, Done):
            raise CommandError(get, found)
        existing = parse_replica_set(decode_object(found.body))
        if is_new_replica_set(self.deployment, existing):
            return existing
        collisions = (self.deployment.collision_count or 0) + 1
        yield from self.write_status(with_status(self.deployment, collisionCount=collisions))
        raise CommandError(command, outcome)

    def _creation_failed(self, failure: Failure, wanted: Object) -> Step[None]:
        if isinstance(failure, Refused) or is_namespace_terminating(failure):
            return  # not an error of this Deployment, and nothing to report
        message = f'Failed to create new replica set "{name_of(wanted)}": {failure.message}'
        if self.deployment.progress_deadline is not None:
            reported = self._with_condition(self._progressing("False", "ReplicaSetCreateError", message))
            if reported is not self.deployment.obj:
                yield from perform(update(DEPLOYMENTS, reported, subresource="status"))  # a failure is ignored
        yield record(DEPLOYMENTS, self.deployment.obj, "Warning", "ReplicaSetCreateError", message)

    def _note(self, revision: str, progressing: Object | None) -> None:
        """Set the new ReplicaSet's revision, and optionally a condition, on the Deployment, without writing it yet.

        Difference from upstream, which writes them at once: they are written with the next status, since the status
        subresource also accepts annotations. write_note must be called before any other write.
        """
        noted = self.deployment.obj if progressing is None else self._with_condition(progressing)
        annotations = self.deployment.annotations
        if annotations.get(REVISION) != revision:
            noted = with_annotations(noted, {**annotations, REVISION: revision})
        if noted is not self.deployment.obj:
            self.deployment, self._has_unwritten = parse_deployment(noted), True

    def write_note(self) -> Step[None]:
        """Write what `_note` has set on the Deployment. Call this before writing anything else than the status."""
        if self._has_unwritten:
            yield from self.write_status(self.deployment.obj)

    # Sizes.

    def resize(self, plan: Iterable[Resize]) -> Step[None]:
        """Write the new size of each ReplicaSet in the plan, in order, and record an event for each changed size.

        Stops at the first failure. Source: scaleReplicaSet.
        """
        for name, size in plan:
            replica_set = next(each for each in self.all if each.name == name)
            wanted = resized(replica_set, size, self.deployment)
            if wanted is None:
                continue
            yield from self.write_note()
            written = parse_replica_set((yield from must_object(update(REPLICASETS, wanted))))
            self._replace(written)
            if size != replica_set.replicas:
                yield self._scaled(written, replica_set.replicas, size)

    def _replace(self, replica_set: ReplicaSet) -> None:
        if self.new is not None and self.new.uid == replica_set.uid:
            self.new = replica_set
        self.old = [replica_set if known.uid == replica_set.uid else known for known in self.old]

    def clean_up(self) -> Step[None]:
        """Delete old ReplicaSets in excess of the history limit. Source: cleanupDeployment."""
        for replica_set in history_to_delete(self.deployment, self.old):
            yield from self.write_note()
            tables = (REPLICASETS, (DEPLOYMENTS, self.deployment.key))
            yield from must(delete(REPLICASETS, replica_set.obj, depends_on=tables), but=(NotFound,))

    # The Deployment itself.

    def sync_status(self) -> Step[None]:
        """Update the counts and the condition Available in the status, if they have changed.

        Source: syncDeploymentStatus.
        """
        status = calculated_status(self.deployment, self.new, self.old, now=self._clock.now())
        yield from self._write_changed(status)

    def sync_rollout_status(self) -> Step[RequeueAfter | None]:
        """Update the whole status, including the progress of the rollout, if it has changed. Source: syncRolloutStatus.

        Returns when to sync again to check the progress deadline.
        """
        status = rollout_status(self.deployment, self.new, self.old, now=self._clock.now())
        yield from self._write_changed(status)
        seconds = next_check(self.deployment, now=self._clock.now())
        return None if seconds is None else RequeueAfter(max(0.0, seconds))

    def note_pause(self) -> Step[None]:
        """Write the condition Progressing if the Deployment was paused or resumed. Source: checkPausedConditions."""
        changed = pause_condition(self.deployment, now=self._clock.now())
        if changed is not None:
            yield from self.write_status(self._with_condition(changed))

    def roll_back(self, rollback: Rollback) -> Step[None]:
        """Write the Deployment of a processed rollback request, and record the event.

        Call write_note before planning the rollback: the plan must start from the Deployment as last written.
        """
        self.deployment = parse_deployment((yield from must_object(update(DEPLOYMENTS, rollback.deployment))))
        yield record(DEPLOYMENTS, self.deployment.obj, rollback.type, rollback.reason, rollback.message)

    def write_status(self, deployment: Object) -> Step[None]:
        written = yield from must_object(update(DEPLOYMENTS, deployment, subresource="status"))
        self.deployment, self._has_unwritten = parse_deployment(written), False

    def _write_changed(self, status: Mapping[str, Any]) -> Step[None]:
        if not self._counts_terminating:
            status = {name: value for name, value in status.items() if name != "terminatingReplicas"}
        if self._has_unwritten or not same_status(status, self.deployment.status):
            yield from self.write_status({**self.deployment.obj, "status": status})

    def _with_condition(self, new: Object) -> Object:
        """Return the Deployment with this condition set; the same object if nothing changes."""
        before = self.deployment.conditions
        after = with_condition(before, new)
        return self.deployment.obj if after == before else with_status(self.deployment, conditions=after)

    def _progressing(self, status: str, reason: str, message: str) -> Object:
        return condition(PROGRESSING, status, reason, message, now=self._clock.now())

    def _scaled(self, replica_set: ReplicaSet, before: int, after: int) -> Record:
        direction = "up" if before < after else "down"
        message = f"Scaled {direction} replica set {replica_set.name} from {before} to {after}"
        return record(DEPLOYMENTS, self.deployment.obj, "Normal", "ScalingReplicaSet", message)
