"""Which ReplicaSet is the new one, which revision it bears, and how it is made.

Source: kubernetes v1.36 pkg/controller/deployment/sync.go, getNewReplicaSet, and util/deployment_util.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kcm.actors.controllers.workloads.deployment.annotations import (
    REVISION,
    REVISION_HISTORY,
    copyable,
    with_annotations,
)
from kcm.actors.controllers.workloads.deployment.arithmetic import new_replica_set_size
from kcm.actors.controllers.workloads.deployment.fields import number, oldest_first, section, template, total_replicas
from kcm.actors.controllers.workloads.deployment.scaling import size_annotations
from kcm.actors.reconciliation import controlled_by, own
from kcm.protocols.bounded_cache import bounded_cache, total_size
from kcm.protocols.hashing import POD_TEMPLATE_HASH_LABEL, template_hash
from kcm.protocols.integers import parse_int, wrapped_int64
from kcm.protocols.objects import (
    Object,
    annotations_of,
    decode_object,
    encode_object,
    name_of,
    namespace_of,
    uid_of,
)
from kcm.protocols.resources import DEPLOYMENTS
from kcm.protocols.semantic import POD_TEMPLATE, semantically_equal, without_hash_label

MAX_HISTORY_LENGTH = 2000  # characters, some hundred revisions
MAX_NAME_LENGTH = 253  # of a DNS subdomain


def same_template(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two objects have the same spec.template but for the label pod-template-hash. Source: EqualIgnoreHash."""
    return _same_template(comparable(one), comparable(other))


def comparable(obj: Mapping[str, Any]) -> bytes:
    """spec.template without the label pod-template-hash, as bytes. Raises ValueError as template does."""
    return encode_object(without_hash_label(template(obj)))


class Templates:
    """What `comparable` made of objects that are looked at again and again: a Deployment's whole history each time."""

    MOST = 256  # objects; some 8 kB each

    def __init__(self) -> None:
        self._known: dict[str, tuple[Mapping[str, Any], bytes]] = {}  # uid → (the very object, what was made of it)

    def __len__(self) -> int:
        return len(self._known)

    def comparable(self, obj: Mapping[str, Any]) -> bytes:
        uid = uid_of(obj)
        known = self._known.get(uid)
        if known is not None and known[0] is obj:
            return known[1]
        made = comparable(obj)
        if len(self._known) >= self.MOST:
            self._known.clear()
        self._known[uid] = obj, made
        return made


def _same_template(one: bytes, other: bytes) -> bool:
    return one == other or _mean_the_same(one, other)


# Every sync of a Deployment compares it with the ReplicaSets of its whole history.
@bounded_cache(1024, longest=64 * 1024, size=total_size)
def _mean_the_same(one: bytes, other: bytes) -> bool:
    return semantically_equal(decode_object(one), decode_object(other), POD_TEMPLATE)


def split_new_and_old(
    deployment: Mapping[str, Any],
    replica_sets: Iterable[Object],
    *,
    comparable: Callable[[Mapping[str, Any]], bytes] = comparable,
) -> tuple[Object | None, list[Object]]:
    """The ReplicaSet with the Deployment's template, and all others, oldest first.

    Of several with that template the oldest is the new one, so that it stays the same one. comparable: the function of
    that name, or one that remembers what it made. Source: FindNewReplicaSet, FindOldReplicaSets.
    """
    wanted = comparable(deployment)
    old = oldest_first(replica_sets)
    for position, replica_set in enumerate(old):
        if _same_template(comparable(replica_set), wanted):
            return old.pop(position), old
    return None, old


def revision_of(obj: Mapping[str, Any]) -> int | None:
    """The number in its annotation, 0 without one, None if that is no number."""
    text = annotations_of(obj).get(REVISION) or "0"
    return parse_int(text)


def next_revision(old: Iterable[Object]) -> int:
    """One more than the highest of the old ReplicaSets, in 64 bits; an unreadable one is passed over.

    Source: MaxRevision.
    """
    return wrapped_int64(max((0, *(revision_of(each) or 0 for each in old))) + 1)


