"""ReplicaSets as revisions of a Deployment: finds the new and old ones, and plans deletions and rollbacks.

Source: kubernetes v1.36 pkg/controller/deployment/sync.go (getNewReplicaSet, cleanupDeployment), rollback.go and
util/deployment_util.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kcm.actors.controllers.workloads.deployment.objects import (
    NEVER_COPIED,
    REVISION,
    REVISION_HISTORY,
    ROLLBACK_TO,
    Deployment,
    ReplicaSet,
    copyable,
    oldest_first,
    pod_template_labels,
    total_replicas,
    with_annotations,
)
from kcm.actors.controllers.workloads.deployment.plans import new_replica_set_size, size_annotations
from kcm.actors.reconciliation import controlled_by, own
from kcm.protocols.bounded_cache import bounded_cache, total_size
from kcm.protocols.hashing import POD_TEMPLATE_HASH_LABEL, template_hash
from kcm.protocols.integers import parse_int, wrapped_int64
from kcm.protocols.messages.events import RecordType
from kcm.protocols.objects import Object, decode_object, encode_object
from kcm.protocols.resources import DEPLOYMENTS
from kcm.protocols.semantic import POD_TEMPLATE, semantically_equal, without_hash_label

MAX_HISTORY_LENGTH = 2000  # characters of the annotation REVISION_HISTORY: some hundred revisions
MAX_NAME_LENGTH = 253  # characters of a DNS subdomain


def same_template(deployment: Deployment, replica_set: ReplicaSet) -> bool:
    """Report whether the pod templates are equal apart from the label pod-template-hash. Source: EqualIgnoreHash."""
    return _same_template(comparable(deployment), comparable(replica_set))


def comparable(parsed: Deployment | ReplicaSet) -> bytes:
    """Return the encoded pod template, without the label pod-template-hash."""
    return encode_object(without_hash_label(parsed.template))


class Templates:
    """Cache of encoded pod templates, because every sync compares the Deployment with all its old ReplicaSets."""

    MAX_SIZE = 256  # objects, of about 8 kB each

    def __init__(self) -> None:
        self._known: dict[str, tuple[Object, bytes]] = {}  # by uid: the object itself, and its encoded template

    def __len__(self) -> int:
        return len(self._known)

    def comparable(self, parsed: Deployment | ReplicaSet) -> bytes:
        known = self._known.get(parsed.uid)
        if known is not None and known[0] is parsed.obj:
            return known[1]
        encoded = comparable(parsed)
        if len(self._known) >= self.MAX_SIZE:
            self._known.clear()
        self._known[parsed.uid] = parsed.obj, encoded
        return encoded


def _same_template(template: bytes, other: bytes) -> bool:
    return template == other or _semantically_equal(template, other)


@bounded_cache(1024, longest=64 * 1024, size=total_size)
def _semantically_equal(template: bytes, other: bytes) -> bool:
    return semantically_equal(decode_object(template), decode_object(other), POD_TEMPLATE)


def split_new_and_old(
    deployment: Deployment,
    replica_sets: Iterable[ReplicaSet],
    *,
    comparable: Callable[[Deployment | ReplicaSet], bytes] = comparable,
) -> tuple[ReplicaSet | None, list[ReplicaSet]]:
    """Return the ReplicaSet with the Deployment's template (None if there is none), and all others, oldest first.

    If several ReplicaSets have that template, the oldest of them is returned, so that the choice is stable.

    comparable: function that returns the encoded template, see `comparable` and `Templates.comparable`.

    Source: FindNewReplicaSet, FindOldReplicaSets.
    """
    template = comparable(deployment)
    old = oldest_first(replica_sets)
    for position, replica_set in enumerate(old):
        if _same_template(comparable(replica_set), template):
            return old.pop(position), old
    return None, old


def next_revision(old: Iterable[ReplicaSet]) -> int:
    """Return the highest revision of the old ReplicaSets plus one, wrapped to int64. Invalid revisions are ignored.

    Source: MaxRevision.
    """
    return wrapped_int64(max((0, *(replica_set.revision or 0 for replica_set in old))) + 1)


def last_revision(replica_sets: Iterable[ReplicaSet]) -> int:
    """Return the second highest revision, or 0 if there are fewer than two. Source: LastRevision."""
    revisions = sorted(replica_set.revision for replica_set in replica_sets if replica_set.revision is not None)
    return max(0, revisions[-2]) if len(revisions) > 1 else 0


def synced_replica_set(deployment: Deployment, new: ReplicaSet, revision: int) -> Object | None:
    """Return the new ReplicaSet with the Deployment's annotations and minReadySeconds, and at least the given revision.

    Returns None if nothing changes. If the ReplicaSet's revision is invalid, its annotations are kept.

    Source: getNewReplicaSet, SetNewReplicaSetAnnotations.
    """
    annotations = dict(new.annotations)
    if new.revision is not None:
        annotations |= copyable(deployment.annotations)
        if new.revision < revision:
            annotations[REVISION] = str(revision)
            if REVISION in new.annotations:  # a rollback to this ReplicaSet: keep its former revisions
                annotations[REVISION_HISTORY] = extended_history(
                    new.annotations.get(REVISION_HISTORY) or "",
                    new.annotations[REVISION],
                    at_most=MAX_HISTORY_LENGTH,
                )
    synced = new.obj
    if new.min_ready_seconds != deployment.min_ready_seconds:
        spec = {**(synced.get("spec") or {}), "minReadySeconds": deployment.min_ready_seconds}
        synced = {**synced, "spec": spec}
    if annotations != new.annotations:
        synced = with_annotations(synced, annotations)
    return synced if synced is not new.obj else None


def extended_history(history: str, revision: str, *, at_most: int) -> str:
    """Append a revision to a comma-separated list, and drop the first ones while it exceeds `at_most` characters."""
    revisions = [*filter(None, history.split(",")), revision]
    while len(revisions) > 1 and len(",".join(revisions)) > at_most:
        del revisions[0]
    return ",".join(revisions)


def new_replica_set(deployment: Deployment, old: Sequence[ReplicaSet]) -> Object:
    """Return the ReplicaSet to create for the Deployment's template, named as upstream names it.

    The name is derived from the template, so that a repeated creation fails with AlreadyExists.

    Raises ValueError if the strategy is unknown.
    """
    hash = template_hash(deployment.template, deployment.collision_count)
    labels = {**pod_template_labels(deployment), POD_TEMPLATE_HASH_LABEL: hash}
    template_metadata = {**(deployment.template.get("metadata") or {}), "labels": labels}
    selector = deployment.obj["spec"]["selector"]
    spec: Object = {
        "replicas": new_replica_set_size(deployment, total=total_replicas(old), size=0),
        "selector": {
            **selector,
            "matchLabels": {**(selector.get("matchLabels") or {}), POD_TEMPLATE_HASH_LABEL: hash},
        },
        "template": {**deployment.template, "metadata": template_metadata},
    }
    if deployment.min_ready_seconds:
        spec["minReadySeconds"] = deployment.min_ready_seconds
    annotations = {
        **copyable(deployment.annotations),
        **size_annotations(deployment),
        REVISION: str(next_revision(old)),
    }
    name = replica_set_name(deployment.name, hash)
    meta = {"name": name, "namespace": deployment.namespace, "labels": labels, "annotations": annotations}
    return own({"metadata": meta, "spec": spec}, by=deployment.obj, of=DEPLOYMENTS)


def replica_set_name(deployment_name: str, hash: str) -> str:
    """Return `<deployment>-<hash>`, with the Deployment's name truncated if necessary.

    Source: generateReplicaSetName.
    """
    return f"{deployment_name[: MAX_NAME_LENGTH - 1 - len(hash)]}-{hash}"


def is_new_replica_set(deployment: Deployment, replica_set: ReplicaSet) -> bool:
    """Report whether an existing ReplicaSet is controlled by the Deployment and has the Deployment's template."""
    return controlled_by(replica_set.obj, deployment.obj) and same_template(deployment, replica_set)


