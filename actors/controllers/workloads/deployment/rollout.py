"""The Deployment and its ReplicaSets during one reconciliation, and the writes that change them.

Each write keeps the object that the server returned, so that the next write does not conflict with it. (Upstream drops
some of these, runs into the conflict, and starts over.)

Source: kubernetes v1.36 pkg/controller/deployment/sync.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kcm.actors.controllers.shared.pod_control import is_namespace_terminating
from kcm.actors.controllers.workloads.deployment.annotations import REVISION, with_annotations
from kcm.actors.controllers.workloads.deployment.fields import number, replicas, section
from kcm.actors.controllers.workloads.deployment.history import history_to_delete
from kcm.actors.controllers.workloads.deployment.progress import (
    next_check,
    pause_condition,
    progress_deadline,
    progressing_condition,
    rollout_status,
)
from kcm.actors.controllers.workloads.deployment.recreations import Recreations
from kcm.actors.controllers.workloads.deployment.revisions import (
    Templates,
    is_ours,
    new_replica_set,
    next_revision,
    split_new_and_old,
    synced_replica_set,
)
from kcm.actors.controllers.workloads.deployment.rollback import Rollback
from kcm.actors.controllers.workloads.deployment.scaling import Resize, resized
from kcm.actors.controllers.workloads.deployment.status import (
    PROGRESSING,
    calculated_status,
    condition,
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
from kcm.protocols.messages.commands import Create
from kcm.protocols.messages.events import Record
from kcm.protocols.messages.outcomes import AlreadyExists, CommandError, Done, Failure, NotFound, Refused
from kcm.protocols.objects import Object, annotations_of, decode_object, key_of, name_of, uid_of
from kcm.protocols.resources import DEPLOYMENTS, REPLICASETS
from kcm.runtime.scheduling.clock import Clock


class Rollout:
    """deployment, new (the ReplicaSet with its template, or None) and old (all others, oldest first), as last written.

    Every step raises CommandError if a write fails.
    """

    def __init__(
        self,
        deployment: Object,
        claimed: Iterable[Object],
        *,
        clock: Clock,
        templates: Templates,
        recreations: Recreations,
        counts_terminating: bool = True,
    ) -> None:
        """claimed: the ReplicaSets that the Deployment owns and selects. counts_terminating: in its status, too."""
        self.deployment = deployment
        self.new, self.old = split_new_and_old(deployment, claimed, comparable=templates.comparable)
        self._clock, self._recreations, self._counts_terminating = clock, recreations, counts_terminating
        self._has_note = False  # of the Deployment's status or annotations, that is not written yet

    @property
    def all(self) -> list[Object]:
        """The old ReplicaSets, and then the new one."""
        return [*self.old, self.new] if self.new is not None else self.old

    # The new ReplicaSet.

    def sync_new(self) -> Step[None]:
        """Bring the new ReplicaSet's annotations and revision up to date if it is there, and note its revision."""
        if self.new is None:
            return
        synced = synced_replica_set(self.deployment, self.new, next_revision(self.old))
        if synced is not None:
            self.new = yield from must_object(update(REPLICASETS, synced))
        found = None
        if progress_deadline(self.deployment) is not None and progressing_condition(self.deployment) is None:
            found = self._progressing("True", "FoundNewReplicaSet", f'Found new replica set "{name_of(self.new)}"')
        self._note(annotations_of(self.new).get(REVISION) or "", found)

    def ensure_new(self) -> Step[Object]:
        """The new ReplicaSet, created if it is missing. Raises ValueError on a malformed strategy."""
        if self.new is None:
            wanted = new_replica_set(self.deployment, self.old)
            self.new = yield from self._create(wanted)
        return self.new

    def _create(self, wanted: Object) -> Step[Object]:
        wait = self._recreations.wait(self.deployment, name_of(wanted), self._clock.monotonic())
        if wait > 0:
            raise Retry(f"ReplicaSet {name_of(wanted)} went as soon as it was there", after=wait)
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
        created = decode_object(outcome.body)
        self._recreations.made(self.deployment, name_of(created), self._clock.monotonic())
        if replicas(wanted) > 0:
            yield self._scaled(created, 0, replicas(wanted))
        begun = None
        if progress_deadline(self.deployment) is not None:
            begun = self._progressing("True", "NewReplicaSetCreated", f'Created new replica set "{name_of(created)}"')
        self._note(revision, begun)
        return created

    def _existing(self, command: Create, outcome: AlreadyExists, wanted: Object) -> Step[Object]:
        """The ReplicaSet that bears the name of the new one, if it is it and was only late to be seen.

        Another one is a collision of hashes: then count it, so that the next attempt has another name. It is read live:
        upstream asks its cache, which may show one that is gone, and then makes a second ReplicaSet beside the first.
        """
        look = get_live(REPLICASETS, key_of(wanted))
        looked = yield from perform(look)
        if isinstance(looked, NotFound):
            raise CommandError(command, outcome)
        if not isinstance(looked, Done):
            raise CommandError(look, looked)
        existing = decode_object(looked.body)
        if is_ours(self.deployment, existing):
            return existing
        collisions = number(self.deployment, "status", "collisionCount") + 1
        yield from self.write_status(with_status(self.deployment, collisionCount=collisions))
        raise CommandError(command, outcome)

    def _creation_failed(self, failure: Failure, wanted: Object) -> Step[None]:
        if isinstance(failure, Refused) or is_namespace_terminating(failure):
            return  # not an error of this Deployment, and nothing to report
        message = f'Failed to create new replica set "{name_of(wanted)}": {failure.message}'
        if progress_deadline(self.deployment) is not None:
            reported = self._with_condition(self._progressing("False", "ReplicaSetCreateError", message))
            if reported is not self.deployment:
                yield from perform(update(DEPLOYMENTS, reported, subresource="status"))  # a failure is ignored
        yield record(DEPLOYMENTS, self.deployment, "Warning", "ReplicaSetCreateError", message)

    def _note(self, revision: str, progressing: Object | None) -> None:
        """Have the new ReplicaSet's revision written to the Deployment, together with a condition.

        Differs from upstream, which writes them at once: here the next status has them with it, as the status
        subresource accepts annotations too; what else is written first has them written before. Upstream also writes
        what is noted already: a ReplicaSet that was deleted, or is not seen yet, is created again.
        """
        noted = self.deployment if progressing is None else self._with_condition(progressing)
        annotations = annotations_of(self.deployment)
        if annotations.get(REVISION) != revision:
            noted = with_annotations(noted, {**annotations, REVISION: revision})
        if noted is not self.deployment:
            self.deployment, self._has_note = noted, True

    def write_note(self) -> Step[None]:
        """For what is written otherwise than by a status."""
        if self._has_note:
            yield from self.write_status(self.deployment)

    # Sizes.

    def resize(self, plan: Iterable[Resize]) -> Step[None]:
        """Carry out a plan, one update after another, up to the first that fails. A changed size has an event."""
        for name, size in plan:
            replica_set = next(each for each in self.all if name_of(each) == name)
            wanted = resized(replica_set, size, self.deployment)
            if wanted is None:
                continue
            yield from self.write_note()
            written = yield from must_object(update(REPLICASETS, wanted))
            self._replace(written)
            if size != replicas(replica_set):
                yield self._scaled(written, replicas(replica_set), size)

    def _replace(self, replica_set: Object) -> None:
        if self.new is not None and uid_of(self.new) == uid_of(replica_set):
            self.new = replica_set
        self.old = [replica_set if uid_of(each) == uid_of(replica_set) else each for each in self.old]

    def clean_up(self) -> Step[None]:
        """Delete the ReplicaSets that are beyond the history limit."""
        for replica_set in history_to_delete(self.deployment, self.old):
            yield from self.write_note()
            grounds = (REPLICASETS, (DEPLOYMENTS, key_of(self.deployment)))
            yield from must(delete(REPLICASETS, replica_set, depends_on=grounds), but=(NotFound,))

    # The Deployment itself.

    def sync_status(self) -> Step[None]:
        """Write the counts and the Available condition, if they have changed. Source: syncDeploymentStatus."""
        status = calculated_status(self.deployment, self.new, self.old, now=self._clock.now())
        yield from self._write_changed(status)

    def sync_rollout_status(self) -> Step[RequeueAfter | None]:
        """Write the status with all its conditions, if it has changed; returns when to check its progress again.

        Source: syncRolloutStatus.
        """
        status = rollout_status(self.deployment, self.new, self.old, now=self._clock.now())
        yield from self._write_changed(status)
        seconds = next_check(self.deployment, now=self._clock.now())
        return None if seconds is None else RequeueAfter(max(0.0, seconds))

    def note_pause(self) -> Step[None]:
        """Write to the Progressing condition that it was paused or resumed. Source: checkPausedConditions."""
        changed = pause_condition(self.deployment, now=self._clock.now())
        if changed is not None:
            yield from self.write_status(self._with_condition(changed))

    def roll_back(self, rollback: Rollback) -> Step[None]:
        """Write the Deployment as it is after a rollback, or without a request that cannot be met, with an event.

        The rollback's Deployment is made from this one as it was last written: there is no note.
        """
        self.deployment = yield from must_object(update(DEPLOYMENTS, rollback.deployment))
        yield record(DEPLOYMENTS, self.deployment, rollback.type, rollback.reason, rollback.message)

    def write_status(self, deployment: Object) -> Step[None]:
        self.deployment = yield from must_object(update(DEPLOYMENTS, deployment, subresource="status"))
        self._has_note = False

    def _write_changed(self, status: Mapping[str, Any]) -> Step[None]:
        if not self._counts_terminating:
            status = {name: value for name, value in status.items() if name != "terminatingReplicas"}
        if self._has_note or not same_status(status, section(self.deployment, "status")):
            yield from self.write_status({**self.deployment, "status": status})

    def _with_condition(self, new: Object) -> Object:
        """The Deployment with this condition: the object itself, if it has it."""
        before = section(self.deployment, "status").get("conditions")
        after = with_condition(before, new)
        return self.deployment if after == before else with_status(self.deployment, conditions=after)

    def _progressing(self, status: str, reason: str, message: str) -> Object:
        return condition(PROGRESSING, status, reason, message, now=self._clock.now())

    def _scaled(self, replica_set: Object, before: int, after: int) -> Record:
        direction = "up" if before < after else "down"
        message = f"Scaled {direction} replica set {name_of(replica_set)} from {before} to {after}"
        return record(DEPLOYMENTS, self.deployment, "Normal", "ScalingReplicaSet", message)