def last_revision(replica_sets: Iterable[Object]) -> int:
    """The second highest revision, 0 if there is none. Source: LastRevision."""
    revisions = sorted(revision for each in replica_sets if (revision := revision_of(each)) is not None)
    return max(0, revisions[-2]) if len(revisions) > 1 else 0


def synced_replica_set(deployment: Mapping[str, Any], new: Object, revision: int) -> Object | None:
    """The new ReplicaSet with the Deployment's annotations and minReadySeconds, and this revision if its own is lower.

    None if that is how it is. One with an unreadable revision keeps the annotations it has. Source: getNewReplicaSet,
    SetNewReplicaSetAnnotations.
    """
    annotations, own = annotations_of(new), revision_of(new)
    wanted = dict(annotations)
    if own is not None:
        wanted |= copyable(annotations_of(deployment))
        if own < revision:
            wanted[REVISION] = str(revision)
            if REVISION in annotations:  # it is rolled back to: what it was before is not forgotten
                wanted[REVISION_HISTORY] = extended_history(
                    annotations.get(REVISION_HISTORY) or "", annotations[REVISION], at_most=MAX_HISTORY_LENGTH
                )
    synced = new
    min_ready = number(deployment, "spec", "minReadySeconds")
    if number(new, "spec", "minReadySeconds") != min_ready:
        synced = {**new, "spec": {**section(new, "spec"), "minReadySeconds": min_ready}}
    if wanted != annotations:
        synced = with_annotations(synced, wanted)
    return synced if synced is not new else None


def extended_history(history: str, revision: str, *, at_most: int) -> str:
    """One more revision at the end of a comma-separated list; the first ones go where it gets longer than at_most."""
    revisions = [*filter(None, history.split(",")), revision]
    while len(revisions) > 1 and len(",".join(revisions)) > at_most:
        del revisions[0]
    return ",".join(revisions)


def new_replica_set(deployment: Object, old: Sequence[Object]) -> Object:
    """Return the ReplicaSet to create for the Deployment's template, with the name that upstream gives it.

    The name follows from the template, so that a repeated creation finds the first one. Raises ValueError on an unknown
    strategy.
    """
    pod_template = template(deployment)
    collisions = section(deployment, "status").get("collisionCount")
    hash = template_hash(pod_template, collisions)
    template_metadata = pod_template.get("metadata") or {}
    labels = {**(template_metadata.get("labels") or {}), POD_TEMPLATE_HASH_LABEL: hash}
    selector = section(deployment, "spec").get("selector") or {}
    spec: Object = {
        "replicas": new_replica_set_size(deployment, total=total_replicas(old), size=0),
        "selector": {
            **selector,
            "matchLabels": {**(selector.get("matchLabels") or {}), POD_TEMPLATE_HASH_LABEL: hash},
        },
        "template": {**pod_template, "metadata": {**template_metadata, "labels": labels}},
    }
    min_ready = number(deployment, "spec", "minReadySeconds")
    if min_ready:
        spec["minReadySeconds"] = min_ready
    annotations = {
        **copyable(annotations_of(deployment)),
        **size_annotations(deployment),
        REVISION: str(next_revision(old)),
    }
    name = replica_set_name(name_of(deployment), hash)
    meta = {"name": name, "namespace": namespace_of(deployment), "labels": labels, "annotations": annotations}
    return own({"metadata": meta, "spec": spec}, by=deployment, of=DEPLOYMENTS)


def replica_set_name(deployment_name: str, hash: str) -> str:
    """Return `<deployment>-<hash>`, with a long name of a Deployment truncated. Source: generateReplicaSetName."""
    return f"{deployment_name[: MAX_NAME_LENGTH - 1 - len(hash)]}-{hash}"


def is_ours(deployment: Mapping[str, Any], replica_set: Mapping[str, Any]) -> bool:
    """Whether a ReplicaSet that bears the name of our new one is it: owned by us, with our template."""
    return controlled_by(replica_set, deployment) and same_template(deployment, replica_set)
