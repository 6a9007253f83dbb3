"""Plans for the sizes of ReplicaSets: after a change of spec.replicas, in a rolling update, and for Recreate.

A plan is a list of resizes; rollout.py carries it out. The annotations of a ReplicaSet keep the size that the
Deployment had when the ReplicaSet was sized. They distinguish a change of spec.replicas from a rollout, so that a
partly applied change is completed, and proportions are computed from the old size.

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
    """A ReplicaSet and its next spec.replicas, which may be its present one: then only annotations are refreshed."""

    name: str
    size: int


def size_annotations(deployment: Deployment) -> dict[str, str]:
    """Return the annotations of a ReplicaSet that is sized for the Deployment's present size."""
    desired = deployment.replicas
    return {DESIRED_REPLICAS: str(desired), MAX_REPLICAS: str(desired + deployment.max_surge)}


def resized(replica_set: ReplicaSet, size: int, deployment: Deployment) -> Object | None:
    """Return the ReplicaSet to write, with this size and its annotations; None if it has them already."""
    annotations = {**replica_set.annotations, **size_annotations(deployment)}
    if size == replica_set.replicas and annotations == replica_set.annotations:
        return None
    obj = replica_set.obj
    return with_annotations({**obj, "spec": {**(obj.get("spec") or {}), "replicas": size}}, annotations)


# A change of spec.replicas.


def is_scaling_event(deployment: Deployment, replica_sets: Iterable[ReplicaSet]) -> bool:
    """Report whether some ReplicaSet with pods was sized for another spec.replicas.

    A ReplicaSet whose annotation is missing or invalid is ignored. Source: isScalingEvent.
    """
    return any(
        replica_set.desired_replicas is not None and replica_set.desired_replicas != deployment.replicas
        for replica_set in active(replica_sets)
    )


def scale_plan(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> list[Resize]:
    """Adapt the ReplicaSets to the Deployment's size without continuing its rollout.

    Differs from upstream: a plan names the only ReplicaSet with pods even if it happens to have the right size, so that
    its annotations are refreshed. The old annotation would count as a change of size forever, and the rollout would
    never continue (kubernetes/kubernetes#138036). The same applies to several ReplicaSets with pods under Recreate,
    which are left from a rolling update: they keep their sizes until the rollout ends them. Source: scale.
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
    """Return the only ReplicaSet with pods; if none has pods, the new one or else the newest old one.

    Returns None if several have pods. Source: FindActiveOrLatest.
    """
    replica_sets = [*old, new] if new is not None else list(old)
    with_pods = active(replica_sets)
    if len(with_pods) > 1 or not replica_sets:
        return None
    if with_pods:
        return with_pods[0]
    return new if new is not None else oldest_first(old)[-1]


def is_saturated(deployment: Deployment, new: ReplicaSet | None) -> bool:
    """Report whether the new ReplicaSet has the Deployment's size, was sized for it, and all its pods are available.

    Source: IsSaturated.
    """
    if new is None:
        return False
    sized_for = parse_int(new.annotations.get(DESIRED_REPLICAS))
    return {new.replicas, sized_for, new.available_replicas} == {deployment.replicas}


def proportional_plan(deployment: Deployment, replica_sets: Iterable[ReplicaSet]) -> list[Resize]:
    """Distribute the pods to add or remove over these ReplicaSets, which all have pods, in proportion to their sizes.

    The largest ReplicaSet comes first; among equals the newer one grows first and the older one shrinks first. The
    first one takes what rounding leaves over. The plan names every ReplicaSet, so that all annotations are refreshed.
    Source: the second half of scale.
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
    """Return the share of a ReplicaSet in a change of size. Source: GetReplicaSetProportion."""
    left = to_add - added
    if left == 0 or to_add == 0:
        return 0
    share = fraction(replica_set, deployment)
    return min(share, left) if to_add > 0 else max(share, left)


def fraction(replica_set: ReplicaSet, deployment: Deployment) -> int:
    """Return by how many pods this ReplicaSet must change to keep its proportion; negative to shrink.

    The ReplicaSet has pods. Its proportion is of the maximum in its annotation. If that is missing or 0, it is of
    status.replicas, which is not exact but stays within the limits; if that is 0 too, the ReplicaSet keeps its size.
    Source: getReplicaSetFraction.
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
    """Return the size that the new ReplicaSet may have now.

    total: sum of spec.replicas of all ReplicaSets, including `size`, that of the new one. A rolling update fills up to
    spec.replicas + surge, and never shrinks the new ReplicaSet here. Raises ValueError for an unknown strategy.

    Source: NewRSNewReplicas.
    """
    if deployment.strategy == RECREATE:
        return deployment.replicas
    if deployment.strategy != ROLLING_UPDATE:
        raise unexpected_strategy(deployment)
    room = deployment.replicas + deployment.max_surge - total
    return size if room <= 0 else size + min(room, deployment.replicas - size)


def growth_plan(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> list[Resize]:
    """Return the new ReplicaSet's next size; an empty plan if it keeps its size. Source: reconcileNewReplicaSet."""
    size, desired = new.replicas, deployment.replicas
    next_size = min(size, desired)
    if size < desired:
        next_size = new_replica_set_size(deployment, total=total_replicas(old) + size, size=size)
    return [Resize(new.name, next_size)] if next_size != size else []


def shrink_plan(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> list[Resize]:
    """Return the old ReplicaSets' next sizes, in order; a ReplicaSet may be named twice.

    Unavailable pods are removed first: they delay a rollout and serve nothing. Available pods follow, as many as may be
    missing. Unavailable pods of the new ReplicaSet count as missing.

    Differs from upstream: after a rollback, the ReplicaSet that becomes the new one may still be scaled down, and its
    status counts pods that are about to be deleted. Upstream relies on these, and too few pods remain.
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
    """Return the number of available pods that the ReplicaSet keeps; those beyond spec.replicas are being deleted."""
    return min(replica_set.available_replicas, replica_set.replicas)


def unavailable_plan(old: Sequence[ReplicaSet], at_most: int) -> tuple[list[Resize], bool]:
    """Return resizes that remove unavailable pods from these ReplicaSets, in order, and whether the plan is complete.

    A ReplicaSet with more available pods than spec.replicas is being scaled down: its status is out of date, so the
    plan ends before it. Source: cleanupUnhealthyReplicas, whose caller ignores that error.
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
    """Remove this number of spare pods from ReplicaSets of these sizes, emptying each before the next.

    Source: scaleDownOldReplicaSetsForRollingUpdate.
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
    """Scale all old ReplicaSets to 0. Source: scaleDownOldReplicaSetsForRecreate."""
    return [Resize(replica_set.name, 0) for replica_set in active(old)]


def start_plan(deployment: Deployment, new: ReplicaSet) -> list[Resize]:
    """Scale the new ReplicaSet to its full size. Source: scaleUpNewReplicaSetForRecreate."""
    return [Resize(new.name, deployment.replicas)] if new.replicas != deployment.replicas else []


def old_pods_running(new: ReplicaSet | None, old: Sequence[ReplicaSet], phases: Mapping[str, Iterable[str]]) -> bool:
    """Report whether pods of an old ReplicaSet are running, or may be about to run.

    phases: status.phase of the pods, by the uid of their ReplicaSet. Any phase but Failed and Succeeded counts as
    running, also Unknown.

    Differs from upstream in one case: an old ReplicaSet whose last change was not observed by its controller counts as
    running, because the controller may be creating the pods of the version before. Source: oldPodsRunning.
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
