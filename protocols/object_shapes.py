"""Types of the fields that tables derive from objects, to name the field of a malformed object.

Tables read these fields of every version of every object without checks. Only if that fails are the types compared.
Source: kubernetes v1.36 staging/src/k8s.io/api/core/v1/types.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.protocols.field_types import MAP, NUMBER, QUANTITY, TEXT, TIME, Shape, check
from kcm.protocols.resources import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS

_QUANTITIES = {"cpu": QUANTITY, "memory": QUANTITY, "storage": QUANTITY}
_TAINT = {"key": TEXT, "value": TEXT, "effect": TEXT, "timeAdded": TIME}
_TOLERATION = {"key": TEXT, "operator": TEXT, "value": TEXT, "effect": TEXT, "tolerationSeconds": NUMBER}
_CONDITION = {"type": TEXT, "status": TEXT, "reason": TEXT, "message": TEXT}
_RESOURCES = {"requests": _QUANTITIES, "limits": _QUANTITIES, "claims": [{"name": TEXT}]}
_CONTAINER = {"name": TEXT, "image": TEXT, "resources": _RESOURCES, "ports": [MAP], "env": [MAP]}
_CONTAINER_STATUS = {"name": TEXT, "resources": _RESOURCES, "state": MAP}
_CLAIM_SPEC = {
    "accessModes": [TEXT],
    "resources": _RESOURCES,
    "storageClassName": TEXT,
    "volumeName": TEXT,
    "volumeMode": TEXT,
    "volumeAttributesClassName": TEXT,
}
_VOLUME = {
    "name": TEXT,
    "persistentVolumeClaim": {"claimName": TEXT},
    "ephemeral": {"volumeClaimTemplate": {"metadata": MAP, "spec": _CLAIM_SPEC}},
    "csi": {"driver": TEXT},
}
_SHAPES: Mapping[str, Shape] = {
    PODS.id: {
        "spec": {
            "nodeName": TEXT,
            "serviceAccountName": TEXT,
            "schedulingGroup": {"podGroupName": TEXT},
            "activeDeadlineSeconds": NUMBER,
            "containers": [_CONTAINER],
            "initContainers": [_CONTAINER],
            "overhead": _QUANTITIES,
            "volumes": [_VOLUME],
            "tolerations": [_TOLERATION],
            "securityContext": MAP,
            "resourceClaims": [{"name": TEXT, "resourceClaimName": TEXT, "resourceClaimTemplateName": TEXT}],
        },
        "status": {
            "phase": TEXT,
            "podIP": TEXT,
            "conditions": [_CONDITION],
            "containerStatuses": [_CONTAINER_STATUS],
            "initContainerStatuses": [_CONTAINER_STATUS],
            "resourceClaimStatuses": [{"name": TEXT, "resourceClaimName": TEXT}],
            "extendedResourceClaimStatus": {"resourceClaimName": TEXT},
        },
    },
    NODES.id: {
        "spec": {"taints": [_TAINT], "podCIDR": TEXT, "podCIDRs": [TEXT], "providerID": TEXT},
        "status": {
            "conditions": [_CONDITION],
            "addresses": [{"type": TEXT, "address": TEXT}],
            "volumesInUse": [TEXT],
            "volumesAttached": [{"name": TEXT, "devicePath": TEXT}],
        },
    },
    PERSISTENT_VOLUME_CLAIMS.id: {
        "spec": _CLAIM_SPEC,
        "status": {
            "phase": TEXT,
            "capacity": _QUANTITIES,
            "currentVolumeAttributesClassName": TEXT,
            "modifyVolumeStatus": {"targetVolumeAttributesClassName": TEXT, "status": TEXT},
        },
    },
    PERSISTENT_VOLUMES.id: {
        "spec": {
            "accessModes": [TEXT],
            "capacity": _QUANTITIES,
            "claimRef": {"namespace": TEXT, "name": TEXT, "uid": TEXT},
            "csi": {"driver": TEXT, "volumeHandle": TEXT},
            "storageClassName": TEXT,
            "volumeAttributesClassName": TEXT,
            "nodeAffinity": {"required": {"nodeSelectorTerms": [MAP]}},
        },
        "status": {"phase": TEXT},
    },
}


def check_fields(resource_id: str, obj: Mapping[str, Any]) -> None:
    """Raise ValueError for the first field of another type: "spec.volumes is a list, got 3".

    resource_id: Resource.id; the fields of other resources are not checked.
    """
    check(obj, _SHAPES.get(resource_id, {}))
