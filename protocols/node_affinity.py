"""Node selectors, and the required node affinity of pods.

Source: kubernetes v1.36 component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kcm.protocols.selectors import Operator, Requirement, requirement

NAME_FIELD = "metadata.name"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
    "Gt": Operator.GREATER_THAN,
    "Lt": Operator.LESS_THAN,
}


class Term(NamedTuple):
    """Alternative of a node selector: all labels and fields must match."""

    labels: tuple[Requirement, ...]
    fields: tuple[Requirement, ...]

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        if not self.labels and not self.fields:
            return False
        if not all(requirement.matches(labels) for requirement in self.labels):
            return False
        return all(requirement.matches({NAME_FIELD: name}) for requirement in self.fields)


def required_terms(affinity: Mapping[str, Any] | None) -> tuple[Term, ...] | None:
    """Return the alternatives of a pod's spec.affinity, one of which must match, or None without a requirement."""
    required = ((affinity or {}).get("nodeAffinity") or {}).get(REQUIRED)
    return None if required is None else terms_of(required)


def terms_of(selector: Mapping[str, Any]) -> tuple[Term, ...]:
    """Return the alternatives of a NodeSelector. An invalid term matches nothing, as upstream."""
    terms = []
    for term in selector.get("nodeSelectorTerms") or ():
        try:
            labels = tuple(_label_requirement(expression) for expression in term.get("matchExpressions") or ())
            fields = tuple(_field_requirement(expression) for expression in term.get("matchFields") or ())
        except ValueError:
            continue
        terms.append(Term(labels, fields))
    return tuple(terms)


def _label_requirement(expression: Mapping[str, Any]) -> Requirement:
    operator = _OPERATORS.get(expression.get("operator") or "")
    if operator is None:
        raise ValueError(f"{expression.get('operator')!r} is not a valid node selector operator")
    return requirement(expression.get("key") or "", operator, expression.get("values") or ())


def _field_requirement(expression: Mapping[str, Any]) -> Requirement:
    operator, values = _OPERATORS.get(expression.get("operator") or ""), expression.get("values") or ()
    if operator not in (Operator.IN, Operator.NOT_IN) or expression.get("key") != NAME_FIELD or len(values) != 1:
        raise ValueError(f"not a requirement on a node's fields: {expression!r}")
    return Requirement(NAME_FIELD, operator, tuple(values))
