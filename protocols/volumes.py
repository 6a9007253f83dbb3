"""Fields of PersistentVolumes and PersistentVolumeClaims.

Source: kubernetes v1.36 component-helpers/storage/volume/{helpers,pv_helpers}.go, pkg/volume/util/storageclass.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kcm.protocols.field_types import MAP, QUANTITY, TEXT, check
from kcm.protocols.objects import (
    Key,
    Object,
    annotations_of,
    is_deleting,
    key_of,
    make_key,
    metadata,
    name_of,
    namespace_of,
    resource_version_of,
    uid_of,
)
from kcm.protocols.quantities import whole_value
from kcm.protocols.times import parse_time

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"  # takes precedence over spec.storageClassName
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"  # of a claim: claim and volume refer to each other
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"  # not by a user
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
MIGRATED_TO = "pv.kubernetes.io/migrated-to"
PROVISIONER = "volume.kubernetes.io/storage-provisioner"  # of a claim: the provisioner that creates its volume
BETA_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"
SELECTED_NODE = (
    "volume.kubernetes.io/selected-node"  # of a claim: the node that the scheduler chose for its first consumer
)
RESIZER = "volume.kubernetes.io/storage-resizer"  # of a claim: the CSI driver or plugin that expands its volume
# Of a volume: status.capacity of its claim before an expansion, until the file system has been resized.
PRE_RESIZE_CAPACITY = "volume.alpha.kubernetes.io/pre-resize-capacity"
DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")

CLAIM_PROTECTION = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION = "kubernetes.io/pv-protection"
ATTRIBUTES_CLASS_PROTECTION = "kubernetes.io/vac-protection"
IN_TREE_PROTECTION = "kubernetes.io/pv-controller"
EXTERNAL_PROTECTION = "external-provisioner.volume.kubernetes.io/finalizer"

FIRST_CONSUMER = "WaitForFirstConsumer"

_VOLUME = {
    "metadata": {"annotations": MAP, "labels": MAP},
    "spec": {
        "claimRef": {"namespace": TEXT, "name": TEXT, "uid": TEXT},
        "accessModes": [TEXT],
        "capacity": {"storage": QUANTITY},
        "persistentVolumeReclaimPolicy": TEXT,
        "storageClassName": TEXT,
        "volumeAttributesClassName": TEXT,
        "volumeMode": TEXT,
        "csi": MAP,
        "hostPath": {"path": TEXT},
        "nfs": {"server": TEXT, "path": TEXT},
    },
    "status": {"phase": TEXT},
}
_CLAIM = {
    "metadata": {"annotations": MAP},
    "spec": {
        "accessModes": [TEXT],
        "resources": {"requests": {"storage": QUANTITY}},
        "selector": MAP,
        "storageClassName": TEXT,
        "volumeAttributesClassName": TEXT,
        "volumeMode": TEXT,
        "volumeName": TEXT,
    },
    "status": {
        "phase": TEXT,
        "accessModes": [TEXT],
        "capacity": {"storage": QUANTITY},
        "allocatedResources": {"storage": QUANTITY},
        "allocatedResourceStatuses": {"storage": TEXT},
    },
}


class VolumeFacts(NamedTuple):
    """Fields of a PersistentVolume that are compared with a claim, except its labels.

    modes: access modes, sorted.
    capacity: bytes.
    attributes: VolumeAttributesClass, or "".
    claim: key of spec.claimRef, or "".
    claim_uid: UID of spec.claimRef; "" also if the volume is reserved only.
    source: csi, hostPath or nfs; "" for others.
    """

    phase: str
    class_: str
    modes: tuple[str, ...]
    capacity: int
    mode: str
    attributes: str
    claim: Key
    claim_uid: str
    deleting: bool
    source: str


def volume_facts(volume: Object) -> VolumeFacts:
    """Derive the facts. Raises ValueError that names the field which is missing or of the wrong type."""
    check(volume, _VOLUME)
    spec = volume.get("spec")
    if spec is None:
        raise ValueError("spec is missing")
    reference = spec.get("claimRef")
    return VolumeFacts(
        phase=(volume.get("status") or {}).get("phase") or "",
        class_=class_of(volume),
        modes=tuple(sorted(set(spec.get("accessModes") or ()))),
        capacity=whole_value((spec.get("capacity") or {}).get("storage") or "0"),
        mode=mode_of(volume),
        attributes=attributes_class_of(volume),
        claim="" if reference is None else key_of_reference(reference),
        claim_uid="" if reference is None else reference.get("uid") or "",
        deleting=is_deleting(volume),
        source=next((name for name in ("csi", "hostPath", "nfs") if spec.get(name) is not None), ""),
    )


class ClaimFacts(NamedTuple):
    """Fields of a PersistentVolumeClaim, as in VolumeFacts.

    volume: name of its volume, or "".
    requested, capacity: quantities, of spec and status.
    resize: status.allocatedResourceStatuses[storage], the step of an expansion, or "".
    """

    phase: str
    class_: str
    attributes: str
    volume: str
    requested: str = "0"
    capacity: str = "0"
    resize: str = ""


def claim_facts(claim: Object) -> ClaimFacts:
    """Derive the facts. Raises ValueError that names the field which is missing or of the wrong type."""
    check(claim, _CLAIM)
    if claim.get("spec") is None:
        raise ValueError("spec is missing")
    return ClaimFacts(
        phase=phase_of(claim),
        class_=class_of(claim),
        attributes=attributes_class_of(claim),
        volume=volume_name_of(claim),
        requested=requested_storage(claim),
        capacity=capacity_of_claim(claim),
        resize=resize_status_of(claim),
    )


def class_of(obj: Mapping[str, Any]) -> str:
    """Return the StorageClass of a volume or claim, or ""."""
    annotated = annotations_of(obj).get(CLASS_ANNOTATION)
    return annotated if annotated is not None else (obj.get("spec") or {}).get("storageClassName") or ""


def names_class(claim: Mapping[str, Any]) -> bool:
    """Report whether a claim specifies a class, which may be ""."""
    return CLASS_ANNOTATION in annotations_of(claim) or (claim.get("spec") or {}).get("storageClassName") is not None


def mode_of(obj: Mapping[str, Any]) -> str:
    """Return the volume mode: Filesystem or Block."""
    return (obj.get("spec") or {}).get("volumeMode") or "Filesystem"


def attributes_class_of(obj: Mapping[str, Any]) -> str:
    return (obj.get("spec") or {}).get("volumeAttributesClassName") or ""


def requested_storage(claim: Mapping[str, Any]) -> str:
    resources = (claim.get("spec") or {}).get("resources") or {}
    return (resources.get("requests") or {}).get("storage") or "0"


def capacity_of_claim(claim: Mapping[str, Any]) -> str:
    """Return status.capacity[storage] of a claim, or "0"."""
    return ((claim.get("status") or {}).get("capacity") or {}).get("storage") or "0"


def capacity_of_volume(volume: Mapping[str, Any]) -> str:
    """Return spec.capacity[storage] of a volume, or "0"."""
    return ((volume.get("spec") or {}).get("capacity") or {}).get("storage") or "0"


def resize_status_of(claim: Mapping[str, Any]) -> str:
    """Return status.allocatedResourceStatuses[storage] of a claim, or ""."""
    return ((claim.get("status") or {}).get("allocatedResourceStatuses") or {}).get("storage") or ""


def volume_name_of(claim: Mapping[str, Any]) -> str:
    """Return the volume that a claim is bound to or requests, or ""."""
    return (claim.get("spec") or {}).get("volumeName") or ""


def phase_of(obj: Mapping[str, Any]) -> str:
    return (obj.get("status") or {}).get("phase") or ""


def is_bound(claim: Mapping[str, Any]) -> bool:
    """Report whether the binding of a claim is complete."""
    return bool(volume_name_of(claim)) and BIND_COMPLETED in annotations_of(claim)


def claim_reference(claim: Mapping[str, Any]) -> Object:
    """Return the reference to a claim for its volume's spec.claimRef."""
    return {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": namespace_of(claim),
        "name": name_of(claim),
        "uid": uid_of(claim),
        "resourceVersion": resource_version_of(claim),
    }


