"""PersistentVolumeClaims (core/v1): defaults, validation and table columns.

Source: kubernetes pkg/registry/core/persistentvolumeclaim/strategy.go, pkg/api/persistentvolumeclaim/util.go,
pkg/apis/core/v1/defaults.go, pkg/apis/core/validation/validation.go,
pkg/printers/internalversion/printers.go (printPersistentVolumeClaim) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kcm.protocols.objects import Object, annotations_of
from kcm.protocols.quantities import parse_quantity
from kcm.protocols.quota.names import is_native
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid, not_supported
from kcm.runtime.apiserver.kinds.pod_spec.claim_specs import wrong_claim_spec
from kcm.runtime.apiserver.kinds.pod_spec.persistent_volumes import (
    CLASS_ANNOTATION,
    access_modes,
    class_of,
    phase_of,
    set_pending,
)
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer, wide
from kcm.runtime.apiserver.registry.strategy import Allocating, Strategy
from kcm.runtime.apiserver.rules.cells import age_cell, items, name_cell, or_unset, part
from kcm.runtime.apiserver.rules.conditions import fill_times
from kcm.runtime.apiserver.rules.names import dns_subdomain, label_key
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE
from kcm.runtime.apiserver.rules.warnings import of_claim_spec
from kcm.runtime.apiserver.schema.inner_forms import difference

_RESIZE_STATUSES = (
    *("ControllerResizeInProgress", "ControllerResizeInfeasible"),
    *("NodeResizeInProgress", "NodeResizeInfeasible", "NodeResizePending"),
)
_IMMUTABLE_SPEC = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)
_SPEC = "core.PersistentVolumeClaimSpec"
_ATTRIBUTES, _SIZE = "spec.volumeAttributesClassName", "spec.resources.requests.storage"
_BELOW_CAPACITY = "field can not be less than status.capacity"


def set_defaults(claim: Object) -> None:
    spec = claim.setdefault("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    for field in ("dataSource", "dataSourceRef"):
        if field in spec:
            spec[field].setdefault("apiGroup", None)  # upstream always encodes this field


def prepare_for_create(claim: Object) -> None:
    set_pending(claim)
    _copy_data_sources(claim["spec"], {})


def prepare_for_update(_among: Allocating, new: Object, old: Object) -> None:
    new["spec"] = dict(new["spec"])  # the new object may share its spec with the old one
    _copy_data_sources(new["spec"], old["spec"])


def _copy_data_sources(spec: Object, before: Object) -> None:
    """Copy dataSource to dataSourceRef or vice versa, if one of them is missing.

    A new dataSource is removed unless it is a PersistentVolumeClaim or a VolumeSnapshot. A new dataSourceRef to another
    namespace is removed, as its feature gate (CrossNamespaceVolumeDataSource) is off.
    """
    reference = spec.get("dataSourceRef")
    if reference is not None and reference.get("namespace") and before.get("dataSourceRef") is None:
        del spec["dataSourceRef"]  # references to other namespaces have a feature gate that is off
        reference = None
    source = spec.get("dataSource")
    had_one = before.get("dataSource") is not None or before.get("dataSourceRef") is not None
    if source is not None and reference is None and not had_one and not _is_old_source(source):
        del spec["dataSource"]
    elif source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif source is None and reference is not None and not reference.get("namespace"):
        spec["dataSource"] = dict(reference)


def _is_old_source(source: Mapping[str, Any]) -> bool:
    what = source.get("kind"), source.get("apiGroup") or ""
    return what in (("PersistentVolumeClaim", ""), ("VolumeSnapshot", "snapshot.storage.k8s.io"))


def validate(claim: Object) -> list[FieldError]:
    return list(wrong_claim_spec(claim["spec"], "spec"))


def validate_update(new: Object, old: Object) -> list[FieldError]:
    """Validate an update of a claim's spec, which is immutable with these exceptions.

    volumeName and storageClassName can be set if they are unset. In a bound claim, requests.storage can change, but not
    shrink below status.capacity, and volumeAttributesClassName can change.
    """
    spec, before, status = new["spec"], old["spec"], old.get("status") or {}
    errors: list[FieldError] = []
    changed, was = dict(spec), dict(before)
    if not before.get("volumeName"):
        was["volumeName"] = spec.get("volumeName")
    annotations, annotated = annotations_of(new).get(CLASS_ANNOTATION), annotations_of(old).get(CLASS_ANNOTATION)
    class_, had = spec.get("storageClassName"), before.get("storageClassName")
    if annotated is not None and annotations in (None, annotated) and had is None and class_ == annotated:
        changed["storageClassName"] = None
    else:
        if (annotations or "") != (annotated or ""):
            errors.append(invalid("metadata.annotations", annotations or "", IMMUTABLE))
        if annotated is None and had is None and class_ is not None:
            changed["storageClassName"] = had
    size, had_size = _storage(spec), _storage(before)
    if status.get("phase") == "Bound":
        changed["volumeAttributesClassName"] = before.get("volumeAttributesClassName")
        resources = spec.get("resources") or {}
        if resources.get("requests") is not None:
            requests = {**resources["requests"], "storage": had_size}
            changed["resources"] = {**resources, "requests": requests}
    if _without_nones(changed) != _without_nones(was):
        errors.append(forbidden("spec", f"{_IMMUTABLE_SPEC}\n{difference(was, changed, _SPEC)}"))
    if parse_quantity(size) < parse_quantity(had_size):
        capacity = (status.get("capacity") or {}).get("storage") or "0"
        if parse_quantity(size) <= parse_quantity(capacity):
            errors.append(forbidden(_SIZE, _BELOW_CAPACITY))
    if spec["volumeMode"] != before.get("volumeMode"):
        errors.append(invalid("volumeMode", spec["volumeMode"], IMMUTABLE))
    name = spec.get("volumeAttributesClassName")
    if name != before.get("volumeAttributesClassName") and "currentVolumeAttributesClassName" in status and not name:
        to = "nil" if name is None else "empty string"
        errors.append(
            forbidden(
                _ATTRIBUTES, f"update to {to} is forbidden when status.currentVolumeAttributesClassName is not nil"
            )
        )
    return errors


def _storage(spec: Mapping[str, Any]) -> str:
    return ((spec.get("resources") or {}).get("requests") or {}).get("storage") or "0"


def _without_nones(spec: Object) -> Object:
    return {name: value for name, value in spec.items() if value is not None}


def prepare_for_status_update(new: Object, _old: Object) -> None:
    fill_times(new, "lastProbeTime", "lastTransitionTime")


def validate_status_update(new: Object, _old: Object) -> list[FieldError]:
    return list(_wrong_status(new.get("status") or {}, "status"))


def _wrong_status(status: Mapping[str, Any], field: str) -> Iterator[FieldError]:
    yield from _wrong_amounts(status.get("capacity") or {}, f"{field}.capacity")
    at = f"{field}.allocatedResourceStatuses"
    for name, value in (status.get("allocatedResourceStatuses") or {}).items():
        yield from _wrong_resource(name, at)
        if value not in _RESIZE_STATUSES:
            yield not_supported(at, name, sorted(_RESIZE_STATUSES))
    at = f"{field}.allocatedResources"
    for name, amount in (status.get("allocatedResources") or {}).items():
        wrong = list(_wrong_resource(name, at))
        yield from wrong or _wrong_amounts({name: amount}, at)


def _wrong_amounts(amounts: Mapping[str, str], field: str) -> Iterator[FieldError]:
    for name, amount in amounts.items():
        if (size := parse_quantity(amount)) < 0:
            yield invalid(f"{field}[{name}]", int(size), "must be a valid resource quantity")


def _wrong_resource(name: str, field: str) -> Iterator[FieldError]:
    problems = label_key(name)
    yield from (invalid(field, name, text) for text in problems)
    if not problems and is_native(name) and name != "storage":
        yield not_supported(field, name, ("storage",))


def warn(claim: Object, _old: Object | None) -> Iterator[str]:
    if CLASS_ANNOTATION in annotations_of(claim):
        detail = 'deprecated since v1.8; use "storageClassName" attribute instead'
        yield f"metadata.annotations[{CLASS_ANNOTATION}]: {detail}"
    yield from of_claim_spec(claim["spec"], "spec")


def cells(claim: Object, now: float) -> list[Any]:
    spec, status = part(claim, "spec"), part(claim, "status")
    bound = bool(spec.get("volumeName"))
    return [
        name_cell(claim),
        phase_of(claim),
        spec.get("volumeName") or "",
        str(part(status, "capacity").get("storage") or "0") if bound else "",
        access_modes(items(status, "accessModes")) if bound else "",
        class_of(claim),
        or_unset(spec, "volumeAttributesClassName"),
        age_cell(claim, now),
        or_unset(spec, "volumeMode"),
    ]


RESOURCE = ResourceDefinition(
    version="v1",
    plural="persistentvolumeclaims",
    kind="PersistentVolumeClaim",
    short_names=("pvc",),
    subresources=("status",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        set_defaults=set_defaults,
        prepare_for_create=prepare_for_create,
        reallocate=prepare_for_update,
        validate=validate,
        warn=warn,
        validate_update=validate_update,
        validate_status_update=validate_status_update,
        has_status=True,
        prepare_for_status_update=prepare_for_status_update,
        return_deleted_object=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Status"),
            Column("Volume"),
            Column("Capacity"),
            Column("Access Modes"),
            Column("StorageClass"),
            Column("VolumeAttributesClass"),
            AGE,
            wide("VolumeMode"),
        ),
        cells=cells,
    ),
)
