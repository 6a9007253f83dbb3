"""Plans for the sizes of ReplicaSets: for a change of spec.replicas, for a rolling update, and for Recreate.

A plan is a list of resizes, which rollout.py writes. When a ReplicaSet is resized, the size of the Deployment at that
time is recorded in its annotations. A recorded size that differs from spec.replicas shows that spec.replicas was
changed and that not every ReplicaSet has been adapted yet. Proportional scaling starts from the recorded size.

Source: kubernetes v1.36 pkg/controller/deployment: sync.go, rolling.go, recreate.go and util/deployment_util.go.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kcm.actors.controllers.workloads.deployment.objects import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    RECREATE,
    ROLLING_UPDATE,
    Deployment,
    ReplicaSet,
    active,
    oldest_first,
    total_replicas,
    unexpected_strategy,
    with_annotations,
)
from kcm.protocols.integers import parse_int
from kcm.protocols.objects import Object


class Resize(NamedTuple):
    """A ReplicaSet, by name, and the value to set spec.replicas to.

    If the value is unchanged, annotations are refreshed.
    """

    name: str
    size: int


def size_annotations(deployment: Deployment) -> dict[str, str]:
    """Return the annotations that record the Deployment's current size on a ReplicaSet."""
    desired = deployment.replicas
    return {DESIRED_REPLICAS: str(desired), MAX_REPLICAS: str(desired + deployment.max_surge)}


def resized(replica_set: ReplicaSet, size: int, deployment: Deployment) -> Object | None:
    """Return the ReplicaSet with this size and the size annotations; None if the object already has them."""
    annotations = {**replica_set.annotations, **size_annotations(deployment)}
    if size == replica_set.replicas and annotations == replica_set.annotations:
        return None
    obj = replica_set.obj
    return with_annotations({**obj, "spec": {**(obj.get("spec") or {}), "replicas": size}}, annotations)


# A change of spec.replicas.


def is_scaling_event(deployment: Deployment, replica_sets: Iterable[ReplicaSet]) -> bool:
    """Report whether spec.replicas has changed since a ReplicaSet with pods was last resized.

    A ReplicaSet whose annotation is missing or invalid is ignored. Source: isScalingEvent.
    """
    return any(
        replica_set.desired_replicas is not None and replica_set.desired_replicas != deployment.replicas
        for replica_set in active(replica_sets)
    )


