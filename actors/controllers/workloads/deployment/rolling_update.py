"""RollingUpdate: how far the new ReplicaSet may grow now, and how far the old ones may shrink.

Source: kubernetes v1.36 pkg/controller/deployment/rolling.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kcm.actors.controllers.workloads.deployment.arithmetic import max_unavailable, new_replica_set_size
from kcm.actors.controllers.workloads.deployment.fields import active, available, oldest_first, replicas, total_replicas
from kcm.actors.controllers.workloads.deployment.scaling import Resize
from kcm.protocols.objects import Object, name_of


def growth_plan(deployment: Mapping[str, Any], new: Object, old: Sequence[Object]) -> list[Resize]:
    """The new ReplicaSet's next size; empty if it stays. Source: reconcileNewReplicaSet."""
    size, desired = replicas(new), replicas(deployment)
    wanted = min(size, desired)
    if size < desired:
        wanted = new_replica_set_size(deployment, total=total_replicas(old) + size, size=size)
    return [Resize(name_of(new), wanted)] if wanted != size else []


def shrink_plan(deployment: Mapping[str, Any], new: Object, old: Sequence[Object]) -> list[Resize]:
    """The old ReplicaSets' next sizes, one after the other; the same one may come twice.

    Pods that are not available go first: they delay a rollout and serve nothing. Available ones follow, as many as may
    be missing. Pods of the new ReplicaSet that are not available yet count as missing.

    Differs: a rollback may come while the ReplicaSet that becomes the new one is still being scaled down, and its
    status counts pods that are about to be deleted. Upstream counts these, and too few are left. Source:
    reconcileOldReplicaSets.
    """
    with_pods = oldest_first(active(old))
    least = replicas(deployment) - max_unavailable(deployment)
    to_remove = total_replicas([*old, new]) - least - (replicas(new) - staying(new))
    if not with_pods or to_remove <= 0:
        return []
    plan, complete = unavailable_plan(with_pods, to_remove)
    if not complete:
        return plan
    sizes = {name_of(each): replicas(each) for each in with_pods} | dict(plan)
    spare = sum(map(staying, [*with_pods, new])) - least
    return plan + spread_plan(sizes, spare)


def staying(replica_set: Mapping[str, Any]) -> int:
    """How many available pods a ReplicaSet keeps: those beyond spec.replicas are being deleted."""
    return min(available(replica_set), replicas(replica_set))


def unavailable_plan(old: Sequence[Object], at_most: int) -> tuple[list[Resize], bool]:
    """Resizes that remove unavailable pods from these ReplicaSets, in this order; and whether all could be judged.

    One with more available pods than spec.replicas is being scaled down: its status is out of date, and nothing is
    decided about it, nor about those after it. Source: cleanupUnhealthyReplicas, whose caller swallows that error.
    """
    plan: list[Resize] = []
    for replica_set in old:
        if at_most <= 0:
            break
        unavailable = replicas(replica_set) - available(replica_set)
        if replicas(replica_set) == 0 or unavailable == 0:
            continue
        if unavailable < 0:
            return plan, False
        removed = min(at_most, unavailable)
        plan.append(Resize(name_of(replica_set), replicas(replica_set) - removed))
        at_most -= removed
    return plan, True


def spread_plan(sizes: Mapping[str, int], spare: int) -> list[Resize]:
    """Take so many spare pods from ReplicaSets of these sizes, each emptied before the next. Source:
    scaleDownOldReplicaSetsForRollingUpdate.
    """
    plan = []
    for name, size in sizes.items():
        removed = min(size, spare)
        if removed > 0:
            plan.append(Resize(name, size - removed))
            spare -= removed
    return plan
