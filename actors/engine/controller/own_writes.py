"""Own writes of a controller: in its tables, from their outcomes, before the watch delivers them, and hot loops.

In a hot loop an object is written again and again. A reconciler whose status differs at each sync is woken by its
own write, without end. Two writers that undo each other's changes do the same to each other. Rate limits hide both from
the API server, but not from the other keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kcm.actors.reconciliation import Reconciliation
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Create, Delete, Get, Patch, PatchType, Update
from kcm.protocols.messages.outcomes import Conflict, Done, NotFound, Outcome
from kcm.protocols.objects import decode_object, is_deleting, resource_version_of, uid_of
from kcm.protocols.versions import own_version
from kcm.runtime.tables.overlay import AnyOverlay
from kcm.runtime.tables.tables import Tables

LOOP_RATE = 1.0  # writes of one object per second, as a mean of the time between two looks
LOOP_LOOKS = 10  # successive looks: longer than the busy minutes of a large rollout, whereas a loop does not end
COUNTED = (Update, Patch, Delete)  # created objects have new names
MOST_OBJECTS = 10_000  # further objects are not counted until the next look


def remember(tables: Tables, command: Command, outcome: Outcome) -> None:
    """Add the result of a command to the overlay of its resource, if the controller reads that resource.

    Only responses that contain the object itself count: of the object and its status, not of scale or binding.
    Raises ValueError, TypeError, KeyError or AttributeError for a malformed response.
    """
    overlay = tables.overlay_to_write(command.resource)
    if overlay is None:
        return
    match command, outcome:
        case Create(subresource="" | "status"), Done(body):
            overlay.wrote(body, made=True)
        case Update(subresource="" | "status", body=asked), Done(body):
            # Of an update without a change the server returns the version of another client's write.
            before = own_version(asked)
            overlay.wrote(body, made=before != 0 and own_version(body) != before)
        case (Patch(subresource="" | "status") as patch, Done(body)) if _is_last_state(body):
            overlay.deleted(patch.key, uid_of(decode_object(body)))
        case (Patch(subresource="" | "status") | Get(subresource="" | "status"), Done(body)):
            overlay.wrote(body)
        case (Delete(), Done(body)):
            # With finalizers the response is the object with a deletionTimestamp, otherwise a Status or its last state.
            if is_deleting(decode_object(body)) and not _is_last_state(body):
                overlay.wrote(body)
            else:
                _record_deletion(overlay, command)
        case (Delete(), NotFound()):
            _record_deletion(overlay, command)
        case (Update(subresource="" | "status", body=asked), NotFound()):
            # The object was deleted and the watch is late. Without this the controller would create dependents of it,
            # which would be collected and created again.
            uid = uid_of(decode_object(asked))
            if uid:
                overlay.deleted(command.key, uid)


def _is_last_state(body: bytes) -> bool:
    """Report whether the object was deleted concurrently: kube-apiserver then sends it without a version."""
    if b'"resourceVersion"' in body or b'"deletionTimestamp"' not in body:
        return False
    obj = decode_object(body)
    return is_deleting(obj) and not resource_version_of(obj)


def _record_deletion(overlay: AnyOverlay, command: Delete) -> None:
    """Record a deletion: of the uid in its precondition, otherwise of the object that the table shows."""
    uid = command.uid
    if uid is None:
        entry = overlay.get(command.key)
        uid = entry.uid if entry is not None else None
    if uid is not None:
        overlay.deleted(command.key, uid)


def stale_update(err: Exception, tables: Tables) -> Update | Patch | None:
    """Return the update, or the patch of a version, that failed with a conflict, if the tables still show its basis.

    Otherwise return None: the retry uses the newer version in the tables.
    """
    if not isinstance(err, CommandError) or not isinstance(err.failure, Conflict):
        return None
    command = err.command
    overlay = tables.overlay(command.resource)
    if not isinstance(command, Update | Patch) or command.subresource not in ("", "status") or overlay is None:
        return None
    if isinstance(command, Patch) and command.patch_type == PatchType.JSON:
        return None
    shown = overlay.get(command.key)
    made_from = resource_version_of(decode_object(command.body))
    return command if shown is not None and str(shown.resource_version) == made_from else None


def refresh(command: Update | Patch, err: Exception, tables: Tables) -> Reconciliation:
    """Read the object live, so that the overlay contains it (see remember), then raise the update's error."""
    outcome = yield Get(command.resource, command.key, as_informer=True)
    if isinstance(outcome, NotFound):
        remember(tables, command, outcome)
    raise err


class HotLoop(NamedTuple):
    """Object that the controller writes again and again. rate: writes per second since the last look."""

    resource: str
    key: str
    rate: float


class HotLoops:
    """Counters of a controller's successful writes, by object.

    loops: those that the last look found.
    """

    def __init__(self, now: float) -> None:
        self.loops: tuple[HotLoop, ...] = ()
        self._since = now
        self._writes: dict[tuple[str, str], int] = {}
        self._looks: dict[tuple[str, str], int] = {}  # number of successive looks with a high rate

    def wrote(self, command: Command) -> None:
        if isinstance(command, COUNTED):
            written, counts = (command.resource, command.key), self._writes
            if written in counts or len(counts) < MOST_OBJECTS:
                counts[written] = counts.get(written, 0) + 1

    def look(self, now: float) -> Iterator[HotLoop]:
        """Yield the loops that have begun since the last look, and begin to count again."""
        seconds, before = max(now - self._since, 1.0), {(loop.resource, loop.key) for loop in self.loops}
        rates = {written: count / seconds for written, count in self._writes.items() if count / seconds >= LOOP_RATE}
        self._looks = {written: self._looks.get(written, 0) + 1 for written in rates}
        self._writes, self._since = {}, now
        self.loops = tuple(
            HotLoop(*written, rates[written]) for written, looks in self._looks.items() if looks >= LOOP_LOOKS
        )
        return (loop for loop in self.loops if (loop.resource, loop.key) not in before)
