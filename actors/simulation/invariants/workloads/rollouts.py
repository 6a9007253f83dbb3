"""Limits of a Deployment's spec during a rollout, and a check of new sizes of its ReplicaSets.

The rules are upstream's, written independently of the controller that they check.

Source: kubernetes v1.36 pkg/controller/deployment/util/deployment_util.go, ResolveFenceposts and NewRSNewReplicas;
rolling.go, reconcileOldReplicaSets.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from kcm.protocols.late_methods import dataclass
from kcm.protocols.objects import Object, annotations_of


class Bounds(NamedTuple):
    """Maximum total and minimum available number of pods of a Deployment."""

    most: int
    fewest: int


def bounds_of(deployment: Object) -> Bounds:
    """Return the bounds of a defaulted spec. Recreate requires no available pods."""
    spec = deployment["spec"]
    replicas = int(spec.get("replicas", 1))
    strategy = spec.get("strategy") or {}
    if strategy.get("type") != "RollingUpdate" or replicas == 0:
        return Bounds(replicas, 0)
    rolling = strategy.get("rollingUpdate") or {}
    surge = math.ceil(_pods(rolling.get("maxSurge"), replicas))
    unavailable = math.floor(_pods(rolling.get("maxUnavailable"), replicas))
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return Bounds(replicas + surge, max(0, replicas - unavailable))


def _pods(number: int | str | None, replicas: int) -> float:
    """Resolve a number of pods, or a percentage of the replicas."""
    if isinstance(number, str):
        return int(number.removesuffix("%")) * replicas / 100
    return number or 0


SIZED_FOR = "deployment.kubernetes.io/desired-replicas"  # size of the Deployment when the ReplicaSet was scaled


class Size(NamedTuple):
    """Size of a ReplicaSet.

    wanted: spec.replicas.
    available: number of available pods, at most `wanted`.
    sized_for: annotation with the size of the Deployment.
    """

    wanted: int
    available: int
    sized_for: str = ""


def size_of(replica_set: Object) -> Size:
    wanted = int(replica_set["spec"].get("replicas", 1))
    available = min(wanted, int((replica_set.get("status") or {}).get("availableReplicas", 0)))
    return Size(wanted, available, annotations_of(replica_set).get(SIZED_FOR, ""))


@dataclass(slots=True)
class RolloutView:
    """A process's information about a Deployment and its ReplicaSets. sizes: sizes of the ReplicaSets by uid."""

    bounds: Bounds
    sizes: dict[str, Size]

    def objection(self, uid: str, after: Size) -> str:
        """Return why a ReplicaSet must not have this size; "" if it may.

        A Deployment that is scaled during a rollout keeps its ReplicaSets' proportions, not availability.
        """
        before, wanted = self.sizes.get(uid, Size(0, 0)), after.wanted
        rest = sum(size.wanted for other, size in self.sizes.items() if other != uid)
        if wanted > before.wanted and rest + wanted > self.bounds.most:
            return f"that makes {rest + wanted} pods, {self.bounds.most} are allowed"
        if before.sized_for and after.sized_for != before.sized_for:
            return ""
        available = sum(size.available for size in self.sizes.values())
        left = available - before.available + min(before.available, wanted)
        if left < min(available, self.bounds.fewest):
            return f"that leaves {left} pods available, {self.bounds.fewest} have to be"
        return ""