def scale_plan(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> list[Resize]:
    """Plan the sizes of the ReplicaSets after a change of spec.replicas, without advancing a rollout. Source: scale.

    Difference from upstream: the plan contains the only ReplicaSet with pods even if its size is already correct, so
    that its annotations are refreshed. Otherwise the outdated annotation would count as a scaling event in every sync,
    and the rollout would never continue (kubernetes/kubernetes#138036). For the same reason the plan contains all
    ReplicaSets with pods if there are several of them under Recreate, left from a rolling update: they keep their sizes
    until the rollout scales them down.
    """
    only = active_or_latest(new, old)
    if only is not None:
        return [Resize(only.name, deployment.replicas)]
    if is_saturated(deployment, new):
        return [Resize(replica_set.name, 0) for replica_set in active(old)]
    with_pods = active([*old, new] if new is not None else old)
    if deployment.strategy != ROLLING_UPDATE:
        return [Resize(replica_set.name, replica_set.replicas) for replica_set in with_pods]
    return proportional_plan(deployment, with_pods)


def active_or_latest(new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """Return the only ReplicaSet with pods. If no ReplicaSet has pods, return the new one, or else the newest old one.

    Returns None if several ReplicaSets have pods. Source: FindActiveOrLatest.
    """
    replica_sets = [*old, new] if new is not None else list(old)
    with_pods = active(replica_sets)
    if len(with_pods) > 1 or not replica_sets:
        return None
    if with_pods:
        return with_pods[0]
    return new if new is not None else oldest_first(old)[-1]


def is_saturated(deployment: Deployment, new: ReplicaSet | None) -> bool:
    """Report whether the new ReplicaSet has the full size of the Deployment, and all its pods are available.

    The size that its annotation records must equal spec.replicas too. Source: IsSaturated.
    """
    if new is None:
        return False
    sized_for = parse_int(new.annotations.get(DESIRED_REPLICAS))
    return {new.replicas, sized_for, new.available_replicas} == {deployment.replicas}


def proportional_plan(deployment: Deployment, replica_sets: Iterable[ReplicaSet]) -> list[Resize]:
    """Distribute the pods to add or remove over ReplicaSets with pods, in proportion to their sizes.

    The largest ReplicaSet comes first. Among ReplicaSets of equal size, the newer one grows first and the older one
    shrinks first. The first one also takes the remainder from rounding. The plan contains every ReplicaSet, so that all
    annotations are refreshed. Source: the second half of scale.
    """
    desired = deployment.replicas
    allowed = desired + deployment.max_surge if desired > 0 else 0
    ordered = oldest_first(replica_sets)
    to_add = allowed - total_replicas(ordered)
    if to_add > 0:
        ordered.reverse()
    if to_add != 0:
        # Stable: equals stay in their order of age.
        ordered.sort(key=lambda replica_set: replica_set.replicas, reverse=True)

    sizes = []
    added = 0
    for replica_set in ordered:
        share = _share(replica_set, deployment, to_add=to_add, added=added)
        sizes.append(replica_set.replicas + share)
        added += share
    if sizes:
        sizes[0] = max(0, sizes[0] + to_add - added)
    return [Resize(replica_set.name, size) for replica_set, size in zip(ordered, sizes, strict=True)]


def _share(replica_set: ReplicaSet, deployment: Deployment, *, to_add: int, added: int) -> int:
    """Return how many pods to add to a ReplicaSet (negative: to remove), limited to what remains of the total change.

    to_add: total change of size (negative: pods to remove). added: the part of it already distributed.
    Source: GetReplicaSetProportion.
    """
    left = to_add - added
    if left == 0 or to_add == 0:
        return 0
    share = fraction(replica_set, deployment)
    return min(share, left) if to_add > 0 else max(share, left)


def fraction(replica_set: ReplicaSet, deployment: Deployment) -> int:
    """Return the number of pods by which a ReplicaSet must grow to keep its proportion (negative: shrink).

    The proportion refers to the maximum size in the ReplicaSet's annotation. If that is missing or 0, status.replicas
    of the Deployment is used, which is less exact but stays within the limits. If that is 0 too, the size does not
    change. The ReplicaSet must have pods. Source: getReplicaSetFraction.
    """
    size, desired = replica_set.replicas, deployment.replicas
    if desired == 0:
        return -size
    before = replica_set.max_replicas or deployment.status.get("replicas") or 0
    if before == 0:
        return 0
    return math.floor(size * (desired + deployment.max_surge) / before + 0.5) - size


# RollingUpdate.


def new_replica_set_size(deployment: Deployment, *, total: int, size: int) -> int:
    """Return the size to which the new ReplicaSet may grow now. Source: NewRSNewReplicas.

    A rolling update fills up to spec.replicas plus surge, and never shrinks the new ReplicaSet here.

    total: sum of spec.replicas of all ReplicaSets, including the new one.
    size: current spec.replicas of the new ReplicaSet.

    Raises ValueError if the strategy is unknown.
    """
    if deployment.strategy == RECREATE:
        return deployment.replicas
    if deployment.strategy != ROLLING_UPDATE:
        raise unexpected_strategy(deployment)
    room = deployment.replicas + deployment.max_surge - total
    return size if room <= 0 else size + min(room, deployment.replicas - size)


def growth_plan(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> list[Resize]:
    """Plan the next size of the new ReplicaSet; the plan is empty if the size does not change.

    Source: reconcileNewReplicaSet.
    """
    size, desired = new.replicas, deployment.replicas
    next_size = min(size, desired)
    if size < desired:
        next_size = new_replica_set_size(deployment, total=total_replicas(old) + size, size=size)
    return [Resize(new.name, next_size)] if next_size != size else []


def shrink_plan(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> list[Resize]:
    """Plan the next sizes of the old ReplicaSets, in order. A ReplicaSet may occur twice in the plan.

    Unavailable pods are removed first, because they delay the rollout and serve no traffic. Then available pods are
    removed, as many as maxUnavailable permits. Unavailable pods of the new ReplicaSet count towards maxUnavailable.

    Difference from upstream: after a rollback, the ReplicaSet that becomes the new one may still be scaling down, and
    its status counts pods that are about to be deleted. Upstream counts them as available, and too few pods remain.

    Source: reconcileOldReplicaSets.
    """
    with_pods = oldest_first(active(old))
    min_available = deployment.replicas - deployment.max_unavailable
    new_unavailable = new.replicas - staying(new)
    to_remove = total_replicas([*old, new]) - min_available - new_unavailable
    if not with_pods or to_remove <= 0:
        return []
    plan, complete = unavailable_plan(with_pods, to_remove)
    if not complete:
        return plan
    sizes = {replica_set.name: replica_set.replicas for replica_set in with_pods} | dict(plan)
    spare = sum(map(staying, [*with_pods, new])) - min_available
    return plan + spread_plan(sizes, spare)


def staying(replica_set: ReplicaSet) -> int:
    """Return the number of available pods that will remain. Pods in excess of spec.replicas are about to be deleted."""
    return min(replica_set.available_replicas, replica_set.replicas)


def unavailable_plan(old: Sequence[ReplicaSet], at_most: int) -> tuple[list[Resize], bool]:
    """Plan the removal of up to `at_most` unavailable pods from these ReplicaSets, in order.

    Also returns whether the plan is complete. A ReplicaSet with more available pods than spec.replicas is scaling down
    and its status is out of date, so the plan ends before it and is incomplete.

    Source: cleanupUnhealthyReplicas, whose caller ignores that error.
    """
    plan: list[Resize] = []
    for replica_set in old:
        if at_most <= 0:
            break
        unavailable = replica_set.replicas - replica_set.available_replicas
        if replica_set.replicas == 0 or unavailable == 0:
            continue
        if unavailable < 0:
            return plan, False
        removed = min(at_most, unavailable)
        plan.append(Resize(replica_set.name, replica_set.replicas - removed))
        at_most -= removed
    return plan, True


def spread_plan(sizes: Mapping[str, int], spare: int) -> list[Resize]:
    """Plan the removal of this number of spare pods, scaling each ReplicaSet to 0 before the next one is reduced.

    sizes: current sizes by name of the ReplicaSet. Source: scaleDownOldReplicaSetsForRollingUpdate.
    """
    plan = []
    for name, size in sizes.items():
        removed = min(size, spare)
        if removed > 0:
            plan.append(Resize(name, size - removed))
            spare -= removed
    return plan


# Recreate.


def stop_plan(old: Sequence[ReplicaSet]) -> list[Resize]:
    """Plan to scale all old ReplicaSets to 0. Source: scaleDownOldReplicaSetsForRecreate."""
    return [Resize(replica_set.name, 0) for replica_set in active(old)]


def start_plan(deployment: Deployment, new: ReplicaSet) -> list[Resize]:
    """Plan to scale the new ReplicaSet to spec.replicas. Source: scaleUpNewReplicaSetForRecreate."""
    return [Resize(new.name, deployment.replicas)] if new.replicas != deployment.replicas else []


def old_pods_running(new: ReplicaSet | None, old: Sequence[ReplicaSet], phases: Mapping[str, Iterable[str]]) -> bool:
    """Report whether pods of an old ReplicaSet are running or may still be created. Source: oldPodsRunning.

    phases: status.phase of the pods, by the uid of their ReplicaSet. Every phase except Failed and Succeeded counts as
    running, including Unknown.

    Difference from upstream: an old ReplicaSet counts as running while its controller has not observed its last change,
    because the controller may still be creating pods for the previous spec.
    """
    for replica_set in old:
        if replica_set.status_replicas > 0:
            return True
        if replica_set.generation > replica_set.observed_generation:
            return True
    new_uid = new.uid if new is not None else None
    return any(
        phase not in ("Failed", "Succeeded")
        for uid, phases_of_pods in phases.items()
        if uid != new_uid
        for phase in phases_of_pods
    )
