"""Names of the Secrets that a pod refers to.

Source: kubernetes v1.36 pkg/api/v1/pod/util.go, VisitPodSecretNames.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

# Volume source → field that contains the Secret's name, or a reference to the Secret.
_NAMES = {"azureFile": "secretName", "secret": "secretName"}
_REFERENCES = {
    "cephfs": "secretRef",
    "cinder": "secretRef",
    "csi": "nodePublishSecretRef",
    "flexVolume": "secretRef",
    "iscsi": "secretRef",
    "rbd": "secretRef",
    "scaleIO": "secretRef",
    "storageos": "secretRef",
}
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


def secret_names(pod: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(name for name in _names(pod.get("spec") or {}) if name)


def _names(spec: Mapping[str, Any]) -> Iterator[str]:
    for reference in spec.get("imagePullSecrets") or ():
        yield _name(reference)
    for field in _CONTAINERS:
        for container in spec.get(field) or ():
            for source in container.get("envFrom") or ():
                yield _name(source.get("secretRef"))
            for variable in container.get("env") or ():
                yield _name((variable.get("valueFrom") or {}).get("secretKeyRef"))
    for volume in spec.get("volumes") or ():
        for source, field in _NAMES.items():
            yield (volume.get(source) or {}).get(field) or ""
        for source, field in _REFERENCES.items():
            yield _name((volume.get(source) or {}).get(field))
        for source in (volume.get("projected") or {}).get("sources") or ():
            yield _name(source.get("secret"))


def _name(reference: Mapping[str, Any] | None) -> str:
    return (reference or {}).get("name") or ""
