"""A Deployment's status, from its ReplicaSets'.

Source: kubernetes v1.36 pkg/controller/deployment/sync.go, calculateStatus, and progress.go, getReplicaFailures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kcm.actors.controllers.workloads.deployment.arithmetic import max_unavailable
from kcm.actors.controllers.workloads.deployment.fields import (
    generation,
    number,
    replicas,
    section,
    total_replicas,
    total_statuses,
)
from kcm.protocols.conditions import find_condition, with_condition
from kcm.protocols.objects import Object
from kcm.protocols.times import format_time

AVAILABLE, PROGRESSING, REPLICA_FAILURE = "Available", "Progressing", "ReplicaFailure"

# Written only where they are not 0, as the API server stores them.
_COUNTS = frozenset(
    {
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
    }
)


def condition(type: str, status: str, reason: str, message: str, *, now: float) -> Object:
    """A DeploymentCondition that begins now (Unix seconds)."""
    time = format_time(now)
    return {
        "type": type,
        "status": status,
        "lastUpdateTime": time,
        "lastTransitionTime": time,
        "reason": reason,
        "message": message,
    }


def with_status(deployment: Mapping[str, Any], **changes: Any) -> Object:
    """The Deployment with these fields of its status changed."""
    return {**deployment, "status": {**section(deployment, "status"), **changes}}


def calculated_status(
    deployment: Mapping[str, Any], new: Object | None, old: Sequence[Object], *, now: float
) -> Object:
    """Counts and the Available condition. What we do not compute (collisionCount, other conditions) stays."""
    everyone = [*old, new] if new is not None else list(old)
    total, ready, available = total_statuses(everyone, "replicas", "readyReplicas", "availableReplicas")
    counts = {
        "observedGeneration": generation(deployment),
        "replicas": total,
        "updatedReplicas": number(new, "status", "replicas") if new is not None else 0,
        "readyReplicas": ready,
        "availableReplicas": available,
        # More than spec.replicas can be available while it is scaled down.
        "unavailableReplicas": max(0, total_replicas(everyone) - available),
    }
    status = {name: value for name, value in section(deployment, "status").items() if name not in _COUNTS}
    status |= {name: value for name, value in counts.items() if value}
    terminating = _terminating(everyone)
    status.pop("terminatingReplicas", None)
    if terminating is not None:
        status["terminatingReplicas"] = terminating
    if available >= replicas(deployment) - max_unavailable(deployment):
        state = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        state = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    status["conditions"] = with_condition(status.get("conditions"), condition(AVAILABLE, *state, now=now))
    return status


def _terminating(replica_sets: Iterable[Object]) -> int | None:
    """The pods that are being deleted; None if a ReplicaSet's controller does not say.

    Source: GetTerminatingReplicaCountForReplicaSets.
    """
    total = 0
    for replica_set in replica_sets:
        if section(replica_set, "status").get("terminatingReplicas") is not None:
            total += number(replica_set, "status", "terminatingReplicas")
        elif number(replica_set, "status", "observedGeneration") != 0:
            return None
    return total


def replica_failure(new: Object | None, old: Sequence[Object]) -> Object | None:
    """The first ReplicaFailure condition of a ReplicaSet, the new one asked first, as the Deployment's."""
    for replica_set in [new, *old] if new is not None else old:
        found = find_condition(section(replica_set, "status").get("conditions"), REPLICA_FAILURE)
        if found is not None:
            taken = {name: found[name] for name in ("type", "status", "reason", "message") if name in found}
            time = found.get("lastTransitionTime")
            return {**taken, "lastUpdateTime": time, "lastTransitionTime": time}
    return None


def same_status(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """True if the API server would store them alike: a count of 0 is the same as none."""
    return _stored(one) == _stored(other)


def _stored(status: Mapping[str, Any]) -> Object:
    return {
        name: value
        for name, value in status.items()
        if value is not None and value != [] and not (name in _COUNTS and value == 0)
    }
