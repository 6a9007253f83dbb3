"""ValidatingAdmissionPolicies (admissionregistration.k8s.io/v1): defaults, validation, authorization and table columns.

Source: kubernetes pkg/registry/admissionregistration/validatingadmissionpolicy/strategy.go,
pkg/apis/admissionregistration/validation/validation.go, v1/defaults.go,
pkg/printers/internalversion/printers.go (printValidatingAdmissionPolicy) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.apiextensions.json_path import JsonPath, JsonPathError
from kcm.runtime.apiserver.errors.field_errors import FieldError, duplicate, invalid, not_supported, required
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
    set_policy_defaults,
)
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer, number
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.conditions import validate_conditions
from kcm.runtime.apiserver.rules.names import dns_subdomain, label_key
from kcm.runtime.apiserver.schema.inner_forms import inner_form

if TYPE_CHECKING:
    from kcm.runtime.cel.types import Type

REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
MOST_ANNOTATIONS, LONGEST_ANNOTATION = 20, 5 * 1024
NOTHING_TO_DO = "validations or auditAnnotations must contain at least one item"


def validate(policy: Object) -> list[FieldError]:
    return [*_errors(policy, check_conditions=True)]


def validate_update(new: Object, old: Object) -> list[FieldError]:
    """Validate an update of a policy. Match conditions are checked only if they or the paramKind change."""
    return [*_errors(new, check_conditions=has_other_conditions(new, old))]


def _errors(policy: Object, *, check_conditions: bool) -> Iterator[FieldError]:
    spec = policy["spec"]
    params = spec.get("paramKind") is not None
    yield from constraints_errors(spec)
    if check_conditions:
        yield from match_conditions_errors(spec.get("matchConditions") or [], "spec.matchConditions", params=params)
    variables = spec.get("variables") or []
    types: dict[str, Type] = {}
    yield from variables_errors(variables, params=params, types=types)
    validations, annotations = spec.get("validations") or [], spec.get("auditAnnotations") or []
    if not validations and not annotations:
        yield required("spec.validations", NOTHING_TO_DO)
        yield required("spec.auditAnnotations", NOTHING_TO_DO)
    known = types if variables else None
    for place, validation in enumerate(validations):
        yield from _validation_errors(validation, f"spec.validations[{place}]", params=params, variables=known)
    if len(annotations) > MOST_ANNOTATIONS:
        detail = f"must not have more than {MOST_ANNOTATIONS} auditAnnotations"
        shown = inner_form(annotations, "[]admissionregistration.AuditAnnotation")
        yield invalid("spec.auditAnnotations", shown, detail)
    keys: list[str] = []
    for place, annotation in enumerate(annotations):
        at, key = f"spec.auditAnnotations[{place}]", annotation.get("key") or ""
        name = policy["metadata"].get("name") or ""
        yield from _annotation_errors(annotation, at, name, params=params, variables=known)
        if key in keys:
            yield duplicate(f"{at}.key", key)
        keys.append(key)


def _validation_errors(
    validation: Mapping[str, Any], at: str, *, params: bool, variables: dict[str, Type] | None
) -> Iterator[FieldError]:
    from kcm.runtime.cel.admission import BOOLEAN, TEXT, admission_environment

    text, message = validation.get("expression") or "", validation.get("message") or ""
    message_expression = validation.get("messageExpression") or ""
    if not text.strip():
        yield required(f"{at}.expression", "expression is not specified")
    else:
        environment = admission_environment(params=params, authorizer=True, variables=variables)
        yield from expression_errors(text, environment, BOOLEAN, f"{at}.expression")
    if message_expression and not message_expression.strip():
        yield invalid(f"{at}.messageExpression", message_expression, "must be non-empty if specified")
    elif message_expression:
        environment = admission_environment(params=params, authorizer=False, variables=variables)
        yield from expression_errors(message_expression, environment, TEXT, f"{at}.messageExpression")
    if message and not message.strip():
        yield invalid(f"{at}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip():
        yield invalid(f"{at}.message", message, "must not contain line breaks")
    reason = validation.get("reason")
    if reason is not None and reason not in REASONS:
        yield not_supported(f"{at}.reason", reason, REASONS)


def _annotation_errors(
    annotation: Mapping[str, Any], at: str, name: str, *, params: bool, variables: dict[str, Type] | None
) -> Iterator[FieldError]:
    from kcm.runtime.cel.admission import TEXT_OR_NULL, admission_environment

    key, written = annotation.get("key") or "", annotation.get("valueExpression") or ""
    if name:
        yield from (invalid(f"{at}.key", f"{name}/{key}", text) for text in label_key(f"{name}/{key}"))
    else:
        yield invalid(f"{at}.key", key, "requires metadata.name be non-empty")
    text = written.strip()
    if not text:
        yield required(f"{at}.valueExpression", "valueExpression is not specified")
    elif len(text.encode()) > LONGEST_ANNOTATION:
        yield required(f"{at}.valueExpression", f"must not exceed {LONGEST_ANNOTATION} bytes in length")
    else:
        environment = admission_environment(params=params, authorizer=True, variables=variables)
        yield from expression_errors(text, environment, TEXT_OR_NULL, f"{at}.valueExpression", written)


def validate_status_update(new: Object, _old: Object) -> list[FieldError]:
    status = new.get("status") or {}
    errors = []
    for place, warning in enumerate((status.get("typeChecking") or {}).get("expressionWarnings") or ()):
        at = f"status.typeChecking.expressionWarnings[{place}]"
        if not warning.get("warning"):
            errors.append(required(f"{at}.warning"))
        errors += _wrong_path((warning.get("fieldRef") or "").strip(), f"{at}.fieldRef")
    return errors + validate_conditions(status.get("conditions"), "status.conditions")


def _wrong_path(path: str, field: str) -> Iterator[FieldError]:
    if not path:
        yield required(field)
        return
    try:
        JsonPath(path if path.startswith((".", "[")) else f".{path}")
    except JsonPathError as err:
        yield invalid(field, path, f"invalid JSONPath: {err}")


RESOURCE = ResourceDefinition(
    group="admissionregistration.k8s.io",
    version="v1",
    plural="validatingadmissionpolicies",
    kind="ValidatingAdmissionPolicy",
    categories=("api-extensions",),
    namespaced=False,
    subresources=("status",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
        set_defaults=set_policy_defaults,
        permit=permit_kind,
        validate_create=validate,
        allow_unconditional_update=False,
        validate_update=validate_update,
        has_status=True,
        validate_status_update=validate_status_update,
    ),
    printer=Printer(
        columns=(
            NAME,
            number("Validations"),
            Column("ParamKind"),
            AGE,
        ),
        cells=policy_cells,
    ),
)
