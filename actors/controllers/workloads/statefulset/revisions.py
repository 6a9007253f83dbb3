"""ControllerRevisions of a StatefulSet: chooses the current and the update revision, and the template of each new pod.

Source: kubernetes v1.36 pkg/controller/statefulset/stateful_set_control.go (getStatefulSetRevisions, truncateHistory),
stateful_set_utils.go (newRevision, newVersionedStatefulSetPod). Difference: revisions are compared semantically;
upstream compares bytes first, and then only the newest revision semantically.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kcm.actors.controllers.shared.controller_revisions import (
    equal_revisions,
    new_revision,
    next_number,
    sort_revisions,
    surplus,
    template_data,
    with_template_of,
)
from kcm.actors.controllers.shared.revision_history import create_unique, renumber
from kcm.actors.controllers.workloads.statefulset.objects import StatefulSet
from kcm.actors.reconciliation import Step, delete, must_all
from kcm.protocols.messages.outcomes import NotFound
from kcm.protocols.objects import Object, annotations_of, labels_of, metadata, name_of
from kcm.protocols.resources import CONTROLLER_REVISIONS, STATEFULSETS


class Revisions(NamedTuple):
    """The ControllerRevisions of a set, with the current and the update revision."""

    all: Sequence[Object]
    current: Object  # the revision of pods before the update to `update`
    update: Object
    collision_count: int

    @property
    def current_name(self) -> str:
        return name_of(self.current)

    @property
    def update_name(self) -> str:
        return name_of(self.update)


def settle_revisions(stateful_set: StatefulSet, revisions: Iterable[Object]) -> Step[Revisions]:
    """Find or create the revision of the set's template, and return all revisions. Source: getStatefulSetRevisions.

    If an older revision has the same template, its number is raised to make it the newest.
    """
    known = sort_revisions(revisions)
    collisions = stateful_set.collision_count
    proposed = _proposed(stateful_set, known, collisions)
    equal = equal_revisions(known, proposed)
    if equal:
        # If several revisions are equal, the newest one is used.
        newest = equal[-1] is known[-1]
        update = known[-1] if newest else (yield from renumber(equal[-1], next_number(known)))
    else:
        created = yield from create_unique(proposed, owner=stateful_set.obj, collision_count=collisions)
        update, collisions = created.revision, created.collision_count
    current_name = stateful_set.current_revision
    current = next((revision for revision in known if name_of(revision) == current_name), update)
    return Revisions(known, current, update, collisions)


def _proposed(stateful_set: StatefulSet, known: Sequence[Object], collisions: int) -> Object:
    revision = new_revision(
        stateful_set.obj,
        STATEFULSETS,
        labels=labels_of(stateful_set.template),
        data=template_data(stateful_set.obj),
        revision=next_number(known),
        collision_count=collisions,
    )
    annotations = dict(annotations_of(stateful_set.obj))
    return {**revision, "metadata": {**metadata(revision), "annotations": annotations}} if annotations else revision


def revision_for(stateful_set: StatefulSet, revisions: Revisions, ordinal: int) -> Object:
    """Return the revision from which to create the pod with this ordinal. Source: newVersionedStatefulSetPod.

    Ordinals below the partition get the current revision; without a partition, those below status.currentReplicas.
    """
    start = stateful_set.ordinals.start
    if stateful_set.partition is not None:
        current = ordinal < start + stateful_set.partition
    else:
        current = stateful_set.rolling and ordinal < start + stateful_set.current_replicas
    return revisions.current if current else revisions.update


def template_of(stateful_set: StatefulSet, revision: Object) -> Object:
    """Return the pod template that a revision contains. Raises ValueError if it does not contain a template."""
    template: Object = with_template_of(revision, stateful_set.obj)["spec"]["template"]
    return template


def truncate_history(stateful_set: StatefulSet, revisions: Revisions, of_pods: Iterable[str]) -> Step[None]:
    """Delete the oldest revisions in excess of the history limit.

    of_pods: names of the revisions of existing pods, which are kept.
    """
    if stateful_set.history_limit is None:
        return
    live = {revisions.current_name, revisions.update_name, *of_pods}
    old = surplus(revisions.all, limit=stateful_set.history_limit, live=live)
    yield from must_all([delete(CONTROLLER_REVISIONS, revision) for revision in old], but=(NotFound,))
