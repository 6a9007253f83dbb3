"""What a changed spec.replicas does to the existing ReplicaSets: all keep their share of a rollout under way.

The annotations of a ReplicaSet keep the size of the Deployment that it was sized for. So a change of spec.replicas
differs from a rollout, a change that was carried out in part is completed, and shares are computed from the old size.

Source: kubernetes v1.36 pkg/controller/deployment/sync.go, scale and isScalingEvent, and util/deployment_util.go.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kcm.actors.controllers.workloads.deployment.annotations import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    replicas_annotation,
    with_annotations,
)
from kcm.actors.controllers.workloads.deployment.arithmetic import ROLLING_UPDATE, max_surge, strategy_type
from kcm.actors.controllers.workloads.deployment.fields import (
    active,
    available,
    creation_order,
    number,
    oldest_first,
    replicas,
    section,
    total_replicas,
)
from kcm.protocols.integers import parse_int
from kcm.protocols.objects import Object, annotations_of, name_of


class Resize(NamedTuple):
    """Give this ReplicaSet that spec.replicas, which may be the one it has: its annotations are refreshed too."""

    name: str
    size: int


def size_annotations(deployment: Mapping[str, Any]) -> dict[str, str]:
    """For which size of the Deployment a ReplicaSet is sized now."""
    desired = replicas(deployment)
    return {DESIRED_REPLICAS: str(desired), MAX_REPLICAS: str(desired + max_surge(deployment))}


def resized(replica_set: Object, size: int, deployment: Mapping[str, Any]) -> Object | None:
    """replica_set with this size, and annotated for the Deployment's; None if that is how it is."""
    annotations = {**annotations_of(replica_set), **size_annotations(deployment)}
    if size == replicas(replica_set) and annotations == annotations_of(replica_set):
        return None
    return with_annotations({**replica_set, "spec": {**section(replica_set, "spec"), "replicas": size}}, annotations)


def is_scaling_event(deployment: Mapping[str, Any], replica_sets: Iterable[Object]) -> bool:
    """True if some ReplicaSet with pods was sized for another spec.replicas.

    One whose annotation is missing or unreadable says nothing. Source: isScalingEvent.
    """
    desired = replicas(deployment)
    return any(
        sized_for is not None and sized_for != desired
        for sized_for in (replicas_annotation(each, DESIRED_REPLICAS) for each in active(replica_sets))
    )


def scale_plan(deployment: Mapping[str, Any], new: Object | None, old: Sequence[Object]) -> list[Resize]:
    """The resizes that bring the ReplicaSets to the Deployment's size without hastening its rollout.

    Differs: the only one with pods is named also where it has that size by chance, so that it is annotated for it. Its
    old annotation would count as a change of size for ever, and the rollout never go on (kubernetes/kubernetes#138036).
    So it is with several under Recreate, which a rolling update left behind: they keep their sizes, for the rollout to
    end. Source: scale.
    """
    desired = replicas(deployment)
    only = active_or_latest(new, old)
    if only is not None:
        return [Resize(name_of(only), desired)]
    if is_saturated(deployment, new):
        return [Resize(name_of(each), 0) for each in active(old)]
    with_pods = active([*old, new] if new is not None else old)
    if strategy_type(deployment) != ROLLING_UPDATE:
        return [Resize(name_of(each), replicas(each)) for each in with_pods]
    return proportional_plan(deployment, with_pods)


def active_or_latest(new: Object | None, old: Sequence[Object]) -> Object | None:
    """The only ReplicaSet with pods; without any the new one, else the newest old one. None if there are several.

    Source: FindActiveOrLatest.
    """
    everyone = [*old, new] if new is not None else list(old)
    with_pods = active(everyone)
    if len(with_pods) > 1 or not everyone:
        return None
    if with_pods:
        return with_pods[0]
    return new if new is not None else oldest_first(old)[-1]


def is_saturated(deployment: Mapping[str, Any], new: Object | None) -> bool:
    """True if the new ReplicaSet is as large as the Deployment, was sized for that, and all its pods are available.

    Source: IsSaturated.
    """
    if new is None:
        return False
    sized_for = parse_int(annotations_of(new).get(DESIRED_REPLICAS))
    return {replicas(new), sized_for, available(new)} == {replicas(deployment)}


def proportional_plan(deployment: Mapping[str, Any], replica_sets: Iterable[Object]) -> list[Resize]:
    """Spread the pods to add or remove over these ReplicaSets (all with pods) by their sizes, the largest first.

    Among equals the newer grow first and the older shrink first. What rounding leaves over goes to the first. Each is
    named, so that each is annotated for the new size. Source: the second half of scale.
    """
    desired = replicas(deployment)
    allowed = desired + max_surge(deployment) if desired > 0 else 0
    sets = sorted(replica_sets, key=creation_order)
    to_add = allowed - total_replicas(sets)
    if to_add > 0:
        sets.reverse()
    if to_add != 0:
        sets.sort(key=replicas, reverse=True)  # stable: equals stay in their order of age

    sizes = []
    added = 0
    for each in sets:
        share = _share(each, deployment, to_add=to_add, added=added)
        sizes.append(replicas(each) + share)
        added += share
    if sizes:
        sizes[0] = max(0, sizes[0] + to_add - added)
    return [Resize(name_of(each), size) for each, size in zip(sets, sizes, strict=True)]


def _share(replica_set: Object, deployment: Mapping[str, Any], *, to_add: int, added: int) -> int:
    """Source: GetReplicaSetProportion."""
    left = to_add - added
    if left == 0 or to_add == 0:
        return 0
    share = fraction(replica_set, deployment)
    return min(share, left) if to_add > 0 else max(share, left)


def fraction(replica_set: Mapping[str, Any], deployment: Mapping[str, Any]) -> int:
    """By how many pods this ReplicaSet (spec.replicas > 0) changes if it keeps its share; negative to shrink.

    Its share was of the maximum in its annotation; where that is missing or 0, of status.replicas, which is no exact
    share but stays within the limits; where that is 0 too, it stays as it is. Source: getReplicaSetFraction.
    """
    size, desired = replicas(replica_set), replicas(deployment)
    if desired == 0:
        return -size
    before = replicas_annotation(replica_set, MAX_REPLICAS) or number(deployment, "status", "replicas")
    if before == 0:
        return 0
    return math.floor(size * (desired + max_surge(deployment)) / before + 0.5) - size
