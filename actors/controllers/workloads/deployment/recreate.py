"""Recreate: all old pods are gone before the first new one is made.

Source: kubernetes v1.36 pkg/controller/deployment/recreate.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kcm.actors.controllers.workloads.deployment.fields import active, generation, number, replicas
from kcm.actors.controllers.workloads.deployment.scaling import Resize
from kcm.protocols.objects import Object, name_of, uid_of


def stop_plan(old: Sequence[Object]) -> list[Resize]:
    """All old ReplicaSets to 0. Source: scaleDownOldReplicaSetsForRecreate."""
    return [Resize(name_of(each), 0) for each in active(old)]


def start_plan(deployment: Mapping[str, Any], new: Object) -> list[Resize]:
    """The new ReplicaSet to its full size. Source: scaleUpNewReplicaSetForRecreate."""
    wanted = replicas(deployment)
    return [Resize(name_of(new), wanted)] if replicas(new) != wanted else []


def old_pods_running(new: Object | None, old: Sequence[Object], phases: Mapping[str, Iterable[str]]) -> bool:
    """True while pods of an old ReplicaSet run, or may be about to.

    phases: the pods' status.phase, by their ReplicaSet's uid; any but Failed and Succeeded counts as running, Unknown
    too. Differs from upstream in one case: an old ReplicaSet whose controller has not seen its last change yet counts
    as running, as it may just be making the pods that it was asked for before. Source: oldPodsRunning.
    """
    for replica_set in old:
        if number(replica_set, "status", "replicas") > 0:
            return True
        if generation(replica_set) > number(replica_set, "status", "observedGeneration"):
            return True
    ours = uid_of(new) if new is not None else None
    return any(
        phase not in ("Failed", "Succeeded")
        for owner, phases_of_pods in phases.items()
        if owner != ours
        for phase in phases_of_pods
    )
