"""Reasons of the decisions about a Deployment, in one line each."""

from __future__ import annotations

from collections.abc import Sequence

from kcm.actors.controllers.workloads.deployment.objects import REVISION, Deployment, ReplicaSet, total_replicas
from kcm.actors.controllers.workloads.deployment.plans import Resize, staying
from kcm.actors.controllers.workloads.deployment.status import TIMED_OUT, progress_deadline, progressing_condition
from kcm.protocols.integers import counted
from kcm.protocols.times import describe_time


def growth_reason(deployment: Deployment, new: ReplicaSet, growth: Sequence[Resize]) -> str:
    return (
        f"revision {_revision(new)}: scales the new ReplicaSet from {new.replicas} to {growth[-1].size} "
        f"of {deployment.replicas}, maxSurge {deployment.max_surge}"
    )


def shrink_reason(
    deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet], shrinkage: Sequence[Resize]
) -> str:
    remaining = {replica_set.name: replica_set.replicas for replica_set in old} | dict(shrinkage)
    return (
        f"revision {_revision(new)}: scales the old ReplicaSets from {total_replicas(old)} to "
        f"{sum(remaining.values())}: {_counts(deployment, new, old)}"
    )


def wait_reason(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> str:
    left = counted(total_replicas(old), "old pod")
    return f"revision {_revision(new)} waits to remove {left}: {_counts(deployment, new, old)}"


def _counts(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> str:
    """Return the counts that decide how many old pods may be removed."""
    available = staying(new)
    needed = deployment.replicas - deployment.max_unavailable
    return (
        f"{available} of {new.replicas} new and {sum(map(staying, old))} old pods are available, needs {needed} "
        f"(maxUnavailable {deployment.max_unavailable})"
    )


def recreate_reason(old: Sequence[ReplicaSet], stops: Sequence[Resize]) -> str:
    if stops:
        return f"Recreate: scales {counted(len(stops), 'old ReplicaSet')} to 0"
    left = sum(replica_set.status_replicas for replica_set in old)
    return f"Recreate: waits until the pods of the old ReplicaSets have ended, {left} are counted in their status"


def progress_reason(deployment: Deployment) -> str:
    """Return how far a rollout is that scales nothing, by the status before this sync, and its deadline."""
    status = deployment.status
    text = (
        f"has {status.get('availableReplicas') or 0} available and {status.get('updatedReplicas') or 0} updated pods "
        f"of {deployment.replicas} desired"
    )
    if (progressing_condition(deployment) or {}).get("reason") == TIMED_OUT:
        return f"{text}; progress deadline of {deployment.progress_deadline} s has passed"
    deadline = progress_deadline(deployment)
    return text if deadline is None else f"{text}; progress deadline passes at {describe_time(deadline)}"


def _revision(new: ReplicaSet) -> str:
    return new.annotations.get(REVISION) or "?"
