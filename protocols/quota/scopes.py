"""Scopes, which restrict a quota to some objects of a namespace.

Source: kubernetes v1.36 staging/src/k8s.io/apiserver/pkg/quota/v1/generic/evaluator.go (getScopeSelectorsFromQuota),
pkg/apis/core/v1/helper/helpers.go (ScopedResourceSelectorRequirementsAsSelector).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kcm.protocols.objects import Object

TERMINATING = "Terminating"
NOT_TERMINATING = "NotTerminating"
BEST_EFFORT = "BestEffort"
NOT_BEST_EFFORT = "NotBestEffort"
PRIORITY_CLASS = "PriorityClass"
CROSS_NAMESPACE_POD_AFFINITY = "CrossNamespacePodAffinity"
VOLUME_ATTRIBUTES_CLASS = "VolumeAttributesClass"

IN, NOT_IN, EXISTS, DOES_NOT_EXIST = "In", "NotIn", "Exists", "DoesNotExist"


class ScopeRequirement(NamedTuple):
    """Scope requirement of a quota. values: for the operators In and NotIn."""

    name: str
    operator: str = EXISTS
    values: tuple[str, ...] = ()

    def selects(self, names: Iterable[str]) -> bool:
        """Report whether an object with these names meets the requirement.

        names: the object's values for this scope, such as its priority class. In requires a name among the values,
            NotIn a name that is not among them or no names at all.

        Raises ValueError for an invalid operator.
        """
        found = set(names)
        match self.operator:
            case "In":
                return not found.isdisjoint(self.values)
            case "NotIn":
                return not found or not found.issubset(self.values)
            case "Exists":
                return bool(found)
            case "DoesNotExist":
                return not found
            case _:
                raise ValueError(f'"{self.operator}" is not a valid scope selector operator')


def scopes_of(quota: Object) -> list[ScopeRequirement]:
    """Return the requirements of a quota, all of which an object must meet."""
    spec = quota.get("spec") or {}
    scopes = [ScopeRequirement(name) for name in spec.get("scopes") or ()]
    for expression in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        values = tuple(expression.get("values") or ())
        scopes.append(ScopeRequirement(expression.get("scopeName") or "", expression.get("operator") or "", values))
    return scopes