# History.


def history_to_delete(deployment: Deployment, old: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    """Return the oldest old ReplicaSets in excess of spec.revisionHistoryLimit. Source: cleanupDeployment.

    A ReplicaSet without a valid revision counts as oldest. A ReplicaSet that has pods, or whose last change was not
    observed by its controller yet, is kept, and no newer ReplicaSet is deleted instead of it.
    """
    limit = deployment.history_limit
    if limit is None or len(old) <= limit:
        return []
    present = [replica_set for replica_set in old if not replica_set.is_deleting]
    present.sort(key=lambda replica_set: (replica_set.revision or 0, replica_set.created))
    return [replica_set for replica_set in present[: max(0, len(present) - limit)] if _is_idle(replica_set)]


def _is_idle(replica_set: ReplicaSet) -> bool:
    return (
        replica_set.replicas == 0
        and replica_set.status_replicas == 0
        and replica_set.generation <= replica_set.observed_generation
    )


# Rollback requested by an annotation, as old clients do. `kubectl rollout undo` writes the old template itself.


class Rollback(NamedTuple):
    """The Deployment to write for a rollback request, and the event to record."""

    deployment: Object  # to write, without the request
    type: RecordType  # of the event, as are reason and message
    reason: str
    message: str


def requested_revision(annotations: Mapping[str, str]) -> int | None:
    """Return the revision that the annotation ROLLBACK_TO requests: 0 for the previous one, None without a valid
    request.
    """
    return parse_int(annotations.get(ROLLBACK_TO))


def rollback_plan(deployment: Deployment, replica_sets: Sequence[ReplicaSet], revision: int) -> Rollback:
    """Return the Deployment with the template and annotations of the ReplicaSet that has this revision.

    Source: rollback.

    If there is no such ReplicaSet, only the request is removed, and the event is a warning.

    revision: 0 for the previous revision.
    """
    kept = {name: value for name, value in deployment.annotations.items() if name != ROLLBACK_TO}
    cleared = with_annotations(deployment.obj, kept)
    not_found = "DeploymentRollbackRevisionNotFound"
    if revision == 0:
        revision = last_revision(replica_sets)
        if revision == 0:
            return Rollback(cleared, "Warning", not_found, "Unable to find last revision.")
    target = next((replica_set for replica_set in replica_sets if replica_set.revision == revision), None)
    if target is None:
        return Rollback(cleared, "Warning", not_found, "Unable to find the revision to rollback to.")
    if same_template(deployment, target):
        return Rollback(
            cleared,
            "Warning",
            "DeploymentRollbackTemplateUnchanged",
            f'The rollback revision contains the same template as current deployment "{deployment.name}"',
        )
    # The annotations are restored with the template: a change-cause describes the revision, and would otherwise be
    # copied from the Deployment to the ReplicaSet of the rollback.
    own = {name: value for name, value in kept.items() if name in NEVER_COPIED}
    rolled_back = with_annotations(cleared, {**own, **copyable(target.annotations)})
    rolled_back["spec"] = {**deployment.obj["spec"], "template": without_hash_label(target.template)}
    return Rollback(
        rolled_back,
        "Normal",
        "DeploymentRollback",
        f'Rolled back deployment "{deployment.name}" to revision {revision}',
    )
