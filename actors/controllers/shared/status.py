"""Status updates of workloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.actors.reconciliation import Step, get_live, perform, update
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import Done, NotFound, Refused
from kcm.protocols.objects import Object, decode_object, key_of, metadata, uid_of
from kcm.protocols.resources import Resource


def write_status(
    resource: Resource, obj: Mapping[str, Any], status: Mapping[str, Any], *, retries: int = 1
) -> Step[bool]:
    """PUT this status to the object's status subresource. Return False if the object does not exist.

    After a failure the object is fetched and the same status is written to its new version, up to `retries` times: the
    counts were correct when they were taken, and the next event causes a new sync. Raises CommandError.

    This is not a patch, because the bootstrap roles of upstream's controllers permit to update a status, but not to
    patch it.

    Source: kubernetes v1.36 pkg/controller/replicaset/replica_set_utils.go, updateReplicaSetStatus. Differences: an
    object that was replaced under its name is left alone, and an object whose spec has changed is reconciled again.
    """
    current: Mapping[str, Any] = obj
    while True:
        put = update(resource, {**current, "status": status}, subresource="status")
        outcome = yield from perform(put)
        if isinstance(outcome, Done):
            return True
        if isinstance(outcome, NotFound):
            return False
        if retries == 0 or isinstance(outcome, Refused):
            raise CommandError(put, outcome)
        retries -= 1
        get = get_live(resource, key_of(obj))
        found = yield from perform(get)
        if isinstance(found, NotFound):
            return False
        if not isinstance(found, Done):
            raise CommandError(get, found)
        current = decode_object(found.body)
        if uid_of(current) != uid_of(obj):
            return False
        if current.get("status") == status:
            return True  # the update had succeeded, and only its response was lost
        if metadata(current).get("generation") != metadata(obj).get("generation"):
            # Our counts are for an older spec.generation: retry, so that observedGeneration never decreases.
            raise CommandError(put, outcome)


def without_zeros(status: Object, *fields: str) -> Object:
    """Return the status as Go encodes it: without these fields if they are 0."""
    return {name: value for name, value in status.items() if value != 0 or name not in fields}
