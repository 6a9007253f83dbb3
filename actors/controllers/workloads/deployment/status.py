"""The status of a Deployment: counts, conditions, and the progress of a rollout.

Source: kubernetes v1.36 pkg/controller/deployment/sync.go (calculateStatus, checkPausedConditions), progress.go and
util/deployment_util.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kcm.actors.controllers.workloads.deployment.objects import Deployment, ReplicaSet, total_replicas
from kcm.protocols.conditions import find_condition, with_condition, without_condition
from kcm.protocols.objects import Object
from kcm.protocols.times import format_time, parse_time

AVAILABLE, PROGRESSING, REPLICA_FAILURE = "Available", "Progressing", "ReplicaFailure"

# Reasons of the condition Progressing.
NEW_REPLICA_SET_AVAILABLE = "NewReplicaSetAvailable"
TIMED_OUT = "ProgressDeadlineExceeded"
PAUSED = "DeploymentPaused"

# Counts that the API server omits from the stored status if they are 0.
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
    """Return a DeploymentCondition with both timestamps set to `now` (Unix seconds)."""
    time = format_time(now)
    return {
        "type": type,
        "status": status,
        "lastUpdateTime": time,
        "lastTransitionTime": time,
        "reason": reason,
        "message": message,
    }


def with_status(deployment: Deployment, **changes: Any) -> Object:
    """Return the Deployment with these status fields replaced."""
    return {**deployment.obj, "status": {**deployment.status, **changes}}


# Counts and the condition Available.


def calculated_status(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], *, now: float
) -> Object:
    """Return the status with recomputed counts and condition Available. Source: calculateStatus.

    All other fields, such as collisionCount and other conditions, are kept.
    """
    replica_sets = [*old, new] if new is not None else list(old)
    available = sum(replica_set.available_replicas for replica_set in replica_sets)
    counts = {
        "observedGeneration": deployment.generation,
        "replicas": sum(replica_set.status_replicas for replica_set in replica_sets),
        "updatedReplicas": new.status_replicas if new is not None else 0,
        "readyReplicas": sum(replica_set.ready_replicas for replica_set in replica_sets),
        "availableReplicas": available,
        # While a Deployment is scaled down, more than spec.replicas can be available.
        "unavailableReplicas": max(0, total_replicas(replica_sets) - available),
    }
    status = {name: value for name, value in deployment.status.items() if name not in _COUNTS}
    status |= {name: value for name, value in counts.items() if value}
    terminating = _terminating(replica_sets)
    status.pop("terminatingReplicas", None)
    if terminating is not None:
        status["terminatingReplicas"] = terminating
    if available >= deployment.replicas - deployment.max_unavailable:
        state = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        state = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    status["conditions"] = with_condition(status.get("conditions"), condition(AVAILABLE, *state, now=now))
    return status


def _terminating(replica_sets: Iterable[ReplicaSet]) -> int | None:
    """Return the total number of terminating pods; None if any ReplicaSet does not report it.

    Source: GetTerminatingReplicaCountForReplicaSets.
    """
    total = 0
    for replica_set in replica_sets:
        if replica_set.terminating_replicas is not None:
            total += replica_set.terminating_replicas
        elif replica_set.observed_generation != 0:
            return None
    return total


def replica_failure(new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> Object | None:
    """Return the condition ReplicaFailure for the Deployment, copied from the first ReplicaSet that has it.

    The new ReplicaSet is checked first. Source: getReplicaFailures.
    """
    for replica_set in [new, *old] if new is not None else old:
        found = find_condition(replica_set.conditions, REPLICA_FAILURE)
        if found is not None:
            copied = {name: found[name] for name in ("type", "status", "reason", "message") if name in found}
            time = found.get("lastTransitionTime")
            return {**copied, "lastUpdateTime": time, "lastTransitionTime": time}
    return None


def same_status(status: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Report whether the API server would store both as the same status: it omits counts of 0."""
    return _stored(status) == _stored(other)


def _stored(status: Mapping[str, Any]) -> Object:
    return {
        name: value
        for name, value in status.items()
        if value is not None and value != [] and not (name in _COUNTS and value == 0)
    }


# Progress: the condition Progressing, and spec.progressDeadlineSeconds.


def progressing_condition(deployment: Deployment) -> Mapping[str, Any] | None:
    return find_condition(deployment.conditions, PROGRESSING)


def is_complete(deployment: Deployment, status: Mapping[str, Any]) -> bool:
    """Report whether all desired pods are updated and available, no old pods remain, and the status is up to date.

    Source: DeploymentComplete.
    """
    return (
        _count(status, "updatedReplicas") == deployment.replicas
        and _count(status, "replicas") == deployment.replicas
        and _count(status, "availableReplicas") == deployment.replicas
        and _count(status, "observedGeneration") >= deployment.generation
    )


