"""MutatingAdmissionPolicies (admissionregistration.k8s.io/v1): defaults, validation, authorization and table columns.

Source: kubernetes pkg/registry/admissionregistration/mutatingadmissionpolicy/strategy.go,
pkg/apis/admissionregistration/validation/validation.go, v1/defaults.go,
pkg/printers/internalversion/printers.go (printMutatingAdmissionPolicy) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, not_supported, required
from kcm.runtime.apiserver.kinds.admissionregistration.shared.cells import policy_cells
from kcm.runtime.apiserver.kinds.admissionregistration.shared.expressions import (
    expression_errors,
    match_conditions_errors,
    variables_errors,
)
from kcm.runtime.apiserver.kinds.admissionregistration.shared.param_access import permit_kind
from kcm.runtime.apiserver.kinds.admissionregistration.shared.rules import (
    constraints_errors,
    has_other_conditions,
    mutating_operations_errors,
    set_policy_defaults,
)
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer, number
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.names import dns_subdomain

if TYPE_CHECKING:
    from kcm.runtime.cel.types import Type

REINVOCATION = ("IfNeeded", "Never")
PARTS = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}  # patchType of a mutation → its field


def validate(policy: Object) -> list[FieldError]:
    return [*_errors(policy, check_conditions=True)]


def validate_update(new: Object, old: Object) -> list[FieldError]:
    """Validate an update of a policy. Match conditions are checked only if they or the paramKind change."""
    return [*_errors(new, check_conditions=has_other_conditions(new, old))]


def _errors(policy: Object, *, check_conditions: bool) -> Iterator[FieldError]:
    spec = policy["spec"]
    params = spec.get("paramKind") is not None
    yield from constraints_errors(spec)
    yield from mutating_operations_errors(spec.get("matchConstraints"), "spec.matchConstraints")
    if check_conditions:
        yield from match_conditions_errors(spec.get("matchConditions") or [], "spec.matchConditions", params=params)
    types: dict[str, Type] = {}
    yield from variables_errors(spec.get("variables") or [], params=params, types=types)
    mutations = spec.get("mutations") or []
    if not mutations:
        yield required("spec.mutations", "mutations must contain at least one item")
    for place, mutation in enumerate(mutations):
        yield from _mutation_errors(mutation, f"spec.mutations[{place}]", params=params, variables=types)
    policy_of_calls = spec.get("reinvocationPolicy")
    if not policy_of_calls:
        yield required("spec.reinvocationPolicy")
    elif policy_of_calls not in REINVOCATION:
        yield not_supported("spec.reinvocationPolicy", policy_of_calls, REINVOCATION)


def _mutation_errors(
    mutation: Mapping[str, Any], at: str, *, params: bool, variables: dict[str, Type]
) -> Iterator[FieldError]:
    from kcm.runtime.cel.admission import CONFIGURATION, PATCHES, admission_environment

    kind = mutation.get("patchType") or ""
    if not kind:
        yield required(f"{at}.patchType")
        return
    part = PARTS.get(kind)
    if part is None:
        yield not_supported(f"{at}.patchType", kind, PARTS)
        return
    if mutation.get(part) is None:
        yield required(f"{at}.{part}", f"must be specified when patchType is {kind}")
    else:
        text = (mutation[part].get("expression") or "").strip()
        environment = admission_environment(params=params, authorizer=True, mutates=True, variables=variables)
        wanted = PATCHES if part == "jsonPatch" else CONFIGURATION
        if not text:
            yield required(f"{at}.{part}.expression")
        else:
            yield from expression_errors(text, environment, wanted, f"{at}.{part}.expression")
    for other in PARTS.values():
        if other != part and mutation.get(other) is not None:
            yield invalid(f"{at}.{other}", f"{{{other}}}", f"must not be specified when patchType is {kind}")


RESOURCE = ResourceDefinition(
    group="admissionregistration.k8s.io",
    version="v1",
    plural="mutatingadmissionpolicies",
    kind="MutatingAdmissionPolicy",
    categories=("api-extensions",),
    namespaced=False,
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
        set_defaults=set_policy_defaults,
        permit=permit_kind,
        validate_create=validate,
        allow_unconditional_update=False,
        validate_update=validate_update,
    ),
    printer=Printer(
        columns=(
            NAME,
            number("Mutations"),
            Column("ParamKind"),
            AGE,
        ),
        cells=policy_cells,
    ),
)
