"""PersistentVolumes (core/v1): defaults, validation and table columns.

Source: kubernetes pkg/registry/core/persistentvolume/strategy.go, pkg/apis/core/v1/defaults.go,
pkg/apis/core/validation/validation.go, pkg/printers/internalversion/printers.go (printPersistentVolume) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kcm.protocols.objects import Object, annotations_of
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid
from kcm.runtime.apiserver.kinds.pod_spec.persistent_volume_sources import source_of, wrong_volume_spec
from kcm.runtime.apiserver.kinds.pod_spec.persistent_volumes import (
    CLASS_ANNOTATION,
    access_modes,
    class_of,
    phase_of,
    set_pending,
)
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer, wide
from kcm.runtime.apiserver.registry.strategy import Strategy, SubresourceUpdate
from kcm.runtime.apiserver.rules.cells import age_cell, items, name_cell, or_unset, part
from kcm.runtime.apiserver.rules.names import dns_subdomain
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE
from kcm.runtime.apiserver.rules.warnings import of_node_term
from kcm.runtime.apiserver.schema.inner_forms import difference

_ANNOTATIONS = {
    CLASS_ANNOTATION: 'deprecated since v1.8; use "storageClassName" attribute instead',
    "volume.beta.kubernetes.io/mount-options": 'deprecated since v1.31; use "mountOptions" attribute instead',
}
# Volume sources that upstream has removed → names and texts in its warnings.
_REMOVED_SOURCES = {
    "cephfs": ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    "photonPersistentDisk": ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    "scaleIO": ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    "storageos": ("storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    "glusterfs": ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    "rbd": ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
}
_EXPAND = "controllerExpandSecretRef"
_SOURCE = "core.PersistentVolumeSource"
_PHASE_TIME = "lastPhaseTransitionTime"


def set_defaults(volume: Object) -> None:
    spec = volume.setdefault("spec", {})
    if not spec.get("persistentVolumeReclaimPolicy"):
        spec["persistentVolumeReclaimPolicy"] = "Retain"
    spec.setdefault("volumeMode", "Filesystem")
    if "hostPath" in spec:
        spec["hostPath"].setdefault("type", "")


def prepare_for_create(volume: Object) -> None:
    set_pending(volume)
    volume["status"][_PHASE_TIME] = volume["metadata"]["creationTimestamp"]


def prepare_for_status_update(new: Object, old: Object, now: str) -> None:
    """Restore the spec of a PersistentVolume, and set status.lastPhaseTransitionTime.

    The time is `now` if the phase changed, unless the client set it.
    """
    new["spec"] = old["spec"]
    status, before = new.setdefault("status", {}), old.get("status") or {}
    if not status.get("phase"):
        status["phase"] = "Pending"
    if status["phase"] != before.get("phase"):
        if status.get(_PHASE_TIME) in (None, before.get(_PHASE_TIME)):
            status[_PHASE_TIME] = now
    elif status.get(_PHASE_TIME) is None and _PHASE_TIME in before:
        status[_PHASE_TIME] = before[_PHASE_TIME]


def validate(volume: Object) -> list[FieldError]:
    return list(wrong_volume_spec(volume["spec"], "spec"))


def validate_update(new: Object, old: Object) -> list[FieldError]:
    """Validate an update of a PersistentVolume.

    The volume source is immutable, except that controllerExpandSecretRef can be added to a CSI source.
    """
    spec, before = new["spec"], old["spec"]
    errors: list[FieldError] = []
    source, was = source_of(spec), source_of(before)
    if "csi" in source and "csi" in was and was["csi"].get(_EXPAND) is None:
        source["csi"] = {name: value for name, value in source["csi"].items() if name != _EXPAND}
    if source != was:
        detail = f"spec.persistentvolumesource is immutable after creation\n{difference(was, source, _SOURCE)}"
        errors.append(forbidden("spec.persistentvolumesource", detail))
    if spec["volumeMode"] != before.get("volumeMode"):
        errors.append(invalid("volumeMode", spec["volumeMode"], IMMUTABLE))
    name, named = spec.get("volumeAttributesClassName"), before.get("volumeAttributesClassName")
    if named is not None and name is None:
        errors.append(forbidden("spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden"))
    return errors


def validate_status_update(_new: Object, _old: Object) -> list[FieldError]:
    return []


def warn(volume: Object, _old: Object | None) -> Iterator[str]:
    spec, annotations = volume["spec"], annotations_of(volume)
    for key, text in _ANNOTATIONS.items():
        if key in annotations:
            yield f"metadata.annotations[{key}]: {text}"
    if spec["persistentVolumeReclaimPolicy"] == "Recycle":
        yield (
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended "
            "approach is to use dynamic provisioning."
        )
    terms = ((spec.get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms") or ()
    for i, term in enumerate(terms):
        yield from of_node_term(term, f"spec.nodeAffinity.required.nodeSelectorTerms[{i}]")
    for name, (shown, text) in _REMOVED_SOURCES.items():
        if spec.get(name) is not None:
            yield f"spec.{shown}: {text}"


def cells(volume: Object, now: float) -> list[Any]:
    spec = part(volume, "spec")
    claim = spec.get("claimRef")
    return [
        name_cell(volume),
        str(part(spec, "capacity").get("storage") or "0"),
        access_modes(items(spec, "accessModes")),
        spec.get("persistentVolumeReclaimPolicy") or "",
        phase_of(volume),
        "" if claim is None else f"{claim.get('namespace') or ''}/{claim.get('name') or ''}",
        class_of(volume),
        or_unset(spec, "volumeAttributesClassName"),
        part(volume, "status").get("reason") or "",
        age_cell(volume, now),
        or_unset(spec, "volumeMode"),
    ]


RESOURCE = ResourceDefinition(
    version="v1",
    plural="persistentvolumes",
    kind="PersistentVolume",
    short_names=("pv",),
    namespaced=False,
    subresources=("status",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        set_defaults=set_defaults,
        prepare_for_create=prepare_for_create,
        validate=validate,
        warn=warn,
        validate_update=validate_update,
        subresource_updates={
            "status": SubresourceUpdate(prepare=prepare_for_status_update, validate=validate_status_update),
        },
        has_status=True,
        return_deleted_object=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Capacity"),
            Column("Access Modes"),
            Column("Reclaim Policy"),
            Column("Status"),
            Column("Claim"),
            Column("StorageClass"),
            Column("VolumeAttributesClass"),
            Column("Reason"),
            AGE,
            wide("VolumeMode"),
        ),
        cells=cells,
    ),
)
