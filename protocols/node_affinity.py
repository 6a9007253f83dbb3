"""Which nodes a pod may run on by its required node affinity.

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
    """One of the alternatives of a node affinity: labels and fields all have to match."""

    labels: tuple[Requirement, ...]
    fields: tuple[Requirement, ...]

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        if not self.labels and not self.fields:
            return False
        if not all(one.matches(labels) for one in self.labels):
            return False
        return all(one.matches({NAME_FIELD: name}) for one in self.fields)


def required_terms(affinity: Mapping[str, Any] | None) -> tuple[Term, ...] | None:
    """The alternatives in a pod's spec.affinity, one of which has to match; None if it requires nothing."""
    required = ((affinity or {}).get("nodeAffinity") or {}).get(REQUIRED)
    return None if required is None else terms_of(required)


def terms_of(selector: Mapping[str, Any]) -> tuple[Term, ...]:
    """The alternatives of a NodeSelector. A term that cannot be understood matches nothing, as upstream."""
    terms = []
    for term in selector.get("nodeSelectorTerms") or ():
        try:
            labels = tuple(_label_requirement(one) for one in term.get("matchExpressions") or ())
            fields = tuple(_field_requirement(one) for one in term.get("matchFields") or ())
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
