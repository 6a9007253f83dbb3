"""PodGroups (scheduling.k8s.io/v1alpha2), groups of pods that are scheduled together: validation and table columns.

Upstream serves them if the feature gate GenericWorkload is on.

Source: kubernetes pkg/registry/scheduling/podgroup/strategy.go,
pkg/apis/scheduling/v1alpha2/zz_generated.validations.go,
pkg/printers/internalversion/printers.go (printPodGroup) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, required
from kcm.runtime.apiserver.kinds.scheduling.shared.pod_group_templates import (
    GROUP,
    VERSION,
    drop_gated_fields,
    name_problems,
    validate_scheduling_policy,
)
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import age_cell, items, name_cell, part
from kcm.runtime.apiserver.rules.names import dns_subdomain
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE


def set_defaults(group: Object) -> None:
    drop_gated_fields(group["spec"])
    group["spec"]["disruptionMode"] = "Pod"


def validate(group: Object) -> list[FieldError]:
    spec = group["spec"]
    return [
        *_template_reference(spec.get("podGroupTemplateRef")),
        *validate_scheduling_policy(spec.get("schedulingPolicy") or {}, "spec.schedulingPolicy"),
    ]


def _template_reference(reference: Object | None) -> Iterator[FieldError]:
    if reference is None:
        return
    path, workload = "spec.podGroupTemplateRef", reference.get("workload")
    if workload is None:
        yield invalid(path, "", "must specify one of: `workload`")
        return
    for name, rule in (("workloadName", dns_subdomain), ("podGroupTemplateName", name_problems)):
        value = workload.get(name) or ""
        if not value:
            yield required(f"{path}.workload.{name}", "")
        else:
            yield from (invalid(f"{path}.workload.{name}", value, text) for text in rule(value))


def validate_update(new: Object, old: Object) -> list[FieldError]:
    return [
        invalid(f"spec.{name}", None, IMMUTABLE)
        for name in ("podGroupTemplateRef", "schedulingPolicy")
        if new["spec"].get(name) != old["spec"].get(name)
    ]


def cells(group: Object, now: float) -> list[Any]:
    spec, state = part(group, "spec"), "Pending"
    conditions = items(part(group, "status"), "conditions")
    scheduled, disrupted = (
        find_condition(conditions, "PodGroupScheduled"),
        find_condition(conditions, "DisruptionTarget"),
    )
    if scheduled is not None:
        state = "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"
    if disrupted is not None:
        state = disrupted.get("reason") or ""
    policy = "Gang" if part(spec, "schedulingPolicy").get("gang") is not None else "Basic"
    workload = part(part(spec, "podGroupTemplateRef"), "workload").get("workloadName") or "<none>"
    return [name_cell(group), policy, workload, state, age_cell(group, now)]


RESOURCE = ResourceDefinition(
    group=GROUP,
    version=VERSION,
    plural="podgroups",
    kind="PodGroup",
    subresources=("status",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        set_defaults=set_defaults,
        validate=validate,
        validate_update=validate_update,
        update_is_judged_whole=True,
        allow_unconditional_update=True,
        has_status=True,
    ),
    printer=Printer(
        columns=(NAME, Column("Policy"), Column("Workload"), Column("Status"), AGE),
        cells=cells,
    ),
)
