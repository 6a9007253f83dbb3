"""PodTemplates (core/v1): defaults, validation and table columns.

Source: kubernetes pkg/registry/core/podtemplate/strategy.go, pkg/printers/internalversion/printers.go
(printPodTemplate) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError
from kcm.runtime.apiserver.kinds.pod_spec.defaults import default_pod_template
from kcm.runtime.apiserver.kinds.pod_spec.validation import validate_pod_template
from kcm.runtime.apiserver.kinds.pod_spec.warnings import warnings_of_template
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import container_cells, label_cell, name_cell, part
from kcm.runtime.apiserver.rules.names import dns_subdomain


def set_defaults(template: Object) -> None:
    default_pod_template(template.setdefault("template", {}))


def validate(template: Object) -> list[FieldError]:
    return validate_pod_template(template["template"], "template")


def warn(new: Object, old: Object | None) -> Iterable[str]:
    is_other = old is None or new["template"] != old["template"]
    return warnings_of_template(new["template"], "template") if is_other else ()


def cells(template: Object, now: float) -> list[Any]:  # noqa: ARG001
    inner = part(template, "template")
    return [name_cell(template), *container_cells(part(inner, "spec")), label_cell(part(inner, "metadata", "labels"))]


RESOURCE = ResourceDefinition(
    version="v1",
    plural="podtemplates",
    kind="PodTemplate",
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
        set_defaults=set_defaults,
        validate=validate,
        warn=warn,
        return_deleted_object=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Containers"),
            Column("Images"),
            Column("Pod Labels"),
        ),
        cells=cells,
    ),
)
