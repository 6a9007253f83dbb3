"""PersistentVolumeClaimResize: allow a claim to grow only if its StorageClass allows expansion.

Source: kubernetes plugin/pkg/admission/storage/persistentvolume/resize/admission.go (v1.36).
"""

from __future__ import annotations

from decimal import Decimal

from kcm.protocols.admission_plugins import PERSISTENT_VOLUME_CLAIM_RESIZE
from kcm.protocols.objects import Object, annotations_of, decode_object
from kcm.protocols.quantities import parse_quantity
from kcm.runtime.apiserver.admission.default_classes import CLAIMS, STORAGE_CLASSES
from kcm.runtime.apiserver.admission.refusal import forbidden
from kcm.runtime.apiserver.core.cluster import Cluster, RoutedRequest

_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


def admit_update(cluster: Cluster, call: RoutedRequest, new: Object, old: Object) -> None:
    """Check that a claim that is expanded is bound, and that its StorageClass allows expansion.

    Raises StatusError (403).
    """
    if call.definition.storage != CLAIMS or call.route.subresource:
        return
    if PERSISTENT_VOLUME_CLAIM_RESIZE not in cluster.settings.plugins or _size(new) <= _size(old):
        return
    if (old.get("status") or {}).get("phase") != "Bound":
        raise forbidden("", CLAIMS, new, "Only bound persistent volume claims can be expanded")
    if not _may_grow(cluster, new, old):
        because = (
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support "
            "resize"
        )
        raise forbidden("", CLAIMS, new, because)


def _may_grow(cluster: Cluster, new: Object, old: Object) -> bool:
    name = _class_name(new)
    record = cluster.state.get(STORAGE_CLASSES, name) if name and name == _class_name(old) else None
    return record is not None and decode_object(record.raw).get("allowVolumeExpansion") is True


def _class_name(claim: Object) -> str:
    named = annotations_of(claim).get(_ANNOTATION)
    return named if named is not None else claim["spec"].get("storageClassName") or ""


def _size(claim: Object) -> Decimal:
    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    return parse_quantity(requests.get("storage") or "0")
