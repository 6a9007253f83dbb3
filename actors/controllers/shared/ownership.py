"""Adoption and release of dependents by label selector, for any kind of owner and dependent.

plan_claim decides, as a pure function, which objects an owner keeps, adopts and releases; `claim` also sends the
patches.

Source: kubernetes v1.36 pkg/controller/controller_ref_manager.go. Differences:
- The patches of one sync are sent concurrently, and their failures are raised as one error.
- An adopted object is returned in the version that the server has stored, with its new resourceVersion.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple, Protocol

import msgspec

from kcm.actors.reconciliation import Step, get_live, patch, together
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Get, Patch, PatchType
from kcm.protocols.messages.outcomes import Conflict, Done, Failure, Invalid, NotFound
from kcm.protocols.objects import (
    Object,
    OwnerRef,
    decode_object,
    is_deleting,
    key_of,
    metadata,
    namespace_of,
    owner_reference,
    split_key,
    uid_of,
)
from kcm.protocols.resources import Resource
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import Entry


class Claimable(Protocol):
    """Labels and deletion state of a dependent, which adoption and release depend on. PodFacts implements it."""

    @property
    def labels(self) -> Mapping[str, str]: ...

    @property
    def deleting(self) -> bool: ...


class ClaimFields(NamedTuple):
    """Labels and deletion state of an object other than a pod, for decisions about adoption and release."""

    labels: Mapping[str, str]
    deleting: bool


def claim_fields_reader(lister: Lister) -> Callable[[Entry], ClaimFields]:
    """Return a function that returns labels and deletion state of an object from its entry in the informer cache.

    It decodes the object, and is used for resources other than pods. The entries of pods contain these fields already.
    """

    def fields_of(entry: Entry) -> ClaimFields:
        meta = metadata(lister.object_of(entry))
        return ClaimFields(meta.get("labels") or {}, meta.get("deletionTimestamp") is not None)

    return fields_of


class ClaimPlan(NamedTuple):
    """The objects that an owner keeps, adopts (sets its owner reference) and releases (removes its owner reference)."""

    kept: list[Entry]  # owned, and the selector matches
    adopted: list[Entry]  # orphans that the selector matches
    released: list[Entry]  # owned, but the selector does not match


def plan_claim(
    candidates: Iterable[Entry],
    *,
    owner: Object,
    matches: Callable[[Mapping[str, str]], bool],
    fields_of: Callable[[Entry], Claimable] = attrgetter("facts"),
    belongs: Callable[[Entry], bool] | None = None,
) -> ClaimPlan:
    """Decide which candidates the owner keeps, adopts and releases. Objects of other controllers are ignored.

    candidates: orphans, and objects with a controller owner reference
    matches: the owner's selector, called with the labels of a candidate
    fields_of: returns labels and deletion state of a candidate; by default its PodFacts
    belongs: a further condition that objects must meet besides the selector

    An owner that is being deleted keeps its objects, and adopts and releases nothing. An object of another namespace is
    never adopted, unless the owner is cluster-scoped.
    """
    owner_uid, namespace, owner_deleting = uid_of(owner), namespace_of(owner), is_deleting(owner)
    plan = ClaimPlan([], [], [])
    verdicts: dict[int, tuple[Mapping[str, str], bool]] = {}  # keeps the mapping alive, so that its id is not reused
    # This runs for every pod at every sync. Most pods share owner reference and labels with the pod before.
    ours: OwnerRef | None = None
    last: Mapping[str, str] | None = None
    matching = False
    for entry in candidates:
        controller = entry.controller
        if controller is None:
            if owner_deleting:
                continue
        elif controller is not ours:
            if controller.uid != owner_uid:
                continue
            ours = controller
        fields = fields_of(entry)
        labels = fields.labels
        if labels is not last:
            known = verdicts.get(id(labels))
            if known is None:
                known = verdicts[id(labels)] = (labels, matches(labels))
            last, matching = known
        wanted = matching and (belongs is None or belongs(entry))
        if controller is not None:
            if wanted:
                plan.kept.append(entry)
            elif not owner_deleting:
                plan.released.append(entry)
        elif wanted and not fields.deleting and (not namespace or split_key(entry.key)[0] == namespace):
            plan.adopted.append(entry)
    return plan


def adoption(
    entry: Entry, *, dependents: Resource, owner: Object, owner_resource: Resource, finalizers: Sequence[str] = ()
) -> Patch:
    """Return the patch that makes this owner the controller of an orphan.

    dependents, owner_resource: the resources of the orphan and of `owner`. finalizers: finalizers to add to the orphan.
    """
    meta: Object = {
        "ownerReferences": [owner_reference(owner, api_version=owner_resource.api_version, kind=owner_resource.kind)]
    }
    meta["uid"] = entry.uid
    if finalizers:
        meta["finalizers"] = list(finalizers)
    return patch(dependents, entry.key, {"metadata": meta}, patch_type=PatchType.STRATEGIC)


def release(entry: Entry, *, dependents: Resource, owner: Object, finalizers: Sequence[str] = ()) -> Patch:
    """Return the patch that removes the owner reference to this owner, and these finalizers, from an object.

    dependents: the resource of the object.
    """
    meta: Object = {"uid": entry.uid, "ownerReferences": [{"$patch": "delete", "uid": uid_of(owner)}]}
    if finalizers:
        meta["$deleteFromPrimitiveList/finalizers"] = list(finalizers)
    return patch(dependents, entry.key, {"metadata": meta}, patch_type=PatchType.STRATEGIC)


def claim(
    candidates: Iterable[
        Entry
    ],  # usually lister.entries_owned_by(uid of the owner) and lister.orphan_entries(namespace)
    *,
    lister: Lister,  # of the dependents
    owner: Object,
    owner_resource: Resource,  # of `owner`
    matches: Callable[[Mapping[str, str]], bool],
    fields_of: Callable[[Entry], Claimable] = attrgetter("facts"),
    belongs: Callable[[Entry], bool] | None = None,
    finalizers: Sequence[str] = (),  # added to adopted objects, removed from released ones
    known: Collection[Entry] = (),  # returned by an earlier call for the same owner, selector and `belongs`
) -> Step[list[Entry]]:
    """Adopt orphans that the owner's selector matches, and release owned objects that it does not match any more.

    Returns the entries of the objects that the owner owns afterwards. plan_claim describes the decision; it is not made
    again for known entries, which never change. Before an adoption the owner is read from the API server, because the
    informer cache may not contain its deletion or replacement yet.

    Raises CommandError with the messages of all failures, after all patches were sent. It is no failure if an object
    does not exist, or if the server rejects a release as invalid (422): then the object has lost the owner reference,
    or was replaced.
    """
    recalled: list[Entry] = []
    if known:
        candidates = list(candidates)
        recalled = [entry for entry in candidates if entry in known]
        candidates = [entry for entry in candidates if entry not in known]
    plan = plan_claim(candidates, owner=owner, matches=matches, fields_of=fields_of, belongs=belongs)
    plan.kept.extend(recalled)
    if not plan.adopted and not plan.released:
        return plan.kept
    failures: list[tuple[Command, Failure]] = []
    adopted = plan.adopted
    if adopted:
        obstacle = yield from _obstacle_to_adoption(owner, owner_resource)
        if obstacle is not None:
            kind = lister.resource.kind
            failures += [(obstacle[0], _cannot_adopt(kind, entry, obstacle[1])) for entry in adopted]
            adopted = []
    dependents = lister.resource
    commands = [
        *(
            adoption(entry, dependents=dependents, owner=owner, owner_resource=owner_resource, finalizers=finalizers)
            for entry in adopted
        ),
        *(release(entry, dependents=dependents, owner=owner, finalizers=finalizers) for entry in plan.released),
    ]
    outcomes = yield from together(commands)
    kept = plan.kept
    for i, (command, outcome) in enumerate(zip(commands, outcomes, strict=True)):
        adopting = i < len(adopted)
        if isinstance(outcome, Done):
            now = lister.entry(command.key) if adopting else None
            if now is not None and now.uid == adopted[i].uid:
                kept.append(now)
        elif not isinstance(outcome, NotFound) and (adopting or not _is_unprocessable(outcome)):
            failures.append((command, outcome))
    if failures:
        raise CommandError(failures[0][0], _combined([failure for _, failure in failures]))
    return kept


def _obstacle_to_adoption(owner: Object, owner_resource: Resource) -> Step[tuple[Get, Failure] | None]:
    """Read the owner from the API server, to decide whether it may adopt objects.

    It must not adopt objects if it was deleted or replaced, is being deleted, or cannot be read. Returns None if it may
    adopt objects, otherwise the command that read it, and the reason as failure.
    """
    get = get_live(owner_resource, key_of(owner))
    outcome = yield get
    if not isinstance(outcome, Done):
        return get, msgspec.structs.replace(outcome, message=f"can't recheck DeletionTimestamp: {outcome.message}")
    live = decode_object(outcome.body)
    if uid_of(live) != uid_of(owner):
        gone = f"original {owner_resource.kind} {get.key} is gone: got uid {uid_of(live)}, wanted {uid_of(owner)}"
        return get, Conflict(gone)
    if is_deleting(live):
        return get, Conflict(f"{get.key} has just been deleted at {metadata(live)['deletionTimestamp']}")
    return None


def _cannot_adopt(kind: str, entry: Entry, why: Failure) -> Failure:
    return msgspec.structs.replace(why, message=f"can't adopt {kind} {entry.key} ({entry.uid}): {why.message}")


def _is_unprocessable(failure: Failure) -> bool:
    return isinstance(failure, Invalid) and failure.code == 422


def _combined(failures: Sequence[Failure]) -> Failure:
    """Combine failures: return the first failure with the messages of all failures."""
    messages = list(dict.fromkeys(failure.message for failure in failures))
    return (
        failures[0] if len(messages) == 1 else msgspec.structs.replace(failures[0], message=f"[{', '.join(messages)}]")
    )
