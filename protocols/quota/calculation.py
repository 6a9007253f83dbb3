"""Usage, in a quota's namespace, of the resources that the quota limits.

Source: kubernetes v1.36 staging/src/k8s.io/apiserver/pkg/quota/v1/resources.go (CalculateUsage), generic/evaluator.go
(CalculateUsageStats).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kcm.protocols.objects import Object
from kcm.protocols.quantities import Quantity
from kcm.protocols.quota.amounts import ZERO, add, masked, repeated
from kcm.protocols.quota.evaluators import Evaluator
from kcm.protocols.quota.scopes import ScopeRequirement, scopes_of

ListObjects = Callable[[Evaluator], Sequence[Object]]


class NotCountedError(Exception):
    """The objects of a resource cannot be listed or read, so their usage is unknown."""


class Usage(NamedTuple):
    """Usage of a namespace.

    used: amounts of all resources that could be counted.
    counted: resource names that each evaluator counted.
    errors: of the evaluators that could not count.
    """

    used: dict[str, Quantity]
    counted: dict[str, frozenset[str]]
    errors: list[NotCountedError]


def calculate_usage(quota: Object, names: Iterable[str], evaluators: Iterable[Evaluator], listed: ListObjects) -> Usage:
    """Return the usage of all objects in the scope of the quota, like upstream's CalculateUsage.

    names: resource names to count.
    listed: returns the objects of an evaluator's resource in the quota's namespace, or their essences; may raise
        NotCountedError. An object that occurs several times is evaluated once.

    A resource name that one evaluator cannot count is omitted, even if another evaluator can count it.
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


def _used(evaluator: Evaluator, scopes: Sequence[ScopeRequirement], objects: Sequence[Object]) -> dict[str, Quantity]:
    total: dict[str, Quantity] = {}
    times = Counter(map(id, objects))
    for obj in {id(each): each for each in objects}.values():
        try:
            if all(evaluator.meets(obj, scope) for scope in scopes):
                total = add(total, repeated(evaluator.usage(obj), times[id(obj)]))
        except (ValueError, TypeError, AttributeError, KeyError) as err:
            raise NotCountedError(f"{evaluator.resource}{_named(obj)} cannot be counted: {err}") from err
    return total


def _named(obj: Object) -> str:
    # An essence has no name.
    meta = obj.get("metadata") or {}
    return f" {meta.get('namespace')}/{meta['name']}" if "name" in meta else ""
