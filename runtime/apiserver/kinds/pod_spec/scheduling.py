"""Validation of affinity, topology spread constraints, scheduling gates and node selectors.

Source: kubernetes pkg/apis/core/validation/validation.go, validateAffinity, validateTopologySpreadConstraints,
ValidateNodeSelector (v1.36).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kcm.runtime.apiserver.errors.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kcm.runtime.apiserver.rules.names import dns_label, dns_subdomain, label_key
from kcm.runtime.apiserver.rules.selectors import validate_selector

REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")

Part = Mapping[str, Any]


def wrong_affinity(affinity: Part, field: str) -> Iterator[FieldError]:
    if affinity.get("nodeAffinity") is not None:
        yield from _node_affinity(affinity["nodeAffinity"], f"{field}.nodeAffinity")
    for name in ("podAffinity", "podAntiAffinity"):
        if affinity.get(name) is not None:
            yield from _pod_affinity(affinity[name], f"{field}.{name}")


def _node_affinity(affinity: Part, field: str) -> Iterator[FieldError]:
    if affinity.get(REQUIRED) is not None:
        yield from wrong_node_selector(affinity[REQUIRED], f"{field}.{REQUIRED}")
    for i, preference in enumerate(affinity.get(PREFERRED) or ()):
        at = f"{field}.{PREFERRED}[{i}]"
        yield from _weight(preference, at)
        yield from _node_term(preference.get("preference") or {}, f"{at}.preference")


def wrong_node_selector(selector: Part, field: str) -> Iterator[FieldError]:
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        yield required(f"{field}.nodeSelectorTerms", "must have at least one node selector term")
    for i, term in enumerate(terms):
        yield from _node_term(term, f"{field}.nodeSelectorTerms[{i}]")


def _node_term(term: Part, field: str) -> Iterator[FieldError]:
    for i, requirement in enumerate(term.get("matchExpressions") or ()):
        yield from _node_requirement(requirement, f"{field}.matchExpressions[{i}]")
    for i, requirement in enumerate(term.get("matchFields") or ()):
        yield from _field_requirement(requirement, f"{field}.matchFields[{i}]")


def _node_requirement(requirement: Part, field: str) -> Iterator[FieldError]:
    operator, values = requirement.get("operator") or "", requirement.get("values") or []
    match operator:
        case "In" | "NotIn":
            if not values:
                yield required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist":
            if values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield forbidden(f"{field}.values", detail)
        case "Gt" | "Lt":
            if len(values) != 1:
                yield required(f"{field}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        case _:
            yield invalid(f"{field}.operator", operator, "not a valid selector operator")
    key = requirement.get("key") or ""
    for text in label_key(key):
        yield invalid(f"{field}.key", key, text)


def _field_requirement(requirement: Part, field: str) -> Iterator[FieldError]:
    key, operator, values = (
        requirement.get("key") or "",
        requirement.get("operator") or "",
        requirement.get("values") or [],
    )
    if operator in ("In", "NotIn"):
        if len(values) != 1:
            detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            yield required(f"{field}.values", detail)
    else:
        yield invalid(f"{field}.operator", operator, "not a valid selector operator")
    if key != "metadata.name":
        yield invalid(f"{field}.key", key, "not a valid field selector key")
        return
    for i, value in enumerate(values):
        for text in dns_subdomain(value):
            yield invalid(f"{field}.values[{i}]", value, text)


def _weight(preference: Part, field: str) -> Iterator[FieldError]:
    weight = preference.get("weight") or 0
    if not 1 <= weight <= 100:
        yield invalid(f"{field}.weight", weight, "must be in the range 1-100")


def _pod_affinity(affinity: Part, field: str) -> Iterator[FieldError]:
    for i, term in enumerate(affinity.get(REQUIRED) or ()):
        yield from _pod_term(term, f"{field}.{REQUIRED}[{i}]")
    for i, preference in enumerate(affinity.get(PREFERRED) or ()):
        at = f"{field}.{PREFERRED}[{i}]"
        yield from _weight(preference, at)
        yield from _pod_term(preference.get("podAffinityTerm") or {}, f"{at}.podAffinityTerm")


def _pod_term(term: Part, field: str) -> Iterator[FieldError]:
    for name in ("labelSelector", "namespaceSelector"):
        if term.get(name) is not None:
            yield from validate_selector(term[name], f"{field}.{name}")
    for namespace in term.get("namespaces") or ():
        for text in dns_label(namespace):
            yield invalid(f"{field}.namespace", namespace, text)
    yield from _label_keys(term, field)
    key = term.get("topologyKey") or ""
    if not key:
        yield required(f"{field}.topologyKey", "can not be empty")
    for text in label_key(key):
        yield invalid(f"{field}.topologyKey", key, text)


def _label_keys(part: Part, field: str) -> Iterator[FieldError]:
    """Validate matchLabelKeys and mismatchLabelKeys of an affinity term or a spread constraint."""
    match, other = part.get("matchLabelKeys") or [], part.get("mismatchLabelKeys") or []
    selector = part.get("labelSelector")
    for name, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", other)):
        if keys and selector is None:
            yield forbidden(f"{field}.{name}", "must not be specified when labelSelector is not set")
        for i, key in enumerate(keys):
            for text in label_key(key):
                yield invalid(f"{field}.{name}[{i}]", key, text)
    # merge_label_keys has already added one requirement per key, so a second one with the same key is the client's.
    places = {key: i for i, key in enumerate([*match, *other])}
    seen = set((selector or {}).get("matchLabels") or ())
    for expression in (selector or {}).get("matchExpressions") or ():
        key = expression.get("key") or ""
        if key in places and key in seen:
            yield invalid(f"{field}[{places[key]}]", key, "exists in both matchLabelKeys and labelSelector")
        seen.add(key)
    for i, key in enumerate(match):
        if key in other:
            yield invalid(f"{field}.matchLabelKeys[{i}]", key, "exists in both matchLabelKeys and mismatchLabelKeys")


def wrong_spread(constraints: Sequence[Part], field: str) -> Iterator[FieldError]:
    later = Counter((constraint.get("topologyKey"), constraint.get("whenUnsatisfiable")) for constraint in constraints)
    for i, constraint in enumerate(constraints):
        later[constraint.get("topologyKey"), constraint.get("whenUnsatisfiable")] -= 1
        yield from _constraint(constraint, f"{field}[{i}]", later)


def _constraint(constraint: Part, field: str, later: Counter[tuple[Any, Any]]) -> Iterator[FieldError]:
    """Validate a topology spread constraint.

    later: number of later constraints of the pod by (topologyKey, whenUnsatisfiable), to find duplicates
    """
    skew, key, action = (
        constraint.get("maxSkew") or 0,
        constraint.get("topologyKey") or "",
        constraint.get("whenUnsatisfiable") or "",
    )
    if skew <= 0:
        yield invalid(f"{field}.maxSkew", skew, "must be greater than zero")
    if not key:
        yield required(f"{field}.topologyKey", "can not be empty")
    if action not in _UNSATISFIABLE:
        yield not_supported(f"{field}.whenUnsatisfiable", action, _UNSATISFIABLE)
    if later[key, action]:
        yield duplicate(f"{field}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
    domains = constraint.get("minDomains")
    if domains is not None:
        if domains <= 0:
            yield invalid(f"{field}.minDomains", domains, "must be greater than zero")
        if action != "DoNotSchedule":
            detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            yield invalid(f"{field}.minDomains", domains, detail)
    for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if constraint.get(name) is not None and constraint[name] not in ("Honor", "Ignore"):
            yield not_supported(f"{field}.{name}", constraint[name], ("Honor", "Ignore"))
    yield from _label_keys(constraint, field)
    if constraint.get("labelSelector") is not None:
        yield from validate_selector(constraint["labelSelector"], f"{field}.labelSelector")


def wrong_gates(gates: Sequence[Part], field: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for i, gate in enumerate(gates):
        name = gate.get("name") or ""
        for text in label_key(name):
            yield invalid(f"{field}[{i}]", name, text)
        if name in seen:
            yield duplicate(f"{field}[{i}]", name)
        seen.add(name)
