"""RuntimeClasses (node.k8s.io/v1): validation and table columns.

Source: kubernetes pkg/registry/node/runtimeclass/strategy.go, pkg/printers/internalversion/printers.go
(printRuntimeClass) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kcm.protocols.objects import Object
from kcm.protocols.quantities import parse_quantity
from kcm.runtime.apiserver.errors.field_errors import FieldError, duplicate, invalid, required
from kcm.runtime.apiserver.kinds.pod_spec.validation import validate_toleration
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import age_cell, name_cell, part
from kcm.runtime.apiserver.rules.names import dns_label, dns_subdomain
from kcm.runtime.apiserver.rules.numbers import NOT_NEGATIVE
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE, validate_labels
from kcm.runtime.apiserver.rules.resource_amounts import wrong_container_name
from kcm.runtime.apiserver.rules.warnings import NODE_LABELS


def validate(runtime_class: Object) -> list[FieldError]:
    handler, scheduling = runtime_class.get("handler") or "", runtime_class.get("scheduling") or {}
    errors = [invalid("handler", handler, text) for text in dns_label(handler)] if handler else [required("handler")]
    for name, amount in part(runtime_class, "overhead", "podFixed").items():
        at = f"overhead.limits[{name}]"
        errors += wrong_container_name(name, at)
        if parse_quantity(amount) < 0:
            errors.append(invalid(at, amount, NOT_NEGATIVE))
    errors += validate_labels(scheduling.get("nodeSelector") or {}, "scheduling.nodeSelector")
    seen: set[tuple[tuple[str, Any], ...]] = set()
    for i, toleration in enumerate(scheduling.get("tolerations") or ()):
        at = f"scheduling.tolerations[{i}]"
        validate_toleration(toleration, at, errors)
        same = tuple(sorted(toleration.items()))
        if same in seen:
            fields = {name: name[0].lower() + name[1:] for name in ("Key", "Operator", "Value", "Effect")}
            shown = {name: toleration.get(field) or "" for name, field in fields.items()}
            shown["TolerationSeconds"] = toleration.get("tolerationSeconds")
            errors.append(duplicate(at, shown))
        seen.add(same)
    return errors


def validate_update(new: Object, old: Object) -> list[FieldError]:
    same = new.get("handler") == old.get("handler")
    return [] if same else [invalid("handler", new.get("handler") or "", IMMUTABLE)]


def warn(class_: Object, _old: Object | None) -> Iterator[str]:
    for label in (class_.get("scheduling") or {}).get("nodeSelector") or ():
        if label in NODE_LABELS:
            yield f"scheduling.nodeSelector: {NODE_LABELS[label]}"


def cells(runtime_class: Object, now: float) -> list[Any]:
    return [name_cell(runtime_class), runtime_class.get("handler") or "", age_cell(runtime_class, now)]


RESOURCE = ResourceDefinition(
    group="node.k8s.io",
    version="v1",
    plural="runtimeclasses",
    kind="RuntimeClass",
    namespaced=False,
    strategy=Strategy(
        warn=warn,
        validate=validate,
        validate_update=validate_update,
        validate_name=dns_subdomain,
        allow_create_on_update=True,
        allow_unconditional_update=False,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Handler"),
            AGE,
        ),
        cells=cells,
    ),
)
