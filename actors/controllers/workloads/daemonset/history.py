"""ControllerRevisions of a DaemonSet: the current one, and the old ones to delete.

Source: kubernetes v1.36 pkg/controller/daemon/update.go (constructHistory, dedupCurHistories, snapshot,
cleanupHistory). Differences:
- Revisions are compared semantically (actors/controllers/shared/controller_revisions.py).
- If several revisions are equal, one is kept, and the pods of the others get its label. Upstream gives its label to all
  pods, also to pods with older templates, which are then never replaced.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from kcm.actors.controllers.shared.controller_revisions import (
    create_revision,
    equal_data,
    labelled,
    next_number,
    number_of,
    sort_revisions,
    template_data,
    update_revision,
)
from kcm.actors.controllers.shared.revision_history import claim_revisions
from kcm.actors.controllers.workloads.daemonset.objects import HASH_LABEL, DaemonSet
from kcm.actors.reconciliation import (
    Step,
    controlled_by,
    delete,
    get_live,
    must,
    must_all,
    must_object,
    own,
    patch,
    perform,
    update,
)
from kcm.protocols.hashing import template_hash
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import AlreadyExists, Done, NotFound
from kcm.protocols.objects import (
    Object,
    annotations_of,
    decode_object,
    labels_of,
    make_key,
    name_of,
)
from kcm.protocols.resources import CONTROLLER_REVISIONS, DAEMONSETS, PODS
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import Entry


class RevisionHistory(NamedTuple):
    """The current ControllerRevision of a DaemonSet and its older ones."""

    current: Object  # records the DaemonSet's template
    old: list[Object]  # all others, oldest first
    is_own: bool = True  # False if `current` belongs to a deleted DaemonSet of the same name, and will be deleted

    @property
    def hash(self) -> str:
        """The label value that pods of the current revision have."""
        return labels_of(self.current).get(HASH_LABEL) or ""


def ensure_history(daemon_set: DaemonSet, *, revisions: Lister, pods: Sequence[Entry]) -> Step[RevisionHistory]:
    """Claim and label the revisions, create the current one if it is missing, and give it the highest number.

    pods: all pods of the DaemonSet; pods of merged duplicate revisions are relabelled.

    Raises CommandError if a write fails. Source: constructHistory.
    """
    claimed = yield from claim_revisions(
        revisions, owner=daemon_set.obj, owner_resource=DAEMONSETS, matches=daemon_set.selector.matches, releases=True
    )
    data = template_data(daemon_set.obj)
    current: list[Object] = []
    old: list[Object] = []
    for revision in sort_revisions(claimed):
        if HASH_LABEL not in labels_of(revision):
            revision = yield from must_object(update_revision(labelled(revision, HASH_LABEL, name_of(revision))))
        (current if equal_data(revision.get("data"), data) else old).append(revision)
    number = next_number(old)
    if not current:
        created = yield from _record(daemon_set, data, number)
        return RevisionHistory(created, old, is_own=controlled_by(created, daemon_set.obj))
    kept = current.pop()
    if current:
        yield from _merge(kept, current, pods)
    if number_of(kept) < number:
        kept = yield from must_object(update_revision({**kept, "revision": number}))
    return RevisionHistory(kept, old)


def surplus_revisions(old: Sequence[Object], pods: Iterable[Entry], *, limit: int) -> list[Object]:
    """Return the oldest revisions in excess of the limit, without revisions that pods still use.

    Source: cleanupHistory.
    """
    surplus = len(old) - limit
    if surplus <= 0:
        return []
    live: Collection[str | None] = {pod.facts.labels.get(HASH_LABEL) for pod in pods}
    return [revision for revision in sort_revisions(old) if labels_of(revision).get(HASH_LABEL) not in live][:surplus]


def clean_up(revisions: Sequence[Object]) -> Step[None]:
    """Delete these revisions, ignoring missing ones. Raises CommandError if another error occurs."""
    yield from must_all([delete(CONTROLLER_REVISIONS, revision) for revision in revisions], but=(NotFound,))


def _record(daemon_set: DaemonSet, data: Object, number: int) -> Step[Object]:
    """Create the revision of the current template. If a revision of that name and template exists, return it instead.

    Source: snapshot.
    """
    hash = template_hash(daemon_set.template, daemon_set.collision_count)
    # The name is not shortened, unlike that of a StatefulSet's revision. The server rejects names of more than 253
    # characters, and the DaemonSet gets no pods, as upstream.
    name = f"{daemon_set.name}-{hash}"
    meta = {
        "name": name,
        "namespace": daemon_set.namespace,
        "labels": {**daemon_set.template_labels, HASH_LABEL: hash},
        "annotations": annotations_of(daemon_set.obj),
    }
    revision = own({"metadata": meta, "data": data, "revision": number}, by=daemon_set.obj, of=DAEMONSETS)
    command = create_revision(revision)
    outcome = yield from perform(command)
    if isinstance(outcome, Done):
        return decode_object(outcome.body)
    if not isinstance(outcome, AlreadyExists):
        raise CommandError(command, outcome)
    key = make_key(daemon_set.namespace, name)
    existing = yield from must_object(get_live(CONTROLLER_REVISIONS, key))
    if equal_data(existing.get("data"), data):
        return existing
    yield from _count_collision(daemon_set)
    raise CommandError(command, outcome)


def _count_collision(daemon_set: DaemonSet) -> Step[None]:
    """Increment status.collisionCount, so that the next sync derives another revision name.

    Raises ValueError if the live count differs from the count that the name was derived from.
    """
    live = yield from must_object(get_live(DAEMONSETS, daemon_set.key))
    status = live.get("status") or {}
    count = status.get("collisionCount")
    if count != daemon_set.collision_count:
        raise ValueError(
            f"found a stale collision count ({daemon_set.collision_count}, expected {count}) of DaemonSet "
            f'"{daemon_set.name}" while processing; will retry until it is updated'
        )
    counted = {**live, "status": {**status, "collisionCount": (count or 0) + 1}}
    yield from must(update(DAEMONSETS, counted, subresource="status"))


def _merge(kept: Object, duplicates: Sequence[Object], pods: Iterable[Entry]) -> Step[None]:
    """Delete duplicates of the revision `kept`, and relabel their pods with its hash. Source: dedupCurHistories."""
    hash = labels_of(kept).get(HASH_LABEL)
    hashes = {labels_of(revision).get(HASH_LABEL) for revision in duplicates} - {hash}
    body = {"metadata": {"labels": {HASH_LABEL: hash}}}
    relabelled = [patch(PODS, pod.key, body) for pod in pods if pod.facts.labels.get(HASH_LABEL) in hashes]
    yield from must_all(relabelled, but=(NotFound,))
    yield from clean_up(duplicates)
