"""Writes of one pod of a StatefulSet and its claims, with events on the set.

Source: kubernetes v1.36 pkg/controller/statefulset/stateful_pod_control.go. Differences: the claims of a pod are
created concurrently; a deletion has the pod's uid as precondition; a pod is not updated if only the owner references of
its claims change.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from kcm.actors.controllers.workloads.statefulset.claims import (
    Member,
    claims_of,
    has_its_owners,
    has_other_controller,
    is_stale,
    with_its_owners,
)
from kcm.actors.controllers.workloads.statefulset.identity import (
    NAME_LABEL,
    claim_name,
    has_its_volumes,
    pod_name,
    pod_of,
    with_its_identity,
)
from kcm.actors.controllers.workloads.statefulset.objects import StatefulSet
from kcm.actors.reconciliation import (
    RetryQuietly,
    Step,
    create,
    delete,
    get_live,
    must_object,
    perform,
    record,
    together,
    update,
)
from kcm.protocols.errors import aggregate
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command
from kcm.protocols.messages.events import Record
from kcm.protocols.messages.outcomes import AlreadyExists, Conflict, Done, Failure, NotFound, Refused
from kcm.protocols.objects import Key, Object, decode_object, is_deleting, key_of, make_key, name_of, split_key, uid_of
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFULSETS
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import Entry

MAX_TRIES = 4  # of an update that conflicts with a newer version


class ClaimTerminating(RetryQuietly):
    """Raised if a claim that a pod needs is being deleted. The sync is retried until the deletion has finished."""


class SettledPod(NamedTuple):
    """Pod that needs no write as long as the tables contain these entries. claims: by key; None for a missing claim."""

    pod: Entry
    claims: tuple[tuple[Key, Entry | None], ...]


class PodControl:
    """Writes the pods and claims of one set during one sync."""

    def __init__(
        self, stateful_set: StatefulSet, *, pods: Lister, claims: Lister, settled: dict[int, SettledPod] | None = None
    ) -> None:
        """Create it for a sync. settled: by ordinal, from earlier syncs of the same spec; it is updated."""
        self._set, self._pods, self._claims = stateful_set, pods, claims
        self._settled: dict[int, SettledPod] = {} if settled is None else settled
        if self._settled and claims.unreadable():
            self._settled.clear()  # the entry of an unreadable object is that of its last readable version

    def create(self, ordinal: int, *, template: Object, revision: str) -> Step[bool]:
        """Create the missing claims of a pod, then the pod. Return whether the pod was created.

        Returns False without any write if a claim will be deleted together with an earlier pod of the same name.

        Raises CommandError if a write fails, and ClaimTerminating if a claim is being deleted.
        """
        name = pod_name(self._set.name, ordinal)
        member = Member(name, "", ordinal)
        if self._set.retention.on_scale and any(is_stale(claim, member) for claim in self._known_claims(ordinal)):
            return False
        try:
            yield from self._create_claims(name, ordinal)
        except (CommandError, ClaimTerminating) as err:
            yield from self._report("Create", name, err)
            raise
        command = create(PODS, pod_of(self._set, ordinal, template=template, revision=revision))
        outcome = yield from perform(command)
        if isinstance(outcome, AlreadyExists):
            raise CommandError(command, outcome)
        failure: CommandError | None = None
        if isinstance(outcome, Done):
            member = member._replace(uid=uid_of(decode_object(outcome.body)))
        else:
            failure = CommandError(command, outcome)
        yield from self._own_claims_of(member)
        yield from self._report("Create", name, failure)
        if failure is not None:
            raise failure
        return True

    def complete_claims(self, pod: Entry, ordinal: int) -> Step[None]:
        """Create the missing claims of a pending pod, and set their owner references.

        Raises the same errors as `create`.
        """
        member = self._member(pod, ordinal)
        yield from self._create_claims(member.name, ordinal)
        yield from self._own_claims_of(member)

    def keep(self, pod: Entry, ordinal: int) -> Step[None]:
        """Correct the labels and volumes of a pod and the owner references of its claims. Source: UpdateStatefulPod."""
        member = self._member(pod, ordinal)
        is_itself = self._is_itself(pod, ordinal)
        has_claims = self.claims_have_their_owners(pod, ordinal)
        if is_itself and has_claims:
            return
        try:
            if not is_itself:
                yield from self._create_claims(member.name, ordinal)
        except (CommandError, ClaimTerminating) as err:
            yield from self._report("Update", member.name, err)
            raise
        if not has_claims:
            yield from self._own_claims_of(member)
        if not is_itself:
            try:
                yield from self._update(pod, ordinal)
            except CommandError as err:
                yield from self._report("Update", member.name, err)
                raise
        yield from self._report("Update", member.name, None)

    def own_claims(self, pod: Entry, ordinal: int) -> Step[None]:
        """Set the owner references of a pod's claims before the pod is deleted.

        Raises CommandError if a write fails.
        """
        yield from self._own_claims(self._member(pod, ordinal))

    def delete(self, pod: Entry) -> Step[None]:
        """Delete the pod, ignoring a missing pod. Raises CommandError if another error occurs.

        A Conflict is raised without an event: either the pod was replaced, which the table will soon contain, or the
        server rejects the deletion for the moment.
        """
        command = delete(PODS, pod, depends_on=(PODS, (STATEFULSETS, key_of(self._set.obj))))
        outcome = yield from perform(command)
        if isinstance(outcome, Conflict):
            raise CommandError(command, outcome)
        failure = None if isinstance(outcome, Done | NotFound) else CommandError(command, outcome)
        yield from self._report("Delete", split_key(pod.key)[1], failure)
        if failure is not None:
            raise failure

    def needs_nothing(self, pod: Entry, ordinal: int) -> bool:
        """Report whether the pod and its claims are correct, and a pending pod has all of its claims.

        Every sync calls this for each pod, so a pod is examined again only if it or a claim has changed.
        """
        known = self._settled.get(ordinal)
        if known is not None and known.pod is pod:
            entry_of = self._claims.entry
            for key, claim in known.claims:
                if entry_of(key) is not claim:
                    break
            else:
                return True
        if pod.facts.phase == "Pending" and not self.claims_are_there(ordinal):
            return False
        if not self._is_itself(pod, ordinal) or not self.claims_have_their_owners(pod, ordinal):
            return False
        keys = [make_key(self._set.namespace, name) for name in self._claim_names(ordinal)]
        self._settled[ordinal] = SettledPod(pod, tuple((key, self._claims.entry(key)) for key in keys))
        return True

    def claims_are_there(self, ordinal: int) -> bool:
        """Report whether all claims of a pod exist and none of them is being deleted."""
        if not self._set.claim_templates:
            return True
        existing = [claim for claim in self._known_claims(ordinal) if not is_deleting(claim)]
        return len(existing) == len(self._set.claim_templates)

    def claims_have_their_owners(self, pod: Entry, ordinal: int) -> bool:
        if not self._set.claim_templates:
            return True
        member = self._member(pod, ordinal)
        return all(has_its_owners(claim, self._set, member) for claim in self._known_claims(ordinal))

    def _is_itself(self, pod: Entry, ordinal: int) -> bool:
        if pod.facts.labels.get(NAME_LABEL) != split_key(pod.key)[1]:
            return False
        return not self._set.claim_templates or has_its_volumes(self._set, ordinal, self._pods.object_of(pod))

    def _update(self, pod: Entry, ordinal: int) -> Step[None]:
        current, left = self._pods.object_of(pod), MAX_TRIES
        while True:
            command = update(PODS, with_its_identity(self._set, ordinal, current))
            outcome = yield from perform(command)
            if isinstance(outcome, Done):
                return
            left -= 1
            if not isinstance(outcome, Conflict) or left == 0:
                raise CommandError(command, outcome)
            current = yield from must_object(get_live(PODS, pod.key))
            if uid_of(current) != pod.uid:
                raise CommandError(command, outcome)

    def _create_claims(self, pod: str, ordinal: int) -> Step[None]:
        """Create the missing claims of a pod.

        Raises CommandError if a creation fails, and ClaimTerminating if a claim is being deleted.
        """
        missing, terminating = [], []
        for claim in claims_of(self._set, ordinal) if self._set.claim_templates else ():
            existing = self._known_claim(name_of(claim))
            if existing is None:
                missing.append(claim)
            elif is_deleting(existing):
                terminating.append(f"pvc {name_of(claim)} is being deleted")
        commands = [create(PERSISTENT_VOLUME_CLAIMS, claim) for claim in missing]
        outcomes = yield from together(commands)
        failures: list[CommandError] = []
        for command, claim, outcome in zip(commands, missing, outcomes, strict=True):
            if isinstance(outcome, Done):
                yield self._claim_event(pod, name_of(claim), "")
                continue
            failures.append(_failed(command, outcome, f"failed to create PVC {name_of(claim)}"))
            if not isinstance(outcome, AlreadyExists | Refused):
                yield self._claim_event(pod, name_of(claim), outcome.message)
        if failures:
            message = aggregate([*(failure.failure.message for failure in failures), *terminating])
            raise CommandError(failures[0].command, msgspec.structs.replace(failures[0].failure, message=message))
        if terminating:
            raise ClaimTerminating(aggregate(terminating))

    def _own_claims_of(self, member: Member) -> Step[None]:
        """Set the owner references of a pod's claims. If that fails, record an event and raise the CommandError."""
        try:
            yield from self._own_claims(member)
        except CommandError as err:
            yield from self._report("Update", member.name, err)
            raise

    def _own_claims(self, member: Member) -> Step[None]:
        for claim in self._known_claims(member.ordinal):
            name = name_of(claim)
            if has_other_controller(claim, self._set, member):
                text = (
                    f"PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a manging controller, "
                    "the retention policy is ignored for this claim"  # upstream's spelling
                )
                yield record(STATEFULSETS, self._set.obj, "Warning", "ConflictingController", text)
            if has_its_owners(claim, self._set, member):
                continue
            command = update(PERSISTENT_VOLUME_CLAIMS, with_its_owners(claim, self._set, member))
            outcome = yield from perform(command)
            if not isinstance(outcome, Done):
                raise _failed(command, outcome, f"could not update claim {name} for delete policy ownerRefs")

    def _known_claims(self, ordinal: int) -> list[Object]:
        """Return the pod's claims that are in the table."""
        return [claim for name in self._claim_names(ordinal) if (claim := self._known_claim(name)) is not None]

    def _claim_names(self, ordinal: int) -> list[str]:
        return [claim_name(template, self._set.name, ordinal) for template in self._set.claim_templates]

    def _known_claim(self, name: str) -> Object | None:
        """Return a claim from the table, None if it is missing. Raises UnreadableError if the claim is unreadable."""
        key = make_key(self._set.namespace, name)
        self._claims.require(key)
        return self._claims.get(key)

    def _member(self, pod: Entry, ordinal: int) -> Member:
        return Member(split_key(pod.key)[1], pod.uid, ordinal)

    def _report(self, verb: str, pod: str, failure: CommandError | ClaimTerminating | None) -> Step[None]:
        """Record an event about a successful or failed write of this pod, unless the command was not sent."""
        if isinstance(failure, CommandError) and isinstance(failure.failure, Refused):
            return
        text = f"{verb} Pod {pod} in StatefulSet {self._set.name}"
        if failure is None:
            yield record(STATEFULSETS, self._set.obj, "Normal", f"Successful{verb}", f"{text} successful")
        else:
            reason = failure.failure.message if isinstance(failure, CommandError) else str(failure)
            yield record(STATEFULSETS, self._set.obj, "Warning", f"Failed{verb}", f"{text} failed error: {reason}")

    def _claim_event(self, pod: str, claim: str, error: str) -> Record:
        if not error:
            text = f"Create Claim {claim} Pod {pod} in StatefulSet {self._set.name} success"
            return record(STATEFULSETS, self._set.obj, "Normal", "SuccessfulCreate", text)
        text = f"Create Claim {claim} for Pod {pod} in StatefulSet {self._set.name} failed error: {error}"
        return record(STATEFULSETS, self._set.obj, "Warning", "FailedCreate", text)


def _failed(command: Command, outcome: Failure, what: str) -> CommandError:
    return CommandError(command, msgspec.structs.replace(outcome, message=f"{what}: {outcome.message}"))
