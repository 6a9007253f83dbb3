"""Workloads (scheduling.k8s.io/v1alpha2), which define how the pods of a Job are scheduled together.

Upstream serves them if the feature gate GenericWorkload is on.

Source: kubernetes pkg/registry/scheduling/workload/strategy.go,
pkg/apis/scheduling/v1alpha2/zz_generated.validations.go,
pkg/printers/internalversion/printers.go (printWorkload) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, duplicate, invalid, required, too_many
from kcm.runtime.apiserver.kinds.scheduling.shared.pod_group_templates import (
    GROUP,
    VERSION,
    drop_gated_fields,
    name_problems,
    validate_claims,
    validate_scheduling_policy,
)
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import age_cell, name_cell
from kcm.runtime.apiserver.rules.names import dns_subdomain, path_segment
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE

MOST_TEMPLATES = 8


def set_defaults(workload: Object) -> None:
    for template in workload["spec"].get("podGroupTemplates") or ():
        drop_gated_fields(template)
        template["schedulingConstraints"] = None  # upstream encodes it without omitempty


def validate(workload: Object) -> list[FieldError]:
    spec = workload["spec"]
    return [*_controller(spec.get("controllerRef")), *_templates(spec.get("podGroupTemplates") or [])]


def _controller(reference: Object | None) -> Iterator[FieldError]:
    if reference is None:
        return
    path = "spec.controllerRef"
    group = reference.get("apiGroup") or ""
    if group:
        yield from (invalid(f"{path}.apiGroup", group, text) for text in dns_subdomain(group))
    for name in ("kind", "name"):
        value = reference.get(name) or ""
        if not value:
            yield required(f"{path}.{name}", "")
        else:
            yield from (invalid(f"{path}.{name}", value, text) for text in path_segment(value))


def _templates(templates: list[Object]) -> Iterator[FieldError]:
    path = "spec.podGroupTemplates"
    if len(templates) > MOST_TEMPLATES:
        yield too_many(path, len(templates), MOST_TEMPLATES)
        return
    if not templates:
        yield required(path, "")
        return
    seen: set[str] = set()
    for number, template in enumerate(templates):
        name = template.get("name") or ""
        if name in seen:
            yield duplicate(f"{path}[{number}]", template)
        seen.add(name)
        if not name:
            yield required(f"{path}[{number}].name", "")
        else:
            yield from (invalid(f"{path}[{number}].name", name, text) for text in name_problems(name))
        policy = template.get("schedulingPolicy") or {}
        yield from validate_scheduling_policy(policy, f"{path}[{number}].schedulingPolicy")
        yield from validate_claims(template.get("resourceClaims") or (), f"{path}[{number}].resourceClaims")


def validate_update(new: Object, old: Object) -> list[FieldError]:
    errors = [
        invalid(f"spec.{name}", None, IMMUTABLE)
        for name in ("controllerRef", "podGroupTemplates")
        if (new["spec"].get(name) or None) != (old["spec"].get(name) or None)
    ]
    templates = new["spec"].get("podGroupTemplates") or []
    if not templates:
        errors.append(required("spec.podGroupTemplates", ""))
    elif len(templates) > MOST_TEMPLATES:
        errors.append(too_many("spec.podGroupTemplates", len(templates), MOST_TEMPLATES))
    return errors


def cells(workload: Object, now: float) -> list[Any]:
    return [name_cell(workload), age_cell(workload, now)]


RESOURCE = ResourceDefinition(
    group=GROUP,
    version=VERSION,
    plural="workloads",
    kind="Workload",
    strategy=Strategy(
        validate_name=dns_subdomain,
        set_defaults=set_defaults,
        validate=validate,
        validate_update=validate_update,
        update_is_judged_whole=True,
        allow_unconditional_update=True,
    ),
    printer=Printer(columns=(NAME, AGE), cells=cells),
)
