"""The annotations in which a Deployment's history and sizes are written down, on it and on its ReplicaSets.

Source: kubernetes v1.36 pkg/controller/deployment/util/deployment_util.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.actors.controllers.workloads.deployment.fields import INT32_MAX
from kcm.protocols.integers import parse_uint
from kcm.protocols.objects import Object, annotations_of

REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
ROLLBACK_TO = "deprecated.deployment.rollback.to"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

# Belong to one object each, and are not copied between a Deployment and its ReplicaSets.
NEVER_COPIED = frozenset({REVISION, REVISION_HISTORY, DESIRED_REPLICAS, MAX_REPLICAS, ROLLBACK_TO, LAST_APPLIED})

_COUNTS = range(INT32_MAX + 1)


def with_annotations(obj: Mapping[str, Any], annotations: Mapping[str, str]) -> Object:
    """obj with these annotations and no others; obj itself stays."""
    return {**obj, "metadata": {**(obj.get("metadata") or {}), "annotations": dict(annotations)}}


def copyable(annotations: Mapping[str, str]) -> dict[str, str]:
    """Those that a ReplicaSet has from its Deployment, and gives back when it is rolled back to."""
    return {name: value for name, value in annotations.items() if name not in NEVER_COPIED}


def replicas_annotation(replica_set: Mapping[str, Any], name: str) -> int | None:
    """DESIRED_REPLICAS or MAX_REPLICAS; None where it is missing or no count that an int32 holds.

    Source: getNonNegativeInt32FromAnnotation.
    """
    return parse_uint(annotations_of(replica_set).get(name), _COUNTS)
