"""The status of a StatefulSet.

Source: kubernetes v1.36 pkg/controller/statefulset/stateful_set_control.go (computeReplicaStatus),
stateful_set_utils.go (inconsistentStatus, completeRollingUpdate). Difference: the pods are counted after the sync has
created and deleted pods; upstream counts them before and adjusts the counts for each write.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.controllers.shared.status import without_zeros
from kcm.actors.controllers.workloads.statefulset.objects import StatefulSet
from kcm.actors.controllers.workloads.statefulset.pod_steps import is_running_and_ready, revision_of
from kcm.protocols.objects import Object
from kcm.protocols.pods import is_available
from kcm.runtime.tables.table import Entry

_LEFT_OUT_AS_ZERO = ("observedGeneration", "readyReplicas", "currentReplicas", "updatedReplicas")


def status_of(
    stateful_set: StatefulSet,
    pods: Iterable[Entry],
    *,
    current: str,
    update: str,
    collision_count: int,
    now: float,
    on_delete_completes: bool = False,
) -> Object:
    """Compute the whole status from the pods. Source: computeReplicaStatus.

    current, update: names of the current and the update revision.
    now: Unix seconds.
    on_delete_completes: whether the update of a set with the strategy OnDelete is complete too, once all of its pods
        have the update revision. Upstream fixed this in 1.37; before, the current revision never changes.
    """
    replicas = ready = available = of_current = of_update = 0
    for pod in pods:
        replicas += 1
        if is_running_and_ready(pod.facts):
            ready += 1
            available += is_available(pod.facts, min_ready_seconds=stateful_set.min_ready_seconds, now=now)
        if not pod.facts.deleting:
            revision = revision_of(pod)
            of_current += revision == current
            of_update += revision == update
    if (stateful_set.rolling or on_delete_completes) and replicas == ready == of_update == stateful_set.replicas:
        current, of_current = update, of_update  # the update is complete
    status = {
        "observedGeneration": stateful_set.generation,
        "replicas": replicas,
        "readyReplicas": ready,
        "currentReplicas": of_current,
        "updatedReplicas": of_update,
        "currentRevision": current,
        "updateRevision": update,
        "collisionCount": collision_count,
        "availableReplicas": available,
    }
    return without_zeros(status, *_LEFT_OUT_AS_ZERO)


def differs(stateful_set: StatefulSet, status: Object) -> bool:
    """Report whether the status differs from the stored one. A difference only in collisionCount is ignored.

    Source: inconsistentStatus.
    """
    before = {name: value for name, value in stateful_set.status.items() if name in status or value}
    before.pop("conditions", None)
    return {**before, "collisionCount": 0} != {**status, "collisionCount": 0}
