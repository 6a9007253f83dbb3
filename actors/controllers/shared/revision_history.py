"""Adoption, creation and renumbering of the ControllerRevisions of a DaemonSet or StatefulSet.

Source: kubernetes v1.36 pkg/controller/history/controller_history.go (ListControllerRevisions,
CreateControllerRevision, UpdateControllerRevision); controller_ref_manager.go, ClaimControllerRevisions;
statefulset/stateful_set.go, adoptOrphanRevisions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kcm.actors.controllers.shared.controller_revisions import (
    create_revision,
    data_hash,
    equal_data,
    number_of,
    revision_name,
    update_revision,
)
from kcm.actors.controllers.shared.ownership import claim, claim_fields_reader
from kcm.actors.reconciliation import Step, get_live, must_object, perform
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import AlreadyExists, Done
from kcm.protocols.objects import Object, decode_object, make_key, metadata, name_of, namespace_of, uid_of
from kcm.protocols.resources import CONTROLLER_REVISIONS, Resource
from kcm.runtime.tables.lister import Lister, UnreadableError


def claim_revisions(
    lister: Lister,
    *,
    owner: Object,
    owner_resource: Resource,
    matches: Callable[[Mapping[str, str]], bool],
    releases: bool,
) -> Step[list[Object]]:
    """Return the ControllerRevisions of an owner, after adopting orphans that its selector matches.

    lister: lister of ControllerRevisions
    owner_resource: the resource of `owner`
    matches: the owner's selector, called with the labels of a revision
    releases: whether owned revisions that the selector does not match are released, as by the DaemonSet controller.
        Otherwise they keep their owner reference, and are not returned.

    Raises CommandError if an adoption or release fails, and UnreadableError if a revision is unreadable, since it may
    be the current one.
    """
    unreadable = lister.first_unreadable(namespace_of(owner), owner=uid_of(owner))
    if unreadable is not None:
        raise UnreadableError(CONTROLLER_REVISIONS, unreadable)
    fields_of, owned = claim_fields_reader(lister), lister.entries_owned_by(uid_of(owner))
    if not releases:
        owned = [entry for entry in owned if matches(fields_of(entry).labels)]
    candidates = [*owned, *lister.orphan_entries(namespace_of(owner))]
    claimed = yield from claim(
        candidates, lister=lister, owner=owner, owner_resource=owner_resource, matches=matches, fields_of=fields_of
    )
    return [lister.object_of(entry) for entry in claimed]


class CreatedRevision(NamedTuple):
    """Result of create_unique: a stored ControllerRevision, and the collision count that its name depends on."""

    revision: Object  # as stored by the server
    collision_count: int  # for status.collisionCount of the owner


def create_unique(revision: Object, *, owner: Object, collision_count: int) -> Step[CreatedRevision]:
    """Create a ControllerRevision under a name that is derived from its data and the collision count.

    If a revision with this name exists, it is returned if its data is equal. Otherwise the collision count is
    incremented, and the revision is created under the next name, with unchanged labels. Raises CommandError if the
    creation fails. Source: CreateControllerRevision.
    """
    while True:
        name = revision_name(name_of(owner), data_hash(revision["data"], collision_count))
        command = create_revision({**revision, "metadata": {**metadata(revision), "name": name}})
        outcome = yield from perform(command)
        if isinstance(outcome, Done):
            return CreatedRevision(decode_object(outcome.body), collision_count)
        if not isinstance(outcome, AlreadyExists):
            raise CommandError(command, outcome)
        existing = yield from must_object(get_live(CONTROLLER_REVISIONS, make_key(namespace_of(owner), name)))
        if equal_data(existing.get("data"), revision["data"]):
            return CreatedRevision(existing, collision_count)
        collision_count += 1


def renumber(revision: Object, number: int) -> Step[Object]:
    """Set the field `revision` of a ControllerRevision to this number. Return the stored object.

    Raises CommandError, also for a conflict, which the next sync retries; upstream retries it here.
    Source: UpdateControllerRevision.
    """
    if number_of(revision) == number:
        return revision
    return (yield from must_object(update_revision({**revision, "revision": number})))