def has_progressed(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Report whether the status `after` has more updated, ready or available pods than `before`, or fewer old pods.

    Source: DeploymentProgressing.
    """
    old_before = _count(before, "replicas") - _count(before, "updatedReplicas")
    old_after = _count(after, "replicas") - _count(after, "updatedReplicas")
    return old_after < old_before or any(
        _count(after, field) > _count(before, field)
        for field in ("updatedReplicas", "readyReplicas", "availableReplicas")
    )


def has_timed_out(deployment: Deployment, status: Mapping[str, Any], *, now: float) -> bool:
    """Report whether the rollout has exceeded its progress deadline, now or in an earlier sync.

    Source: DeploymentTimedOut.

    A rollout that has succeeded never times out.
    """
    current = find_condition(status.get("conditions"), PROGRESSING)
    if deployment.progress_deadline is None or current is None or current.get("reason") == NEW_REPLICA_SET_AVAILABLE:
        return False
    return current.get("reason") == TIMED_OUT or _updated_at(current) + deployment.progress_deadline < now


def rollout_status(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], *, now: float) -> Object:
    """Return the recomputed status, including the conditions Progressing and ReplicaFailure.

    Source: syncRolloutStatus.
    """
    status = calculated_status(deployment, new, old, now=now)
    status["conditions"] = _with_progress(deployment, new, status, now=now)
    failure = replica_failure(new, old)
    if failure is not None:
        status["conditions"] = with_condition(status["conditions"], failure)
    else:
        status["conditions"] = without_condition(status["conditions"], REPLICA_FAILURE)
    return status


def _with_progress(
    deployment: Deployment, new: ReplicaSet | None, status: Mapping[str, Any], *, now: float
) -> list[Object]:
    """Return the conditions of `status` with the condition Progressing recomputed."""
    conditions: list[Object] = status["conditions"]
    if deployment.progress_deadline is None:
        return without_condition(conditions, PROGRESSING)
    current = progressing_condition(deployment)
    has_ended = current is not None and current.get("reason") == NEW_REPLICA_SET_AVAILABLE
    if has_ended and _count(status, "replicas") == _count(status, "updatedReplicas"):
        # No rollout: if pods become available or unavailable later, that is neither progress nor a lack of it.
        return conditions

    subject = f'ReplicaSet "{new.name}"' if new is not None else f'Deployment "{deployment.name}"'
    if is_complete(deployment, status):
        message = f"{subject} has successfully progressed."
        return with_condition(conditions, condition(PROGRESSING, "True", NEW_REPLICA_SET_AVAILABLE, message, now=now))
    if has_progressed(deployment.status, status):
        # Not with_condition: each progress updates lastUpdateTime, even if status and reason stay the same.
        progress = condition(PROGRESSING, "True", "ReplicaSetUpdated", f"{subject} is progressing.", now=now)
        if current is not None and current.get("status") == "True":
            progress["lastTransitionTime"] = current.get("lastTransitionTime")
        return [*without_condition(conditions, PROGRESSING), progress]
    if has_timed_out(deployment, status, now=now):
        message = f"{subject} has timed out progressing."
        return with_condition(conditions, condition(PROGRESSING, "False", TIMED_OUT, message, now=now))
    return conditions


def pause_condition(deployment: Deployment, *, now: float) -> Object | None:
    """Return the condition Progressing to write if the Deployment was paused or resumed; None if it was not.

    The new condition restarts the progress deadline, so that paused time does not count. A rollout that has timed out
    keeps its condition. Source: checkPausedConditions.
    """
    if deployment.progress_deadline is None:
        return None
    reason = (progressing_condition(deployment) or {}).get("reason")
    if reason == TIMED_OUT or deployment.paused == (reason == PAUSED):
        return None
    if deployment.paused:
        return condition(PROGRESSING, "Unknown", PAUSED, "Deployment is paused", now=now)
    return condition(PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed", now=now)


def next_check(deployment: Deployment, *, now: float) -> float | None:
    """Return the seconds after which to check for a timeout of the rollout; None if it cannot time out.

    A second is added to ensure that the deadline has passed. The result is limited to the deadline, because the local
    clock may have been set back since the condition was written.

    Differences from upstream, which checks again immediately and repeatedly if less than a second is left. It even does
    so forever if pods become unavailable long after a rollout has succeeded, although that rollout cannot time out.

    Source: requeueStuckDeployment.
    """
    passes, deadline = progress_deadline(deployment), deployment.progress_deadline
    if passes is None or deadline is None or is_complete(deployment, deployment.status):
        return None
    left = min(passes - now, deadline)
    return left + 1.0 if left >= 1.0 else 1.0


def progress_deadline(deployment: Deployment) -> float | None:
    """Return the time at which the rollout times out, in Unix seconds; None if it has ended or cannot time out."""
    current = progressing_condition(deployment)
    if deployment.progress_deadline is None or current is None:
        return None
    if current.get("reason") in (TIMED_OUT, NEW_REPLICA_SET_AVAILABLE):
        return None
    return _updated_at(current) + deployment.progress_deadline


def _updated_at(condition: Mapping[str, Any]) -> float:
    text = condition.get("lastUpdateTime")
    return parse_time(text) if text else 0.0


def _count(status: Mapping[str, Any], field: str) -> int:
    return status.get(field) or 0
