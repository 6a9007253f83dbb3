"""The history of a DaemonSet or StatefulSet in the API: which ControllerRevisions are its own, and new ones.

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
from kcm.actors.controllers.shared.ownership import claim, look_into
from kcm.actors.reconciliation import Step, get_live, must_object, perform
from kcm.protocols.messages.outcomes import AlreadyExists, CommandError, Done
from kcm.protocols.objects import Object, decode_object, make_key, metadata, name_of, namespace_of, uid_of
from kcm.protocols.resources import CONTROLLER_REVISIONS, Resource
from kcm.runtime.tables.lister import Lister, UnreadableError


def claim_revisions(
    lister: Lister, *, owner: Object, owners: Resource, matches: Callable[[Mapping[str, str]], bool], releases: bool
) -> Step[list[Object]]:
    """The owner's revisions: those it has and selects, and orphans that it adopts.

    lister: of ControllerRevisions. releases: those that it selects no more lose their owner, as a DaemonSet has it;
    else they stay its own, and count for nothing. Raises CommandError as `claim` does, UnreadableError where one
    cannot be read: it may be the current one.
    """
    doubt = lister.first_unreadable(namespace_of(owner), owner=uid_of(owner))
    if doubt is not None:
        raise UnreadableError(CONTROLLER_REVISIONS, doubt)
    look, its_own = look_into(lister), lister.entries_owned_by(uid_of(owner))
    if not releases:
        its_own = [entry for entry in its_own if matches(look(entry).labels)]
    candidates = [*its_own, *lister.orphan_entries(namespace_of(owner))]
    claimed = yield from claim(candidates, lister=lister, owner=owner, owners=owners, matches=matches, look=look)
    return [lister.object_of(entry) for entry in claimed]


class Created(NamedTuple):
    """revision: as the server has it. collision_count: to be written to the owner's status."""

    revision: Object
    collision_count: int


def create_unique(revision: Object, *, owner: Object, collision_count: int) -> Step[Created]:
    """Create it, or find it: what bears its name and records the same is it; beside another it takes a further name.

    Its labels stay as they are. Raises CommandError. Source: CreateControllerRevision.
    """
    while True:
        name = revision_name(name_of(owner), data_hash(revision["data"], collision_count))
        command = create_revision({**revision, "metadata": {**metadata(revision), "name": name}})
        outcome = yield from perform(command)
        if isinstance(outcome, Done):
            return Created(decode_object(outcome.body), collision_count)
        if not isinstance(outcome, AlreadyExists):
            raise CommandError(command, outcome)
        existing = yield from must_object(get_live(CONTROLLER_REVISIONS, make_key(namespace_of(owner), name)))
        if equal_data(existing.get("data"), revision["data"]):
            return Created(existing, collision_count)
        collision_count += 1


def renumber(revision: Object, number: int) -> Step[Object]:
    """Give a revision this number; returns it as it is then. Raises CommandError.

    Differs from UpdateControllerRevision: a conflict is not tried again here but with the whole sync.
    """
    if number_of(revision) == number:
        return revision
    return (yield from must_object(update_revision({**revision, "revision": number})))
