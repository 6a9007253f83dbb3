"""Construction of the objects that are written when a claim and a volume are bound or unbound.

Most functions return None if the object does not have to be written.

Source: kubernetes v1.36 pkg/controller/volume/persistentvolume/pv_controller.go; component-helpers/storage/volume
(GetBindVolumeToClaim).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.protocols.objects import Object, annotations_of, metadata, name_of
from kcm.protocols.quantities import canonical_quantity, parse_quantity
from kcm.protocols.volumes import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    PRE_RESIZE_CAPACITY,
    claim_reference,
    is_of,
    volume_name_of,
)

YES = "yes"
_IDENTITY = ("namespace", "name", "uid")


def with_annotations(obj: Mapping[str, Any], changes: Mapping[str, str | None]) -> Object:
    """Return a copy of the object with changed annotations. changes: new values by name; None removes an annotation."""
    wanted = {**annotations_of(obj), **changes}
    kept = {name: value for name, value in wanted.items() if value is not None}
    meta = {name: value for name, value in metadata(obj).items() if name != "annotations"}
    if kept:
        meta["annotations"] = kept
    return {**obj, "metadata": meta}


def bound_volume(volume: Mapping[str, Any], claim: Mapping[str, Any]) -> Object | None:
    """Return a copy of the volume with a claimRef to the claim; None if it does not change.

    The annotation bound-by-controller is added, unless a user has reserved the volume for the claim by a claimRef.

    Source: GetBindVolumeToClaim.
    """
    wanted, known = claim_reference(claim), (volume.get("spec") or {}).get("claimRef")
    by_us = not is_of(volume, claim) and BOUND_BY_CONTROLLER not in annotations_of(volume)
    named = known is not None and all(known.get(part) == wanted[part] for part in _IDENTITY)
    if named and not by_us:
        return None
    bound = dict(volume) if named else {**volume, "spec": {**volume["spec"], "claimRef": wanted}}
    return with_annotations(bound, {BOUND_BY_CONTROLLER: YES}) if by_us else bound


def bound_claim(claim: Mapping[str, Any], volume: Mapping[str, Any]) -> Object | None:
    """Return a copy of the claim with the volumeName of the volume; None if it does not change.

    The annotation bind-completed is added. The annotation bound-by-controller is added too, unless a user has chosen
    the volume.

    Source: bindClaimToVolume.
    """
    marks: dict[str, str | None] = {}
    changed = dict(claim)
    if volume_name_of(claim) != name_of(volume):
        changed["spec"] = {**claim["spec"], "volumeName": name_of(volume)}
        if BOUND_BY_CONTROLLER not in annotations_of(claim):
            marks[BOUND_BY_CONTROLLER] = YES
    elif BIND_COMPLETED in annotations_of(claim):
        return None
    if BIND_COMPLETED not in annotations_of(claim):
        marks[BIND_COMPLETED] = YES
    return with_annotations(changed, marks)


def unbound_volume(volume: Mapping[str, Any]) -> Object:
    """Return a copy of the volume without its claimRef.

    If a user has reserved the volume for a claim by name, only the uid of the claimRef is removed.
    """
    spec = dict(volume["spec"])
    if BOUND_BY_CONTROLLER in annotations_of(volume):
        spec.pop("claimRef", None)
        return with_annotations({**volume, "spec": spec}, {BOUND_BY_CONTROLLER: None})
    spec["claimRef"] = {name: value for name, value in spec["claimRef"].items() if name != "uid"}
    return {**volume, "spec": spec}


def volume_in_phase(volume: Mapping[str, Any], phase: str, message: str = "") -> Object | None:
    status = volume.get("status") or {}
    if status.get("phase") == phase:
        return None
    changed = {name: value for name, value in status.items() if name != "message"}
    return {**volume, "status": {**changed, "phase": phase, **({"message": message} if message else {})}}


def claim_in_phase(claim: Mapping[str, Any], phase: str, volume: Mapping[str, Any] | None) -> Object | None:
    """Return a copy of the claim with a new phase, and with the access modes and capacity of the volume in its status.

    Without a volume these fields are removed. The capacity of a claim that is bound already is kept, because the
    resizer updates it. The result is None if the status does not change.

    Raises ValueError if the volume has no capacity. Source: updateClaimStatus.
    """
    before = claim.get("status") or {}
    status = {**before, "phase": phase}
    if volume is None:
        for name in ("accessModes", "capacity", "currentVolumeAttributesClassName"):
            status.pop(name, None)
    else:
        spec = volume.get("spec") or {}
        status["accessModes"] = list(spec.get("accessModes") or ())
        if before.get("phase") != phase:
            status["capacity"] = _capacity(before.get("capacity") or {}, volume)
        if before.get("phase") == "Pending" and phase == "Bound":
            attributes = spec.get("volumeAttributesClassName")
            status.pop("currentVolumeAttributesClassName", None)
            if attributes is not None:
                status["currentVolumeAttributesClassName"] = attributes
    return None if status == before else {**claim, "status": status}


def _capacity(before: Mapping[str, str], volume: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the status.capacity of a claim for this volume. Raises ValueError if the volume has no capacity.

    As long as the file system of the volume has not been resized, this is the capacity before the resize, which an
    annotation of the volume contains.

    before: status.capacity of the claim until now, which is returned if the size has not changed.
    """
    capacity = (volume.get("spec") or {}).get("capacity") or {}
    if "storage" not in capacity:
        raise ValueError(f'PersistentVolume "{name_of(volume)}" is without a storage capacity')
    smaller = annotations_of(volume).get(PRE_RESIZE_CAPACITY)
    if smaller is not None:
        try:
            return {**before, "storage": canonical_quantity(smaller)}
        except ValueError:
            return {**before, "storage": capacity["storage"]}
    if "storage" in before and parse_quantity(before["storage"]) == parse_quantity(capacity["storage"]):
        return before
    return dict(capacity)
