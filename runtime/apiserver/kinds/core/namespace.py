"""Namespaces (core/v1): defaults, validation and table columns.

Source: kubernetes pkg/registry/core/namespace/strategy.go, pkg/apis/core/v1/defaults.go,
pkg/printers/internalversion/printers.go (printNamespace) (v1.36).
"""

from __future__ import annotations

from typing import Any

from kcm.protocols.objects import Object, is_deleting
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid
from kcm.runtime.apiserver.registry.definitions import VERBS, ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import age_cell, name_cell, part
from kcm.runtime.apiserver.rules.names import dns_label, label_key
from kcm.runtime.apiserver.rules.object_meta import wrong_finalizers
from kcm.runtime.apiserver.rules.selectable_fields import FIELD_LABEL_NOT_SUPPORTED, fields_at

KUBERNETES_FINALIZER = "kubernetes"
NAME_LABEL = "kubernetes.io/metadata.name"


def _label_with_name(namespace: Object) -> None:
    meta = namespace["metadata"]
    if meta.get("name"):
        meta.setdefault("labels", {})[NAME_LABEL] = meta["name"]


def set_defaults(namespace: Object) -> None:
    _label_with_name(namespace)
    namespace.setdefault("spec", {})


def prepare_for_create(namespace: Object) -> None:
    """Set the finalizer "kubernetes", the phase Active and the label kubernetes.io/metadata.name.

    The namespace controller removes the finalizer from a terminating namespace once it is empty.
    """
    _label_with_name(namespace)  # generateName is applied after set_defaults
    finalizers = namespace["spec"].setdefault("finalizers", [])
    if KUBERNETES_FINALIZER not in finalizers:
        finalizers.append(KUBERNETES_FINALIZER)
    namespace["status"] = {"phase": "Active"}


def validate(namespace: Object) -> list[FieldError]:
    finalizers, field = namespace["spec"].get("finalizers") or [], "spec.finalizers"
    errors = [invalid(field, finalizer, text) for finalizer in finalizers for text in label_key(finalizer)]
    return errors + wrong_finalizers(finalizers, field, numbered=False)


def prepare_for_status_update(new: Object, _old: Object) -> None:
    for condition in (new.get("status") or {}).get("conditions") or ():
        condition.setdefault("lastTransitionTime", None)  # upstream always encodes this field


def validate_status_update(new: Object, _old: Object) -> list[FieldError]:
    phase = (new.get("status") or {}).get("phase") or ""
    if is_deleting(new):
        expected, when = "Terminating", "is not empty"
    else:
        expected, when = "Active", "is empty"
    detail = f"may only be '{expected}' if `deletionTimestamp` {when}"
    return [] if phase == expected else [invalid("status.Phase", phase, detail)]


def held(namespace: Object) -> bool:
    return bool((namespace.get("spec") or {}).get("finalizers"))


def terminate(namespace: Object) -> None:
    namespace.setdefault("status", {})["phase"] = "Terminating"


def cells(namespace: Object, now: float) -> list[Any]:
    return [name_cell(namespace), part(namespace, "status").get("phase") or "", age_cell(namespace, now)]


RESOURCE = ResourceDefinition(
    version="v1",
    plural="namespaces",
    kind="Namespace",
    short_names=("ns",),
    namespaced=False,
    verbs=tuple(verb for verb in VERBS if verb != "deletecollection"),
    subresources=("status", "finalize"),
    strategy=Strategy(
        validate_name=dns_label,
        set_defaults=set_defaults,
        prepare_for_create=prepare_for_create,
        validate=validate,
        prepare_for_status_update=prepare_for_status_update,
        validate_status_update=validate_status_update,
        update_keeps=("finalizers",),
        has_status=True,
        held=held,
        terminate=terminate,
        return_deleted_object=True,
        selectable_fields=fields_at("status.phase"),
        unsupported_field=FIELD_LABEL_NOT_SUPPORTED,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Status"),
            AGE,
        ),
        cells=cells,
    ),
)
