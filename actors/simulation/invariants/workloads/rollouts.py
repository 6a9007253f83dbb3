"""Limits of a Deployment during a rollout, and a check of new sizes of its ReplicaSets against these limits.

The rules are upstream's, written independently of the controller that they check.

Source: kubernetes v1.36 pkg/controller/deployment/util/deployment_util.go, ResolveFenceposts and NewRSNewReplicas;
rolling.go, reconcileOldReplicaSets.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from msgspec import Struct

from kcm.protocols.objects import Object, annotations_of


class Bounds(NamedTuple):
    """Limits of a Deployment during a rollout.

    most: maximum total size of its ReplicaSets.
    fewest: minimum number of available pods.
    """

    most: int
    fewest: int


def bounds_of(deployment: Object) -> Bounds:
    """Return the limits of a Deployment whose spec has its defaults. With the strategy Recreate the minimum is 0."""
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
    """Return a number of pods. number: the number itself, or a percentage of the replicas such as "25%"."""
    if isinstance(number, str):
        return int(number.removesuffix("%")) * replicas / 100
    return number or 0


# Annotation of a ReplicaSet: size of the Deployment when the ReplicaSet was scaled.
SIZED_FOR = "deployment.kubernetes.io/desired-replicas"


class Size(NamedTuple):
    """Size of a ReplicaSet.

    wanted: spec.replicas.
    available: status.availableReplicas, but at most `wanted`.
    sized_for: value of the annotation SIZED_FOR; "" if it is missing.
    """

    wanted: int
    available: int
    sized_for: str = ""


def size_of(replica_set: Object) -> Size:
    wanted = int(replica_set["spec"].get("replicas", 1))
    available = min(wanted, int((replica_set.get("status") or {}).get("availableReplicas", 0)))
    return Size(wanted, available, annotations_of(replica_set).get(SIZED_FOR, ""))


class RolloutView(Struct):
    """Limits of a Deployment and sizes of its ReplicaSets by uid, as one process has observed them."""

    bounds: Bounds
    sizes: dict[str, Size]

    def objection(self, uid: str, after: Size) -> str:
        """Return the reason why a ReplicaSet must not get a new size; "" if it may.

        If the size of the Deployment has changed, only the maximum is checked: the controller then keeps the
        proportions of the ReplicaSets, not the number of available pods.
        """
        before, wanted = self.sizes.get(uid, Size(0, 0)), after.wanted
        rest = sum(size.wanted for other, size in self.sizes.items() if other != uid)
        if wanted > before.wanted and rest + wanted > self.bounds.most:
            return f"total size {rest + wanted} exceeds {self.bounds.most}"
        if before.sized_for and after.sized_for != before.sized_for:
            return ""
        available = sum(size.available for size in self.sizes.values())
        left = available - before.available + min(before.available, wanted)
        if left < min(available, self.bounds.fewest):
            return f"{left} available pods remain instead of {self.bounds.fewest}"
        return ""
