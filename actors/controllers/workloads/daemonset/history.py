"""The templates that a DaemonSet had, as ControllerRevisions: which is the current one, and which are too old.

Source: kubernetes v1.36 pkg/controller/daemon/update.go (constructHistory, dedupCurHistories, snapshot,
cleanupHistory). Differences:
- Revisions are compared by what they mean (actors/controllers/shared/controller_revisions.py).
- Of several equal revisions one stays, and pods of the others are labelled as its own; upstream labels all pods so,
  those of older templates too, which then are never replaced.
- The name of a revision is cut where the DaemonSet's is too long for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from kcm.actors.controllers.shared.controller_revisions import (
    create_revision,
    equal_data,
    in_order,
    labelled,
    next_number,
    number_of,
    template_data,
    update_revision,
)
from kcm.actors.controllers.shared.revision_history import claim_revisions
from kcm.actors.controllers.workloads.daemonset.fields import HASH_LABEL, DaemonSpec
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
from kcm.protocols.messages.outcomes import AlreadyExists, CommandError, Done, NotFound
from kcm.protocols.objects import (
    Object,
    annotations_of,
    decode_object,
    key_of,
    labels_of,
    make_key,
    name_of,
    namespace_of,
)
from kcm.protocols.resources import CONTROLLER_REVISIONS, DAEMONSETS, PODS
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import Entry


class History(NamedTuple):
    """current: the revision of the DaemonSet's template. old: all others, oldest first.

    is_own: False for a revision of a DaemonSet that bore our name, which is about to be collected.
    """

    current: Object
    old: list[Object]
    is_own: bool = True

    @property
    def hash(self) -> str:
        """The label that the pods of the current revision bear."""
        return labels_of(self.current).get(HASH_LABEL) or ""


def ensure_history(daemon_set: Object, spec: DaemonSpec, *, revisions: Lister, pods: Sequence[Entry]) -> Step[History]:
    """Claim, label, create and number revisions until the current one is the newest. pods: all of the DaemonSet.

    Raises CommandError. Source: constructHistory.
    """
    claimed = yield from claim_revisions(
        revisions, owner=daemon_set, owners=DAEMONSETS, matches=spec.selector.matches, releases=True
    )
    data = template_data(daemon_set)
    current: list[Object] = []
    old: list[Object] = []
    for revision in in_order(claimed):
        if HASH_LABEL not in labels_of(revision):
            revision = yield from must_object(update_revision(labelled(revision, HASH_LABEL, name_of(revision))))
        (current if equal_data(revision.get("data"), data) else old).append(revision)
    number = next_number(old)
    if not current:
        made = yield from _record(daemon_set, spec, data, number)
        return History(made, old, is_own=controlled_by(made, daemon_set))
    kept = current.pop()
    if current:
        yield from _merge(kept, current, pods)
    if number_of(kept) < number:
        kept = yield from must_object(update_revision({**kept, "revision": number}))
    return History(kept, old)


def surplus_revisions(old: Sequence[Object], pods: Iterable[Entry], *, limit: int) -> list[Object]:
    """The oldest beyond the limit; those that some pod has stay, and count. Source: cleanupHistory."""
    too_many = len(old) - limit
    if too_many <= 0:
        return []
    live: Collection[str | None] = {pod.facts.labels.get(HASH_LABEL) for pod in pods}
    return [revision for revision in in_order(old) if labels_of(revision).get(HASH_LABEL) not in live][:too_many]


def clean_up(revisions: Sequence[Object]) -> Step[None]:
    """Delete these. One that is gone is no failure. Raises CommandError."""
    yield from must_all([delete(CONTROLLER_REVISIONS, each) for each in revisions], but=(NotFound,))


def _record(daemon_set: Object, spec: DaemonSpec, data: Object, number: int) -> Step[Object]:
    """The revision of the current template, created or found under its name. Source: snapshot."""
    hash = template_hash(spec.template, spec.collision_count)
    # The whole name: the DaemonSet controller does not shorten it as the StatefulSet controller does. One of more than
    # 253 characters is refused by the server, and the DaemonSet gets no pods.
    name = f"{name_of(daemon_set)}-{hash}"
    meta = {
        "name": name,
        "namespace": namespace_of(daemon_set),
        "labels": {**spec.template_labels, HASH_LABEL: hash},
        "annotations": annotations_of(daemon_set),
    }
    command = create_revision(own({"metadata": meta, "data": data, "revision": number}, by=daemon_set, of=DAEMONSETS))
    outcome = yield from perform(command)
    if isinstance(outcome, Done):
        return decode_object(outcome.body)
    if not isinstance(outcome, AlreadyExists):
        raise CommandError(command, outcome)
    key = make_key(namespace_of(daemon_set), name)
    existing = yield from must_object(get_live(CONTROLLER_REVISIONS, key))
    if equal_data(existing.get("data"), data):
        return existing
    yield from _count_collision(daemon_set, spec)
    raise CommandError(command, outcome)


def _count_collision(daemon_set: Object, spec: DaemonSpec) -> Step[None]:
    """The next sync takes another name. Raises ValueError if the count that the name came from was outdated."""
    live = yield from must_object(get_live(DAEMONSETS, key_of(daemon_set)))
    status = live.get("status") or {}
    count = status.get("collisionCount")
    if count != spec.collision_count:
        raise ValueError(
            f"found a stale collision count ({spec.collision_count}, expected {count}) of DaemonSet "
            f'"{name_of(daemon_set)}" while processing; will retry until it is updated'
        )
    counted = {**live, "status": {**status, "collisionCount": (count or 0) + 1}}
    yield from must(update(DAEMONSETS, counted, subresource="status"))


def _merge(kept: Object, duplicates: Sequence[Object], pods: Iterable[Entry]) -> Step[None]:
    """One of several equal revisions is enough. Source: dedupCurHistories."""
    hash = labels_of(kept).get(HASH_LABEL)
    hashes = {labels_of(each).get(HASH_LABEL) for each in duplicates} - {hash}
    body = {"metadata": {"labels": {HASH_LABEL: hash}}}
    relabelled = [patch(PODS, pod.key, body) for pod in pods if pod.facts.labels.get(HASH_LABEL) in hashes]
    yield from must_all(relabelled, but=(NotFound,))
    yield from clean_up(duplicates)
