"""Which types the fields are of that an autoscaler reads: its own, those of a scale, and of pods.

Source: kubernetes v1.36 staging/src/k8s.io/api/autoscaling/v2/types.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.protocols.objects import Object, key_of
from kcm.protocols.shapes import COUNT, MAP, NUMBER, QUANTITY, TEXT, TIME, check

_REFERENCE = {"apiVersion": TEXT, "kind": TEXT, "name": TEXT}
_METRIC = {"name": TEXT, "selector": MAP}
_TARGET = {"type": TEXT, "value": QUANTITY, "averageValue": QUANTITY, "averageUtilization": NUMBER}
_RULES = {
    "stabilizationWindowSeconds": COUNT,
    "selectPolicy": TEXT,
    "tolerance": QUANTITY,
    "policies": [{"type": TEXT, "value": COUNT, "periodSeconds": COUNT}],
}
_AUTOSCALER = {
    "spec": {
        "scaleTargetRef": _REFERENCE,
        "minReplicas": COUNT,
        "maxReplicas": COUNT,
        "behavior": {"scaleUp": _RULES, "scaleDown": _RULES},
        "metrics": [
            {
                "type": TEXT,
                "resource": {"name": TEXT, "target": _TARGET},
                "containerResource": {"name": TEXT, "container": TEXT, "target": _TARGET},
                "pods": {"metric": _METRIC, "target": _TARGET},
                "object": {"describedObject": _REFERENCE, "metric": _METRIC, "target": _TARGET},
                "external": {"metric": _METRIC, "target": _TARGET},
            }
        ],
    },
    "status": {
        "currentReplicas": NUMBER,
        "desiredReplicas": NUMBER,
        "conditions": [{"type": TEXT, "status": TEXT, "reason": TEXT, "message": TEXT}],
    },
}
_SCALE = {"spec": {"replicas": COUNT}, "status": {"replicas": COUNT, "selector": TEXT}}
_CONTAINERS = [{"name": TEXT, "restartPolicy": TEXT, "resources": {"requests": MAP}}]
_POD = {
    "spec": {"containers": _CONTAINERS, "initContainers": _CONTAINERS, "resources": {"requests": MAP}},
    "status": {
        "phase": TEXT,
        "startTime": TIME,
        "conditions": [{"type": TEXT, "status": TEXT, "lastTransitionTime": TIME}],
    },
}


def check_autoscaler(autoscaler: Mapping[str, Any]) -> None:
    """As all here: raises ValueError that names the field that is of the wrong type."""
    check(autoscaler, _AUTOSCALER)


def check_scale(scale: Object) -> None:
    check(scale, _SCALE)


def check_pod(pod: Object) -> None:
    """And the pod."""
    try:
        check(pod, _POD)
    except ValueError as err:
        raise ValueError(f"Pod {key_of(pod)}: {err}") from err
