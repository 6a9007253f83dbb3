"""ResourceQuotas (core/v1): validation and table columns.

Source: kubernetes pkg/registry/core/resourcequota/strategy.go, pkg/apis/core/validation/validation.go,
pkg/apis/core/helper/helpers.go, pkg/printers/internalversion/printers.go (printResourceQuota) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kcm.protocols.objects import Object
from kcm.protocols.quantities import parse_quantity
from kcm.protocols.quota import scopes
from kcm.protocols.quota.names import LIMITS
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, required
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import age_cell, name_cell, part
from kcm.runtime.apiserver.rules.names import dns_subdomain
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE
from kcm.runtime.apiserver.rules.resource_amounts import is_of_quotas, wrong_limits

_REQUESTED = ("cpu", "memory", "storage", "ephemeral-storage")

_POD_RESOURCES = frozenset({"pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"})
_RESOURCES_OF_SCOPE = {  # by scope: native resources that a quota with this scope can limit
    scopes.TERMINATING: _POD_RESOURCES,
    scopes.NOT_TERMINATING: _POD_RESOURCES,
    scopes.BEST_EFFORT: frozenset({"pods"}),
    scopes.NOT_BEST_EFFORT: _POD_RESOURCES,
    scopes.PRIORITY_CLASS: _POD_RESOURCES,
    scopes.CROSS_NAMESPACE_POD_AFFINITY: _POD_RESOURCES,
    scopes.VOLUME_ATTRIBUTES_CLASS: frozenset({"persistentvolumeclaims", "requests.storage"}),
}
_WITHOUT_VALUES = frozenset(_RESOURCES_OF_SCOPE) - {scopes.PRIORITY_CLASS, scopes.VOLUME_ATTRIBUTES_CLASS}
_CONFLICTING = ({scopes.BEST_EFFORT, scopes.NOT_BEST_EFFORT}, {scopes.TERMINATING, scopes.NOT_TERMINATING})


def validate(quota: Object) -> list[FieldError]:
    spec, field = quota.get("spec") or {}, "spec"
    return [
        *wrong_limits(spec.get("hard") or {}, f"{field}.hard"),
        *_wrong_scopes(spec, f"{field}.scopes"),
        *_wrong_selector(spec, f"{field}.scopeSelector.matchExpressions"),
    ]


def validate_update(new: Object, old: Object) -> list[FieldError]:
    now, before = ((quota.get("spec") or {}).get("scopes") or [] for quota in (new, old))
    return [invalid("spec.scopes", now or None, IMMUTABLE)] if set(now) != set(before) else []


def validate_status_update(new: Object, _old: Object) -> list[FieldError]:
    status = new.get("status") or {}
    return [error for part in ("hard", "used") for error in wrong_limits(status.get(part) or {}, f"status.{part}")]


def _wrong_scopes(spec: Object, field: str) -> Iterator[FieldError]:
    given = spec.get("scopes") or []
    for scope in given:
        if scope not in _RESOURCES_OF_SCOPE:
            yield invalid(field, given, "unsupported scope")
        for _ in _resources_outside_scope(spec, scope):
            yield invalid(field, given, "unsupported scope applied to resource")
    yield from _conflicting_scopes(given, spec, field)


def _wrong_selector(spec: Object, field: str) -> Iterator[FieldError]:
    selector = spec.get("scopeSelector")
    if selector is None:
        return
    requirements = selector.get("matchExpressions") or []
    for requirement in requirements:
        scope, operator, values = (
            requirement.get("scopeName") or "",
            requirement.get("operator") or "",
            requirement.get("values") or [],
        )
        if scope not in _RESOURCES_OF_SCOPE:
            yield invalid(f"{field}.scopeName", scope, "unsupported scope")
        for _ in _resources_outside_scope(spec, scope):
            yield invalid(field, _internal_selector(requirements), "unsupported scope applied to resource")
        if scope in _WITHOUT_VALUES and operator != scopes.EXISTS:
            yield invalid(
                f"{field}.operator",
                operator,
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
                "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
                "ResourceQuotaScopeCrossNamespacePodAffinity",
            )
        if operator in (scopes.IN, scopes.NOT_IN):
            if not values:
                text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                yield required(f"{field}.values", text)
        elif operator in (scopes.EXISTS, scopes.DOES_NOT_EXIST):
            if values:
                text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                yield invalid(f"{field}.values", values, text)
        else:
            yield invalid(f"{field}.operator", operator, "not a valid selector operator")
    yield from _conflicting_scopes([requirement.get("scopeName") or "" for requirement in requirements], spec, field)


def _resources_outside_scope(spec: Object, scope: str) -> Iterator[str]:
    """Yield the resources in spec.hard that a quota with this scope cannot limit."""
    if scope in _RESOURCES_OF_SCOPE:
        for name in spec.get("hard") or {}:
            if is_of_quotas(name) and name not in _RESOURCES_OF_SCOPE[scope]:
                yield name


def _conflicting_scopes(given: Iterable[str], spec: Object, field: str) -> Iterator[FieldError]:
    for pair in _CONFLICTING:
        if pair.issubset(given):
            yield invalid(field, spec.get("scopes"), "conflicting scopes")


def _internal_selector(requirements: Iterable[Object]) -> Object:
    """Return scope selector requirements as upstream's error texts show them, with Go field names."""
    names = {"ScopeName": "scopeName", "Operator": "operator", "Values": "values"}
    return {
        "MatchExpressions": [
            {shown: requirement.get(name) for shown, name in names.items()} for requirement in requirements
        ]
    }


def warn(quota: Object, old: Object | None) -> Iterator[str]:
    """Yield a warning for each resource of a new quota whose limit is below its request."""
    hard = quota["spec"].get("hard") or {}
    if old is not None:
        return
    for name in _REQUESTED:
        request, limit = f"requests.{name}", f"limits.{name}"
        if request not in hard and name in ("cpu", "memory"):
            request = name
        if request in hard and limit in hard and parse_quantity(hard[request]) > parse_quantity(hard[limit]):
            yield f"ResourceQuota {request} ({hard[request]}) should be less than {limit} ({hard[limit]})"


def cells(quota: Object, now: float) -> list[Any]:
    status = part(quota, "status")
    hard, used = part(status, "hard"), part(status, "used")
    columns: tuple[list[str], list[str]] = ([], [])
    for resource in sorted(hard):
        columns[resource.startswith(LIMITS)].append(f"{resource}: {used.get(resource, '0')}/{hard[resource]}")
    return [name_cell(quota), ", ".join(columns[0]), ", ".join(columns[1]), age_cell(quota, now)]


RESOURCE = ResourceDefinition(
    version="v1",
    plural="resourcequotas",
    kind="ResourceQuota",
    short_names=("quota",),
    subresources=("status",),
    strategy=Strategy(
        warn=warn,
        validate_name=dns_subdomain,
        validate=validate,
        validate_update=validate_update,
        has_status=True,
        validate_status_update=validate_status_update,
        return_deleted_object=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Request"),
            Column("Limit"),
            AGE,
        ),
        cells=cells,
    ),
)
