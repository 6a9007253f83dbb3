"""Steps that compare an object with its wanted state and write the differences.

A finalizer protects objects that are created outside the cluster:

    tenant = yield from finalize(self._tenants, key, FINALIZER, directory.remove)
    if tenant is None:
        return None
    yield from call(directory.add, uid_of(tenant))
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kcm.actors.reconciliation.commands import check_key, create, get_live, patch
from kcm.actors.reconciliation.differences import differences, with_exact, without_none
from kcm.actors.reconciliation.failures import Retry
from kcm.actors.reconciliation.outside import call
from kcm.actors.reconciliation.reconciler import Step, step
from kcm.actors.reconciliation.steps import must, must_object
from kcm.protocols.arguments import check_each, check_text
from kcm.protocols.merge_patches import merge_patched
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Patch
from kcm.protocols.messages.outcomes import AlreadyExists, Done, NotFound
from kcm.protocols.models import as_object
from kcm.protocols.objects import (
    Key,
    Object,
    controller_of,
    decode_object,
    finalizers_of,
    is_deleting,
    key_of,
    metadata,
    resource_version_of,
    uid_of,
)
from kcm.protocols.resources import M, Resource
from kcm.runtime.tables.lister import Lister, check_lister

KUBERNETES = frozenset({"foregroundDeletion", "orphan"})  # finalizers without a domain


@step
def ensure(lister: Lister[M], wanted: Mapping[str, Any] | M, *, exact: Sequence[str] = ()) -> Step[M]:
    """Create the object if it does not exist, else patch its differences from `wanted`. Return the resulting object.

    Fields that `wanted` does not name are unchanged, and None removes a field. The precondition of the patch is the
    version that was read. An object that is being deleted is returned unchanged, and created again once it is deleted.

    exact: paths of maps whose other keys are removed, such as ("spec.selector", "data"); without it they are kept,
        because other clients and the server add labels, annotations and defaults.

    If `wanted` has a controller (see `own`) and the existing object another one or none, the object is unchanged, and
    CommandError is raised with AlreadyExists, which names the controller. Raises CommandError for all other outcomes,
    and UnreadableError if the object exists and is unreadable.

    A patch that changes nothing, such as one of a misspelled field, is logged, and not repeated until the object or the
    changes differ, or the controller resyncs.

    Raises ValueError if `wanted` has no name or has a status, and if the selection of the controller's watches
    (labels, fields, namespaces) would not include the object after the write: the controller would not see it again.
    An existing object is checked in its state after the patch, so `wanted` need not repeat its labels.
    """
    check_lister("ensure", lister)
    check_each("exact of ensure", exact, check_text)
    resource, wanted = lister.resource, as_object(wanted)
    if lister.metadata_only:
        raise ValueError(f"{resource} are read metadata-only: differences cannot be determined")
    if "status" in wanted:
        raise ValueError(f"a {resource.kind} is wanted without its status: patch_status writes that")
    key = check_key(resource, key_of(wanted))
    new = without_none(wanted)
    creation = create(resource, new)
    lister.require(key)
    present = lister.maps.get(key)
    if present is None:
        if not lister.selects(new):
            raise ValueError(
                f"{resource} {key} is not created: the controller selects only objects {lister.selection}, "
                "and would never see it"
            )
        outcome = yield creation
        if isinstance(outcome, Done):
            return lister.returned(decode_object(outcome.body))
        if not isinstance(outcome, AlreadyExists):
            raise CommandError(creation, outcome)
        # Created by us, where the response was lost or the watch is late, or created by another client.
        found = yield from must(get_live(resource, key))
        assert isinstance(found, Done)
        present = decode_object(found.body)
    other_owner = _other_owner(wanted, present)
    if other_owner:
        raise CommandError(creation, AlreadyExists(f"{resource} {key!r} {other_owner}"))
    if is_deleting(present):
        return lister.returned(present)
    changes = differences(_comparable(with_exact(wanted, present, exact) if exact else wanted, present), present)
    if not lister.selects(merge_patched(present, changes)):
        selected = f"the controller selects only objects {lister.selection}"
        if not lister.selects(present):  # not in the table, because it belongs to another shard, for example
            raise CommandError(creation, AlreadyExists(f"{resource} {key!r} exists already, and {selected}"))
        raise ValueError(f"{resource} {key} is not patched: {selected}, and would never see it again")
    if not changes or lister.ineffective.holds_back(resource, present, changes):
        return lister.returned(present)
    meta = {**changes.get("metadata", {}), "resourceVersion": resource_version_of(present)}
    patched = yield from must_object(patch(resource, key, {**changes, "metadata": meta}))
    lister.ineffective.patched(resource, present, patched, changes)
    return lister.returned(patched)


def _other_owner(wanted: Mapping[str, Any], present: Mapping[str, Any]) -> str:
    """Return why the existing object is not ours, or "" if it may be."""
    ours, theirs = controller_of(wanted), controller_of(present)
    if ours is None or (theirs is not None and theirs.uid == ours.uid):
        return ""
    us = f"{ours.kind} {ours.name} ({ours.uid})"
    if theirs is None:
        return f"is there already, has no controller, and is not adopted for {us}"
    return f"is there already, and its controller is {theirs.kind} {theirs.name} ({theirs.uid}), not {us}"


def _comparable(wanted: Mapping[str, Any], present: Mapping[str, Any]) -> Object:
    """Return `wanted` in the form that the object is compared in.

    Objects of tables have no kind and apiVersion. Owner references and finalizers of others are kept.
    """
    meta = dict(metadata(wanted))
    now = metadata(present)
    for field, identity in (("ownerReferences", "uid"), ("finalizers", "")):
        if field in meta:
            meta[field] = _united(meta[field] or (), now.get(field) or (), identity)
    rest = {name: value for name, value in wanted.items() if name not in ("kind", "apiVersion", "metadata")}
    return {**rest, "metadata": meta}


def _united(wanted: Sequence[Any], present: Sequence[Any], identity: str) -> list[Any]:
    """Return the present entries, updated by the wanted entries with the same identity, followed by the new entries."""

    def identity_of(entry: Any) -> Key:
        return str(entry.get(identity)) if identity else str(entry)

    entries = {identity_of(entry): entry for entry in present}
    for entry in wanted:
        known = entries.get(identity_of(entry))
        entries[identity_of(entry)] = {**known, **entry} if identity and known is not None else entry
    return list(entries.values())


@step
def patch_status(lister: Lister[M], obj: Mapping[str, Any] | M, status: Any) -> Step[M | None]:
    """Write the given fields of the status that differ from the object's status.

    Fields that are not named are unchanged, None removes a field, and a list (conditions) is written as a whole.
    Returns the resulting object, or None if the object was deleted or replaced by another of its name.

    obj: the object that the status was computed from.

    The status is never replaced by an older one. The precondition of the write is the version that the lister shows,
    which includes own writes, or the version of `obj` if the spec has changed since, so that the write conflicts. A
    status whose observedGeneration is lower than the stored one is not sent.

    A patch that changes nothing, such as one of a field that the schema lacks, is logged, and not repeated until the
    object or the changes differ, or the controller resyncs. Raises CommandError, also for Conflict: the retry uses the
    current object.
    """
    check_lister("patch_status", lister)
    obj, status = lister.map_of(obj), as_object(status)
    resource, key = lister.resource, key_of(obj)
    if lister.metadata_only:
        raise ValueError(f"{resource} are read metadata-only: their status is not available")
    shown = lister.maps.get(key)
    if shown is None or uid_of(shown) != uid_of(obj):
        return None
    stored = shown.get("status") or {}
    if _observed(status) is not None and (_observed(stored) or 0) > (_observed(status) or 0):
        return lister.returned(shown)
    changes = differences(status, stored)
    if not changes or lister.ineffective.holds_back(resource, shown, changes, subresource="status"):
        return lister.returned(shown)
    is_same_spec = metadata(shown).get("generation") == metadata(obj).get("generation")
    version = resource_version_of(shown if is_same_spec else obj)
    body = {"metadata": {"resourceVersion": version}, "status": changes}
    outcome = yield from must(patch(resource, key, body, subresource="status"), but=(NotFound,))
    if not isinstance(outcome, Done):
        return None
    patched = decode_object(outcome.body)
    lister.ineffective.patched(resource, shown, patched, changes, subresource="status")
    return lister.returned(patched)


def _observed(status: Mapping[str, Any]) -> int | None:
    generation = status.get("observedGeneration")
    return generation if isinstance(generation, int) else None


@step
def ensure_finalizer(lister: Lister[M], obj: Mapping[str, Any] | M, name: str) -> Step[M]:
    """Add the finalizer if the object lacks it, and return the resulting object.

    Call this before anything is created outside the cluster: if the controller is stopped in between, it can still
    clean up. Raises CommandError if the write failed, and ValueError if the object is being deleted, because the server
    accepts no new finalizers then.
    """
    _check_finalizer(name)
    now = _as_shown(lister, obj)
    present = finalizers_of(now)
    if name in present:
        return lister.returned(now)
    if is_deleting(now):
        raise ValueError(f"{lister.resource} {key_of(now)} is being deleted, and takes no finalizer any more")
    return lister.returned((yield from must_object(_finalizers_patch(lister.resource, now, [*present, name]))))


@step
def remove_finalizer(lister: Lister[M], obj: Mapping[str, Any] | M, name: str) -> Step[None]:
    """Remove the finalizer if the object has it, so that the server can delete the object.

    Call this once the cleanup is confirmed. Raises CommandError if the write failed. An object that was deleted, or
    replaced by another of its name, is not an error.
    """
    _check_finalizer(name)
    now = _as_shown(lister, obj)
    if uid_of(now) != uid_of(lister.map_of(obj)):
        return
    present = finalizers_of(now)
    if name in present:
        rest = [each for each in present if each != name]
        yield from must(_finalizers_patch(lister.resource, now, rest or None), but=(NotFound,))


@step
def finalize(
    lister: Lister[M],
    key: Key,
    name: str,
    clean_up: Callable[[str], Any],
    *,
    timeout: float = 30.0,
    again: float = 1.0,
) -> Step[M | None]:
    """Return the object, with the finalizer; None if it does not exist, or is being deleted.

    Once it is being deleted, clean_up is called with its uid, as by `call`, and the finalizer is removed. An object
    without the finalizer has nothing to clean up.

    clean_up: function that removes what the object has outside the cluster. It may be called again after it succeeded.
        If it returns False, the removal is not complete: it is called again later.
    timeout: seconds that one call may take.
    again: seconds until clean_up is called again.

    Raises CommandError if a write or the call failed, and Retry if the removal is not complete.
    """
    _check_finalizer(name)
    check_lister("finalize", lister)
    if inspect.isgeneratorfunction(clean_up):
        raise TypeError(
            "clean_up of finalize is called outside of the actor, and cannot yield commands: for a cleanup that writes "
            "objects use ensure_finalizer and remove_finalizer"
        )
    found = lister.get(key)
    if found is None:
        return None
    obj = lister.map_of(found)
    if not is_deleting(obj):
        return (yield from ensure_finalizer(lister, found, name))
    if name in finalizers_of(obj):
        done: Any = yield from call(clean_up, uid_of(obj), timeout=timeout)
        if done is False:
            raise Retry(f"{name} is not cleaned up yet", after=again)
        yield from remove_finalizer(lister, found, name)
    return None


def _as_shown(lister: Lister[M], read: Mapping[str, Any] | M) -> Object:
    """Return the object as the lister shows it, which includes own writes; `read` if the lister does not show it."""
    check_lister("a step about finalizers", lister)
    obj = lister.map_of(read)
    shown = lister.maps.get(key_of(obj))
    return obj if shown is None else shown


def _finalizers_patch(resource: Resource, obj: Mapping[str, Any], names: Sequence[str] | None) -> Patch:
    meta = {"resourceVersion": resource_version_of(obj), "finalizers": names}
    return patch(resource, key_of(obj), {"metadata": meta})


def _check_finalizer(name: str) -> None:
    """Raise ValueError for a finalizer without a domain, which the server rejects, except for Kubernetes' own.

    Here the traceback shows the author the line.
    """
    if not isinstance(name, str):
        raise TypeError(f"a finalizer is text, not {name!r}")
    if name in KUBERNETES:
        return
    domain, slash, rest = name.partition("/")
    if not (domain and slash and rest) or "/" in rest:
        raise ValueError(f"a finalizer is like example.com/name, not {name!r}")
