"""Which old ReplicaSets are history enough to be deleted.

Source: kubernetes v1.36 pkg/controller/deployment/sync.go, cleanupDeployment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kcm.actors.controllers.workloads.deployment.fields import creation_order, generation, limit, number, replicas
from kcm.actors.controllers.workloads.deployment.revisions import revision_of
from kcm.protocols.objects import Object, is_deleting


def history_to_delete(deployment: Mapping[str, Any], old: Sequence[Object]) -> list[Object]:
    """The oldest revisions beyond spec.revisionHistoryLimit; a ReplicaSet without a readable revision is the oldest.

    One that has pods, or whose last change its controller has not seen, is kept and yet counts as deleted: no younger
    one goes in its place.
    """
    kept = limit(deployment, "revisionHistoryLimit")
    if kept is None or len(old) <= kept:
        return []
    there = [each for each in old if not is_deleting(each)]
    there.sort(key=lambda each: (revision_of(each) or 0, creation_order(each)))
    return [each for each in there[: max(0, len(there) - kept)] if _is_idle(each)]


def _is_idle(replica_set: Object) -> bool:
    return (
        replicas(replica_set) == 0
        and number(replica_set, "status", "replicas") == 0
        and generation(replica_set) <= number(replica_set, "status", "observedGeneration")
    )
