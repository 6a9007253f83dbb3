"""What a quota's namespace uses of what the quota limits.

Source: kubernetes v1.36 staging/src/k8s.io/apiserver/pkg/quota/v1/resources.go (CalculateUsage), generic/evaluator.go
(CalculateUsageStats).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from protocols.objects import Object
from protocols.quantities import Quantity
from protocols.quota.amounts import ZERO, add, masked
from protocols.quota.evaluators import Evaluator
from protocols.quota.scopes import Scope, scopes_of

ListObjects = Callable[[Evaluator], Sequence[Object]]


class NotCountedError(Exception):
    """The objects of a resource cannot be listed or read now; what they use is not known."""


class Usage(NamedTuple):
    """used: of all that could be counted. counted: by whom, and which names. errors: of what could not."""

    used: dict[str, Quantity]
    counted: dict[str, frozenset[str]]
    errors: list[NotCountedError]


def calculate_usage(quota: Object, names: Iterable[str], evaluators: Iterable[Evaluator], listed: ListObjects) -> Usage:
    """What all objects use that the quota is about.

    names: the resources to count. listed: returns the objects of an evaluator's resource in the quota's namespace;
    raises NotCountedError. What one evaluator cannot count is left out, also where another one can.
    """
    scopes = scopes_of(quota)
    wanted = frozenset(names)
    used: dict[str, Quantity] = {}
    counted: dict[str, frozenset[str]] = {}
    errors: list[NotCountedError] = []
    failed: set[str] = set()
    for evaluator in evaluators:
        matching = evaluator.matching(wanted)
        if not matching:
            continue
        try:
            found = _used(evaluator, scopes, listed(evaluator))
        except NotCountedError as err:
            errors.append(err)
            failed |= matching
            continue
        counted[evaluator.resource] = matching
        used = add(used, add(dict.fromkeys(matching, ZERO), found))
    known = frozenset().union(*counted.values()) - failed
    return Usage(masked(used, known), counted, errors)


def _used(evaluator: Evaluator, scopes: Sequence[Scope], objects: Sequence[Object]) -> dict[str, Quantity]:
    total: dict[str, Quantity] = {}
    for obj in objects:
        try:
            if all(evaluator.meets(obj, scope) for scope in scopes):
                total = add(total, evaluator.usage(obj))
        except (ValueError, TypeError, AttributeError, KeyError) as err:
            meta = obj.get("metadata") or {}
            name = f"{meta.get('namespace')}/{meta.get('name')}"
            raise NotCountedError(f"{evaluator.resource} {name} cannot be counted: {err}") from err
    return total
