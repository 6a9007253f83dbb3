"""How many pods too many or too few a rolling Deployment may have, and how large that lets the new ReplicaSet be.

Source: kubernetes v1.36 pkg/controller/deployment/util/deployment_util.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.actors.controllers.workloads.deployment.fields import replicas, section
from kcm.protocols.objects import key_of
from kcm.protocols.percentages import IntOrString, scaled_value

ROLLING_UPDATE, RECREATE = "RollingUpdate", "Recreate"


def strategy_type(deployment: Mapping[str, Any]) -> str:
    """spec.strategy.type; "" where there is none."""
    return str(_strategy(deployment).get("type") or "")


def resolve_fenceposts(
    max_surge: IntOrString | None, max_unavailable: IntOrString | None, desired: int
) -> tuple[int, int]:
    """(surge, unavailable) in pods, of so many desired; None is 0. Surge is rounded up, unavailable down.

    Where both come to 0 a rollout could not move: then one pod may be unavailable. Raises ValueError on what is
    neither a number nor a percentage.

    Source: ResolveFenceposts.
    """
    surge = scaled_value(0 if max_surge is None else max_surge, desired, round_up=True)
    unavailable = scaled_value(0 if max_unavailable is None else max_unavailable, desired, round_up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return surge, unavailable


def max_surge(deployment: Mapping[str, Any]) -> int:
    """How many pods above spec.replicas there may be; 0 unless it is a rolling update. Raises ValueError."""
    return _fenceposts(deployment)[0]


def max_unavailable(deployment: Mapping[str, Any]) -> int:
    """How many of spec.replicas may be missing, at most all; 0 unless it is a rolling update. Raises ValueError."""
    desired = replicas(deployment)
    return min(_fenceposts(deployment)[1], desired) if desired else 0


def new_replica_set_size(deployment: Mapping[str, Any], *, total: int, size: int) -> int:
    """How large the new ReplicaSet may be now.

    total: spec.replicas of all ReplicaSets together, the new one's (size) included. A rolling update fills up to
    spec.replicas + surge and never shrinks it here. Raises ValueError on another strategy.

    Source: NewRSNewReplicas.
    """
    desired, strategy = replicas(deployment), strategy_type(deployment)
    if strategy == RECREATE:
        return desired
    if strategy != ROLLING_UPDATE:
        raise unexpected_strategy(deployment)
    room = desired + max_surge(deployment) - total
    return size if room <= 0 else size + min(room, desired - size)


def unexpected_strategy(deployment: Mapping[str, Any]) -> ValueError:
    """The error to raise on a strategy that is neither of the two."""
    return ValueError(f"{key_of(deployment)}: unexpected deployment strategy type: {strategy_type(deployment)}")


def _strategy(deployment: Mapping[str, Any]) -> Mapping[str, Any]:
    strategy = section(deployment, "spec").get("strategy") or {}
    if not isinstance(strategy, dict) or not isinstance(strategy.get("rollingUpdate") or {}, dict):
        raise ValueError(f"{key_of(deployment)}: spec.strategy is not a deployment strategy: {strategy!r}")
    return strategy


def _fenceposts(deployment: Mapping[str, Any]) -> tuple[int, int]:
    strategy = _strategy(deployment)
    if strategy.get("type") != ROLLING_UPDATE:
        return 0, 0
    rolling = strategy.get("rollingUpdate") or {}
    try:
        return resolve_fenceposts(rolling.get("maxSurge"), rolling.get("maxUnavailable"), replicas(deployment))
    except ValueError as err:
        raise ValueError(f"{key_of(deployment)}: spec.strategy.rollingUpdate: {err}") from err
