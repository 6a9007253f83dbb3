"""ensure: an object is there, and as it is wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kcm.actors.reconciliation.commands import check_key, create, get_live, patch
from kcm.actors.reconciliation.differences import differences, without_none
from kcm.actors.reconciliation.reconciler import Step, step
from kcm.actors.reconciliation.steps import must, must_object
from kcm.protocols.merge_patches import merge_patched
from kcm.protocols.messages.outcomes import AlreadyExists, CommandError, Done
from kcm.protocols.models import as_object
from kcm.protocols.objects import (
    Key,
    Object,
    controller_of,
    decode_object,
    is_deleting,
    key_of,
    metadata,
    resource_version_of,
)
from kcm.protocols.resources import M
from kcm.runtime.tables.lister import Lister, check_lister


@step
def ensure(lister: Lister[M], wanted: Mapping[str, Any] | M) -> Step[M]:
    """Create the object if it is not there, else patch what differs from `wanted`; nothing where nothing differs.

    Returns the object as it is then. What counts as a difference: actors/reconciliation/differences.py; in short, what
    `wanted` does not name is left alone, and None is what is not to be there. The patch has the version that was looked
    at as its precondition. An object that is being deleted is returned as it is: once it is gone, it is made again.

    Where `wanted` has a controller (see `own`) and the object another, or none, it is left alone, and CommandError is
    raised with AlreadyExists, which names its controller. Also raises CommandError for other outcomes, and
    UnreadableError for an object that is there and cannot be read.

    A patch that changes nothing, as of a misspelt field, is logged and not repeated until the object or its wanted
    changes are others, or the controller resyncs.

    Raises ValueError if `wanted` has no name or has a status, and if the selection of the controller's watches
    (labels, fields, namespaces) would not include the object after the write: the controller would never see it again.
    An existing object is checked as it will be after the patch, so `wanted` need not repeat its labels.
    """
    check_lister("ensure", lister)
    resource, wanted = lister.resource, as_object(wanted)
    if lister.metadata_only:
        raise ValueError(f"{resource} are read metadata-only: nothing tells what differs")
    if "status" in wanted:
        raise ValueError(f"a {resource.kind} is wanted without its status: patch_status writes that")
    key = check_key(resource, key_of(wanted))
    new = without_none(wanted)
    making = create(resource, new)
    lister.require(key)
    present = lister.maps.get(key)
    if present is None:
        if not lister.selects(new):
            raise ValueError(
                f"{resource} {key} is not created: the controller selects only objects {lister.selection}, "
                "and would never see it"
            )
        outcome = yield making
        if isinstance(outcome, Done):
            return lister.returned(decode_object(outcome.body))
        if not isinstance(outcome, AlreadyExists):
            raise CommandError(making, outcome)
        # By us, and the answer was lost or the watch is late; or by another.
        found = yield from must(get_live(resource, key))
        assert isinstance(found, Done)
        present = decode_object(found.body)
    stranger = _stranger(wanted, present)
    if stranger:
        raise CommandError(making, AlreadyExists(f"{resource} {key!r} {stranger}"))
    if is_deleting(present):
        return lister.returned(present)
    changes = differences(_comparable(wanted, present), present)
    if not lister.selects(merge_patched(present, changes)):
        selected = f"the controller selects only objects {lister.selection}"
        if not lister.selects(present):  # from the live read: it belongs to another shard, for example
            raise CommandError(making, AlreadyExists(f"{resource} {key!r} exists already, and {selected}"))
        raise ValueError(f"{resource} {key} is not patched: {selected}, and would never see it again")
    if not changes or lister.ineffective.holds_back(resource, present, changes):
        return lister.returned(present)
    meta = {**changes.get("metadata", {}), "resourceVersion": resource_version_of(present)}
    patched = yield from must_object(patch(resource, key, {**changes, "metadata": meta}))
    lister.ineffective.patched(resource, present, patched, changes)
    return lister.returned(patched)


def _stranger(wanted: Mapping[str, Any], present: Mapping[str, Any]) -> str:
    """Why the object is not the wanted one; empty if it may be."""
    ours, theirs = controller_of(wanted), controller_of(present)
    if ours is None or (theirs is not None and theirs.uid == ours.uid):
        return ""
    us = f"{ours.kind} {ours.name} ({ours.uid})"
    if theirs is None:
        return f"is there already, has no controller, and is not adopted for {us}"
    return f"is there already, and its controller is {theirs.kind} {theirs.name} ({theirs.uid}), not {us}"


def _comparable(wanted: Mapping[str, Any], present: Mapping[str, Any]) -> Object:
    """Without kind and apiVersion, as tables hand objects out; others' owner references and finalizers stay."""
    meta = dict(metadata(wanted))
    now = metadata(present)
    for field, identity in (("ownerReferences", "uid"), ("finalizers", "")):
        if field in meta:
            meta[field] = _united(meta[field] or (), now.get(field) or (), identity)
    rest = {name: value for name, value in wanted.items() if name not in ("kind", "apiVersion", "metadata")}
    return {**rest, "metadata": meta}


def _united(wanted: Sequence[Any], present: Sequence[Any], identity: str) -> list[Any]:
    """What is there, with what is wanted in place of what has the same identity, or after it."""

    def identity_of(one: Any) -> Key:
        return str(one.get(identity)) if identity else str(one)

    places = {identity_of(one): one for one in present}
    for one in wanted:
        known = places.get(identity_of(one))
        places[identity_of(one)] = {**known, **one} if identity and known is not None else one
    return list(places.values())
