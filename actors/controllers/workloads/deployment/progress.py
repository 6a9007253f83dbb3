"""Whether a rollout progresses: the Progressing condition, and spec.progressDeadlineSeconds.

Source: kubernetes v1.36 pkg/controller/deployment/progress.go, sync.go (checkPausedConditions) and
util/deployment_util.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kcm.actors.controllers.workloads.deployment.fields import generation, limit, replicas, section
from kcm.actors.controllers.workloads.deployment.status import (
    PROGRESSING,
    REPLICA_FAILURE,
    calculated_status,
    condition,
    replica_failure,
)
from kcm.protocols.conditions import find_condition, with_condition, without_condition
from kcm.protocols.objects import Object, name_of
from kcm.protocols.times import parse_time

NEW_REPLICA_SET_AVAILABLE = "NewReplicaSetAvailable"
TIMED_OUT = "ProgressDeadlineExceeded"
PAUSED = "DeploymentPaused"


def progress_deadline(deployment: Mapping[str, Any]) -> int | None:
    """Seconds without progress after which a rollout has failed; None if there is no deadline."""
    return limit(deployment, "progressDeadlineSeconds")


def progressing_condition(deployment: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The Progressing condition that it has."""
    return find_condition(section(deployment, "status").get("conditions"), PROGRESSING)


def is_complete(deployment: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """True if all desired pods are updated and available, no old pod is left, and the status is of this generation.

    Source: DeploymentComplete.
    """
    wanted = replicas(deployment)
    return (
        _count(status, "updatedReplicas") == wanted
        and _count(status, "replicas") == wanted
        and _count(status, "availableReplicas") == wanted
        and _count(status, "observedGeneration") >= generation(deployment)
    )


def has_progressed(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """True if from one status to the next there are more updated, ready or available pods, or fewer old ones.

    Source: DeploymentProgressing.
    """
    old_before = _count(before, "replicas") - _count(before, "updatedReplicas")
    old_after = _count(after, "replicas") - _count(after, "updatedReplicas")
    return old_after < old_before or any(
        _count(after, field) > _count(before, field)
        for field in ("updatedReplicas", "readyReplicas", "availableReplicas")
    )


def has_timed_out(deployment: Mapping[str, Any], status: Mapping[str, Any], *, now: float) -> bool:
    """True if the last sign of progress is longer ago than the deadline, or was too late once before.

    A rollout that has succeeded never times out. Source: DeploymentTimedOut.
    """
    deadline = progress_deadline(deployment)
    current = find_condition(status.get("conditions"), PROGRESSING)
    if deadline is None or current is None or current.get("reason") == NEW_REPLICA_SET_AVAILABLE:
        return False
    return current.get("reason") == TIMED_OUT or _updated_at(current) + deadline < now


def rollout_status(deployment: Mapping[str, Any], new: Object | None, old: Sequence[Object], *, now: float) -> Object:
    """The status while a rollout may be under way: calculated_status with Progressing and ReplicaFailure.

    Source: syncRolloutStatus.
    """
    status = calculated_status(deployment, new, old, now=now)
    status["conditions"] = _progress(deployment, new, status, now=now)
    failure = replica_failure(new, old)
    if failure is not None:
        status["conditions"] = with_condition(status["conditions"], failure)
    else:
        status["conditions"] = without_condition(status["conditions"], REPLICA_FAILURE)
    return status


def _progress(
    deployment: Mapping[str, Any], new: Object | None, status: Mapping[str, Any], *, now: float
) -> list[Object]:
    """status.conditions with Progressing as it is now."""
    conditions: list[Object] = status["conditions"]
    if progress_deadline(deployment) is None:
        return without_condition(conditions, PROGRESSING)
    current = progressing_condition(deployment)
    ended = current is not None and current.get("reason") == NEW_REPLICA_SET_AVAILABLE
    if ended and _count(status, "replicas") == _count(status, "updatedReplicas"):
        return conditions  # no rollout: pods that come and go later are no progress, and no lack of it

    subject = f'ReplicaSet "{name_of(new)}"' if new is not None else f'Deployment "{name_of(deployment)}"'
    if is_complete(deployment, status):
        message = f"{subject} has successfully progressed."
        return with_condition(conditions, condition(PROGRESSING, "True", NEW_REPLICA_SET_AVAILABLE, message, now=now))
    if has_progressed(section(deployment, "status"), status):
        # Not with_condition: lastUpdateTime moves with each progress, though status and reason stay.
        moved = condition(PROGRESSING, "True", "ReplicaSetUpdated", f"{subject} is progressing.", now=now)
        if current is not None and current.get("status") == "True":
            moved["lastTransitionTime"] = current.get("lastTransitionTime")
        return [*without_condition(conditions, PROGRESSING), moved]
    if has_timed_out(deployment, status, now=now):
        message = f"{subject} has timed out progressing."
        return with_condition(conditions, condition(PROGRESSING, "False", TIMED_OUT, message, now=now))
    return conditions


def pause_condition(deployment: Mapping[str, Any], *, now: float) -> Object | None:
    """The Progressing condition that says that it was paused or resumed; None if that is known, or of no interest.

    It restarts the deadline, so that the time in which it was paused does not count. What has timed out stays so.
    """
    if progress_deadline(deployment) is None:
        return None
    reason = (progressing_condition(deployment) or {}).get("reason")
    paused = bool(section(deployment, "spec").get("paused"))
    if reason == TIMED_OUT or paused == (reason == PAUSED):
        return None
    if paused:
        return condition(PROGRESSING, "Unknown", PAUSED, "Deployment is paused", now=now)
    return condition(PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed", now=now)


def next_check(deployment: Mapping[str, Any], *, now: float) -> float | None:
    """In how many seconds to look whether it has timed out; None if it cannot.

    A second is added, so that the deadline has surely passed. Differs from upstream, which with less than a second left
    looks again at once, over and over; and does so for ever when pods become unavailable long after a rollout that has
    succeeded, though that one never times out. At most the deadline, whatever our clock said when the condition was
    written. Source: requeueStuckDeployment.
    """
    deadline = progress_deadline(deployment)
    current = progressing_condition(deployment)
    if deadline is None or current is None or current.get("reason") in (TIMED_OUT, NEW_REPLICA_SET_AVAILABLE):
        return None
    if is_complete(deployment, section(deployment, "status")):
        return None
    left = min(_updated_at(current) + deadline - now, deadline)
    return left + 1.0 if left >= 1.0 else 1.0


def _updated_at(condition: Mapping[str, Any]) -> float:
    text = condition.get("lastUpdateTime")
    return parse_time(text) if text else 0.0


def _count(status: Mapping[str, Any], field: str) -> int:
    return status.get(field) or 0
