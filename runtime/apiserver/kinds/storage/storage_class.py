"""StorageClasses (storage.k8s.io/v1): defaults, validation and table columns.

Source: kubernetes pkg/registry/storage/storageclass/strategy.go, pkg/apis/storage/v1/defaults.go,
pkg/printers/internalversion/printers.go (printStorageClass) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kcm.protocols.objects import Object, annotations_of
from kcm.runtime.apiserver.errors.field_errors import FieldError, duplicate, invalid, not_supported, required
from kcm.runtime.apiserver.kinds.storage.shared.parameters import wrong_parameters
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import age_cell, name_cell
from kcm.runtime.apiserver.rules.names import dns_subdomain, label_key
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE
from kcm.runtime.apiserver.rules.warnings import NODE_LABELS

_DEFAULT_CLASS_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def set_defaults(storage_class: Object) -> None:
    storage_class.setdefault("reclaimPolicy", "Delete")
    storage_class.setdefault("volumeBindingMode", "Immediate")


_POLICIES, _MODES = ("Delete", "Retain"), ("Immediate", "WaitForFirstConsumer")


def validate(storage_class: Object) -> list[FieldError]:
    provisioner, policy = storage_class.get("provisioner") or "", storage_class["reclaimPolicy"]
    errors = list(wrong_parameters(storage_class.get("parameters"), "parameters", allow_none=True))
    if not provisioner:
        errors.insert(0, required("provisioner"))
    else:
        errors[:0] = [invalid("provisioner", provisioner.lower(), text) for text in label_key(provisioner.lower())]
    if policy not in _POLICIES:
        errors.append(not_supported("reclaimPolicy", policy, _POLICIES))
    mode = storage_class["volumeBindingMode"]
    if mode not in _MODES:
        errors.append(not_supported("volumeBindingMode", mode, _MODES))
    return [*errors, *_wrong_topologies(storage_class.get("allowedTopologies") or ())]


def _wrong_topologies(topologies: Sequence[Object]) -> Iterator[FieldError]:
    seen: list[dict[str, set[str]]] = []
    for i, term in enumerate(topologies):
        at, keys = f"allowedTopologies[{i}].matchLabelExpressions", {}
        expressions = term.get("matchLabelExpressions") or ()
        for j, expression in enumerate(expressions):
            key, values = expression.get("key") or "", expression.get("values") or []
            if not values:
                yield required(f"{at}[{j}].values")
            found: set[str] = set()
            for k, value in enumerate(values):
                if value in found:
                    yield duplicate(f"{at}[{j}].values[{k}]", value)
                found.add(value)
            for text in label_key(key):
                yield invalid(f"{at}[{j}].key", key, text)
            if key in keys:
                yield duplicate(f"{at}[{j}].key", key)
            keys[key] = found
        if keys in seen or not keys:
            yield duplicate(at, "")
        seen.append(keys)


def validate_update(new: Object, old: Object) -> list[FieldError]:
    fields = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
    return [
        invalid(field, new.get(field), IMMUTABLE)
        for field in fields
        if (new.get(field) or None) != (old.get(field) or None)
    ]


def warn(class_: Object, _old: Object | None) -> Iterator[str]:
    for i, term in enumerate(class_.get("allowedTopologies") or ()):
        for j, expression in enumerate(term.get("matchLabelExpressions") or ()):
            if text := NODE_LABELS.get(expression.get("key") or ""):
                yield f"allowedTopologies[{i}].matchLabelExpressions[{j}].key: {text}"


def cells(storage_class: Object, now: float) -> list[Any]:
    annotations = annotations_of(storage_class)
    is_default = any(annotations.get(name) == "true" for name in _DEFAULT_CLASS_ANNOTATIONS)
    return [
        name_cell(storage_class) + (" (default)" if is_default else ""),
        storage_class.get("provisioner") or "",
        storage_class.get("reclaimPolicy") or "Delete",
        storage_class.get("volumeBindingMode") or "Immediate",
        bool(storage_class.get("allowVolumeExpansion")),
        age_cell(storage_class, now),
    ]


RESOURCE = ResourceDefinition(
    group="storage.k8s.io",
    version="v1",
    plural="storageclasses",
    kind="StorageClass",
    short_names=("sc",),
    namespaced=False,
    strategy=Strategy(
        warn=warn,
        validate=validate,
        validate_update=validate_update,
        validate_name=dns_subdomain,
        set_defaults=set_defaults,
        return_deleted_object=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Provisioner"),
            Column("ReclaimPolicy"),
            Column("VolumeBindingMode"),
            Column("AllowVolumeExpansion"),
            AGE,
        ),
        cells=cells,
    ),
)