def key_of_reference(reference: Mapping[str, Any]) -> Key:
    return make_key(reference.get("namespace") or "", reference.get("name") or "")


def is_of(volume: Mapping[str, Any], claim: Mapping[str, Any]) -> bool:
    """Report whether a volume is bound to this claim, or reserved for a claim of this name."""
    reference = (volume.get("spec") or {}).get("claimRef")
    if reference is None or key_of_reference(reference) != key_of(claim):
        return False
    return not reference.get("uid") or reference["uid"] == uid_of(claim)


def waits_for_consumer(class_: Mapping[str, Any] | None) -> bool:
    """Report whether claims of this StorageClass are bound only when a pod uses them; False for a missing class.

    Raises ValueError for a class without volumeBindingMode.
    """
    if class_ is None:
        return False
    mode = class_.get("volumeBindingMode")
    if not mode:
        raise ValueError(f'VolumeBindingMode not set for StorageClass "{name_of(class_)}"')
    return bool(mode == FIRST_CONSUMER)


def default_class(classes: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the newest default StorageClass; of equally old ones, the first by name."""
    marked = [class_ for class_ in classes if any(annotations_of(class_).get(mark) == "true" for mark in DEFAULT_CLASS)]
    return min(marked, key=lambda class_: (-_created(class_), name_of(class_)), default=None)


def _created(obj: Mapping[str, Any]) -> float:
    created = metadata(obj).get("creationTimestamp")
    return 0.0 if not created else parse_time(created)


class ClaimUse(NamedTuple):
    """Use of a claim by a pod. ephemeral: the claim is created for the pod, and owned by it."""

    claim: Key
    ephemeral: bool


def ephemeral_claim_name(pod: Mapping[str, Any], volume: Mapping[str, Any]) -> str:
    """Return the name of the claim that is created for a generic ephemeral volume of a pod.

    Source: component-helpers/storage/ephemeral, VolumeClaimName.
    """
    return f"{name_of(pod)}-{volume.get('name') or ''}"


def claims_of(pod: Mapping[str, Any]) -> Iterator[ClaimUse]:
    namespace = namespace_of(pod)
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        if (source := volume.get("persistentVolumeClaim")) is not None:
            yield ClaimUse(make_key(namespace, source.get("claimName") or ""), ephemeral=False)
        elif volume.get("ephemeral") is not None:
            yield ClaimUse(make_key(namespace, ephemeral_claim_name(pod, volume)), ephemeral=True)


def claim_keys(pod: Mapping[str, Any]) -> Iterable[Key]:
    return dict.fromkeys(use.claim for use in claims_of(pod))


def is_pod_ended(pod: Mapping[str, Any]) -> bool:
    """Report whether all containers of a pod have terminated.

    Source: kubernetes v1.36 pkg/volume/util/util.go, IsPodTerminated.
    """
    status = pod.get("status") or {}
    if status.get("phase") in ("Failed", "Succeeded"):
        return True
    return is_deleting(pod) and all(
        (container.get("state") or {}).keys() & {"terminated", "waiting"}
        for kind in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
        for container in status.get(kind) or ()
    )
