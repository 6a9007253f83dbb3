"""Writing of the status of workloads, with retries."""

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
    """Write a status to an object's status subresource (PUT). Return False if the object does not exist.

    If the update fails, the object is read from the API server, and the same status is written to its current version,
    up to `retries` times. The status is not computed again, because the change that caused the conflict enqueues the
    object again. Raises CommandError if the last attempt fails.

    A patch would avoid conflicts, but the bootstrap roles of upstream's controllers permit only updates of a status.

    Source: kubernetes v1.36 pkg/controller/replicaset/replica_set_utils.go, updateReplicaSetStatus. Differences:
    - If a new object has the name (another uid), nothing is written and the result is False.
    - If the object's generation has changed, CommandError is raised, so that the object is reconciled again.
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
    """Return a copy of a status without those of the named fields that are 0, as Go's omitempty encodes it."""
    return {name: value for name, value in status.items() if value != 0 or name not in fields}
