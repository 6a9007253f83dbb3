"""Creation and deletion of pods from a template, with events on the owner.

Source: kubernetes v1.36 pkg/controller/controller_utils.go (GetPodFromTemplate, RealPodControl). Differences:
- The controller chooses the names of pods (actors/controllers/shared/generated_names.py), not the server.
- A deletion has the uid as precondition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import orjson
from msgspec import Struct, field

from kcm.actors.controllers.shared.generated_names import as_if_generated, generate_name
from kcm.actors.reconciliation import Step, delete, get_live, own, record, slow_start, together
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Create
from kcm.protocols.messages.events import Record
from kcm.protocols.messages.outcomes import (
    AlreadyExists,
    Conflict,
    Done,
    Failure,
    Forbidden,
    NotFound,
    Outcome,
    Refused,
    Unknown,
)
from kcm.protocols.objects import (
    Key,
    Object,
    decode_object,
    encode_object,
    key_of,
    make_key,
    metadata,
    name_of,
    namespace_of,
    split_key,
)
from kcm.protocols.resources import PODS, Resource
from kcm.runtime.tables.table import Entry


class PodForm:
    """Encoded pod without a name, from which an owner creates its pods: they differ only by name."""

    __slots__ = ("_after_name", "base", "namespace")

    def __init__(self, template: Object, *, owner: Object, owner_resource: Resource, base: str | None = None) -> None:
        """Encode a pod template. Raises ValueError if it is malformed or has no labels.

        owner_resource: the resource of `owner`, for the owner reference
        base: value of generateName in the pods; by default it is derived from the owner's name
        """
        meta = template.get("metadata") or {}
        spec = template.get("spec") or {}
        if not isinstance(meta, dict) or not isinstance(spec, dict):
            raise ValueError("unable to create pods, the template's metadata and spec are maps")
        if not meta.get("labels"):
            raise ValueError("unable to create pods, no labels")
        self.namespace = namespace_of(owner)
        self.base = generate_name(name_of(owner)) if base is None else base
        pod_meta: dict[str, Any] = {"generateName": self.base, "namespace": self.namespace}
        pod_meta.update({name: meta[name] for name in ("labels", "annotations", "finalizers") if meta.get(name)})
        owned = metadata(own({"metadata": pod_meta}, by=owner, of=owner_resource))
        self._after_name = b"," + encode_object(owned)[1:] + b',"spec":' + encode_object(spec) + b"}"

    def create(self, name: str) -> Create:
        """Return the command that creates a pod with this name."""
        body = b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":' + orjson.dumps(name) + self._after_name
        return Create(PODS.id, self.namespace, body)


class Creations(Struct):
    """Result of the creation of several pods. unknown_outcomes.py describes how to handle unknown outcomes."""

    created: list[Key] = field(default_factory=list)
    # Keys of pods that existed already: pods of this owner that the table does not contain yet, or foreign pods.
    existing: list[Key] = field(default_factory=list)
    failed: int = 0  # number of failed creations
    failure: CommandError | None = None  # the first failure, for the sync to raise
    maybe_created: list[str] = field(default_factory=list)  # names of pods whose creation has an unknown outcome


def create_pods(form: PodForm, names: Sequence[str], *, owner: Object, owner_resource: Resource) -> Step[Creations]:
    """Create pods with these names from one template. See create_each for batches, events and failures."""
    return (yield from create_each([(form, name) for name in names], owner=owner, owner_resource=owner_resource))


def create_each(pods: Sequence[tuple[PodForm, str]], *, owner: Object, owner_resource: Resource) -> Step[Creations]:
    """Create pods in batches of 1, 2, 4, … until a creation fails, and record an event on the owner for each pod.

    pods: (encoded template, name) of each pod
    owner_resource: the resource of `owner`

    If the namespace is being terminated, no further batch is sent, but this is not counted as a failure and there is no
    event, because retries would be useless. Difference: upstream continues with the next batch.
    """
    result = Creations()
    left = iter(pods)

    def report(command: Command, outcome: Outcome) -> Iterator[Record]:
        form, name = next(left)
        key = make_key(form.namespace, name)
        match outcome:
            case Done():
                result.created.append(key)
                yield record(owner_resource, owner, "Normal", "SuccessfulCreate", f"Created pod: {name}")
            case AlreadyExists():
                result.existing.append(key)
            case Forbidden() if is_namespace_terminating(outcome):
                pass
            case _:
                if isinstance(outcome, Unknown):
                    result.maybe_created.append(name)
                result.failed += 1
                failure = as_if_generated(outcome, name, base=form.base)
                if result.failure is None:
                    result.failure = CommandError(command, failure)
                if not isinstance(outcome, Refused):  # if the creation was not sent, the event would not be sent either
                    yield record(owner_resource, owner, "Warning", "FailedCreate", f"Error creating: {failure.message}")

    yield from slow_start([form.create(name) for form, name in pods], succeeded=_exists, report=report)
    return result


def fetch_existing(creations: Creations) -> Step[list[Key]]:
    """Read the pods whose names existed already (creations.existing) from the API server.

    The results are laid over the informer cache, so that the next sync counts these pods, or chooses other names.
    Returns the keys of the pods that were read or do not exist. A pod that cannot be read is added to
    creations.maybe_created.
    """
    gets = [get_live(PODS, key, as_informer=True) for key in creations.existing]
    outcomes = yield from together(gets)
    resolved = []
    for get, outcome in zip(gets, outcomes, strict=True):
        if isinstance(outcome, Done | NotFound):
            resolved.append(get.key)
        else:
            creations.failure = CommandError(get, outcome)
            creations.maybe_created.append(split_key(get.key)[1])
    return resolved


class Deletions(Struct):
    """Result of the deletion of several pods. unknown_outcomes.py describes how to handle unknown outcomes."""

    deleted: list[Key] = field(default_factory=list)  # also pods that terminate gracefully
    conflicting: list[Key] = field(default_factory=list)  # pods that were replaced, or must not be deleted now
    maybe_deleted: list[str] = field(default_factory=list)  # uids of pods whose deletion has an unknown outcome
    known: list[str] = field(default_factory=list)  # uids of pods that are deleted, missing or in conflict
    failure: CommandError | None = None  # the first failure, for the sync to raise


def delete_pods(
    pods: Iterable[Entry], *, owner: Object, owner_resource: Resource, further_grounds: Sequence[Resource] = ()
) -> Step[Deletions]:
    """Delete pods concurrently, and record an event on the owner for each pod.

    owner_resource: the resource of `owner`
    further_grounds: resources, besides pods and the owner, whose informer caches the decision to delete depends on. The
        deletions wait while one of these caches is stale.

    It is no failure if a pod does not exist, or was replaced by another pod with the same name.
    """
    pods = list(pods)
    result = Deletions()
    grounds: list[Resource | tuple[Resource, Key]] = [PODS, (owner_resource, key_of(owner)), *further_grounds]
    commands = [delete(PODS, pod, depends_on=grounds) for pod in pods]
    outcomes = yield from together(commands)
    for pod, command, outcome in zip(pods, commands, outcomes, strict=True):
        if isinstance(outcome, Done | NotFound | Conflict):
            result.known.append(pod.uid)
        match outcome:
            case Done():
                result.deleted.append(command.key)
                yield record(
                    owner_resource, owner, "Normal", "SuccessfulDelete", f"Deleted pod: {split_key(command.key)[1]}"
                )
            case NotFound():
                pass
            case Conflict():
                result.conflicting.append(command.key)
            case _:
                if isinstance(outcome, Unknown):
                    result.maybe_deleted.append(pod.uid)
                if result.failure is None:
                    why = msgspec.structs.replace(outcome, message=f"unable to delete pods: {outcome.message}")
                    result.failure = CommandError(command, why)
                if not isinstance(outcome, Refused):
                    yield record(owner_resource, owner, "Warning", "FailedDelete", f"Error deleting: {outcome.message}")
    return result


def is_namespace_terminating(failure: Failure) -> bool:
    """Report whether a creation failed because its namespace is being terminated.

    Source: apierrors.HasStatusCause, NamespaceTerminatingCause.
    """
    if not isinstance(failure, Forbidden) or b"NamespaceTerminating" not in failure.status:
        return False
    try:
        causes = (decode_object(failure.status).get("details") or {}).get("causes") or []
        return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
    except (AttributeError, TypeError, ValueError):  # a malformed Status
        return False


def _exists(outcome: Outcome) -> bool:
    return isinstance(outcome, (Done, AlreadyExists))
