"""StorageObjectInUseProtection: add the finalizers that keep volumes and claims until they are unused.

Source: kubernetes plugin/pkg/admission/storage/storageobjectinuseprotection/admission.go (v1.36).
"""

from __future__ import annotations

from kcm.protocols.admission_plugins import STORAGE_OBJECT_IN_USE_PROTECTION
from kcm.protocols.objects import Object
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition

FINALIZERS = {
    "persistentvolumes": "kubernetes.io/pv-protection",
    "persistentvolumeclaims": "kubernetes.io/pvc-protection",
    "volumeattributesclasses.storage.k8s.io": "kubernetes.io/vac-protection",
}


def admit_create(cluster: Cluster, definition: ResourceDefinition, obj: Object) -> None:
    """Add the protection finalizer to a new volume, claim or VolumeAttributesClass, in place."""
    finalizer = FINALIZERS.get(definition.storage)
    if finalizer is None or STORAGE_OBJECT_IN_USE_PROTECTION not in cluster.settings.plugins:
        return
    finalizers = obj["metadata"].get("finalizers") or []
    if finalizer not in finalizers:
        obj["metadata"]["finalizers"] = [*finalizers, finalizer]
