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
from kcm.runtime.apiserver.errors.field_errors import FieldError, duplicate, forbidden, invalid, required, too_many
from kcm.runtime.apiserver.kinds.scheduling.shared.pod_group_templates import (
    GROUP,
    MOST_CLAIMS,
    VERSION,
    drop_gated_fields,
    long_name_problems,
    name_problems,
    validate_claims,
    validate_scheduling_policy,
)
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import age_cell, items, name_cell, part
from kcm.runtime.apiserver.rules.conditions import validate_conditions
from kcm.runtime.apiserver.rules.names import dns_subdomain
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE


def set_defaults(group: Object) -> None:
    mode = group["spec"].get("disruptionMode")
    drop_gated_fields(group["spec"])
    group["spec"].setdefault("podGroupTemplateRef", None)  # upstream encodes it without omitempty
    group["spec"]["disruptionMode"] = "Pod" if mode is None else mode


def prepare_for_create(group: Object) -> None:
    """Set the default of disruptionMode again, which upstream drops, as its feature gate is off, and sets on read."""
    group["spec"]["disruptionMode"] = "Pod"
    group["status"] = {}


def validate(group: Object) -> list[FieldError]:
    spec = group["spec"]
    return [
        *_template_reference(spec.get("podGroupTemplateRef")),
        *validate_scheduling_policy(spec.get("schedulingPolicy") or {}, "spec.schedulingPolicy"),
        *validate_claims(spec.get("resourceClaims") or (), "spec.resourceClaims"),
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
    is_other_mode = new["spec"]["disruptionMode"] != old["spec"].get("disruptionMode")
    errors = [forbidden("spec.disruptionMode")] if is_other_mode else []
    return errors + [
        invalid(f"spec.{name}", None, IMMUTABLE)
        for name in ("podGroupTemplateRef", "schedulingPolicy", "resourceClaims")
        if (new["spec"].get(name) or None) != (old["spec"].get(name) or None)
    ]


def validate_status_update(new: Object, old: Object) -> list[FieldError]:
    status, at = part(new, "status"), "status.resourceClaimStatuses"
    errors = validate_conditions(status.get("conditions"), "status.conditions")
    named = {claim.get("name") for claim in items(old["spec"], "resourceClaims")}
    claims = items(status, "resourceClaimStatuses")
    for number, claim in enumerate(claims):
        name, claim_name = claim.get("name") or "", claim.get("resourceClaimName")
        if name not in named:
            detail = "must match the name of an entry in `spec.resourceClaims`"
            errors.append(invalid(f"{at}[{number}].name", name, detail))
        if claim_name is not None and len(claims) <= MOST_CLAIMS:
            errors += [
                invalid(f"{at}[{number}].resourceClaimName", claim_name, text)
                for text in long_name_problems(claim_name)
            ]
        if len(claims) <= MOST_CLAIMS and name in {claim.get("name") or "" for claim in claims[:number]}:
            errors.append(duplicate(f"{at}[{number}]", claim))
    if len(claims) > MOST_CLAIMS:
        errors.append(too_many(at, len(claims), MOST_CLAIMS))
    return errors


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
        prepare_for_create=prepare_for_create,
        validate=validate,
        validate_update=validate_update,
        update_is_judged_whole=True,
        allow_unconditional_update=True,
        has_status=True,
        status_update_keeps=("labels", "annotations", "finalizers", "ownerReferences"),
        validate_status_update=validate_status_update,
    ),
    printer=Printer(
        columns=(NAME, Column("Policy"), Column("Workload"), Column("Status"), AGE),
        cells=cells,
    ),
)
