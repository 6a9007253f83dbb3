"""What is written when a claim and a volume are bound, or come apart. Each returns None where nothing is to be written.

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
    claim_reference,
    is_of,
    volume_name_of,
)

PRE_RESIZE_CAPACITY = "volume.alpha.kubernetes.io/pre-resize-capacity"
YES = "yes"
_IDENTITY = ("namespace", "name", "uid")


def with_annotations(obj: Mapping[str, Any], changes: Mapping[str, str | None]) -> Object:
    """The object with these annotations; None takes one away."""
    wanted = {**annotations_of(obj), **changes}
    kept = {name: value for name, value in wanted.items() if value is not None}
    meta = {name: value for name, value in metadata(obj).items() if name != "annotations"}
    if kept:
        meta["annotations"] = kept
    return {**obj, "metadata": meta}


def bound_volume(volume: Mapping[str, Any], claim: Mapping[str, Any]) -> Object | None:
    """The volume that names this claim. One that a user has reserved for it is not marked as bound by us."""
    wanted, known = claim_reference(claim), (volume.get("spec") or {}).get("claimRef")
    by_us = not is_of(volume, claim) and BOUND_BY_CONTROLLER not in annotations_of(volume)
    named = known is not None and all(known.get(part) == wanted[part] for part in _IDENTITY)
    if named and not by_us:
        return None
    bound = dict(volume) if named else {**volume, "spec": {**volume["spec"], "claimRef": wanted}}
    return with_annotations(bound, {BOUND_BY_CONTROLLER: YES}) if by_us else bound


def bound_claim(claim: Mapping[str, Any], volume: Mapping[str, Any]) -> Object | None:
    """The claim that names this volume. One that a user has bound to it is not marked as bound by us."""
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
    """The volume that names no claim any more; one that a user has reserved stays so."""
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
    """The claim whose status is of this phase and volume. Raises ValueError on a volume without a capacity.

    The capacity of a claim that is bound is left to who resizes it.
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
    """While its file system is yet to grow, it is what the volume had before."""
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
