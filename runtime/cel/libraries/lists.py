"""Functions on lists, and on lists as sets.

Source: cel-go ext/lists.go (version 3), ext/sets.go; k8s.io/apiserver/pkg/cel/library/lists.go.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable

from kcm.runtime.cel import values
from kcm.runtime.cel.declarations import Function, function, library
from kcm.runtime.cel.effort import spend
from kcm.runtime.cel.errors import NO_SUCH_OVERLOAD, CostExceededError, EvaluationError
from kcm.runtime.cel.libraries import times
from kcm.runtime.cel.values import Duration, Uint, Value, equals

LONGEST_RANGE = 1_000_000  # elements; equal to the cost limit of an evaluation
COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
SUMMABLE: dict[str, tuple[Value, Callable[[Value, Value], Value]]] = {
    "int": (0, lambda a, b: values.checked_int(a + b)),
    "uint": (Uint(0), lambda a, b: values.checked_uint(int(a) + int(b))),
    "double": (0.0, operator.add),
    "duration": (Duration(0), lambda a, b: times.duration_of(a.nanoseconds + b.nanoseconds)),
}


def _check_ordered(elements: list[Value]) -> None:
    if any(type(each) not in values.ORDERED for each in elements):
        raise EvaluationError(NO_SUCH_OVERLOAD)


def _is_sorted(elements: list[Value]) -> bool:
    _check_ordered(elements)
    return all(values.compared(a, b) != 1 for a, b in itertools.pairwise(elements))


def _extreme(word: str, preferred: int) -> Callable[[list[Value]], Value]:
    """Return the function min or max. preferred: comparison at which a later element replaces the best so far."""

    def extreme(elements: list[Value]) -> Value:
        if not elements:
            raise EvaluationError(f"{word} called on empty list")
        _check_ordered(elements)
        best = elements[0]
        for each in elements[1:]:
            if values.compared(best, each) == preferred:
                best = each
        return best

    return extreme


def _sum(kind: str) -> Function:
    zero, add = SUMMABLE[kind]

    def total(elements: list[Value]) -> Value:
        if any(type(each) is not type(zero) for each in elements):
            raise EvaluationError(NO_SUCH_OVERLOAD)
        return functools.reduce(add, elements, zero)

    return function("sum", (f"list_{kind}_sum_{kind}", f".list({kind})->{kind}", total))


def _range(count: int) -> list[Value]:
    if count > LONGEST_RANGE:
        raise CostExceededError
    return list(range(count))


def _index_of(elements: list[Value], value: Value) -> int:
    return next((place for place, each in enumerate(elements) if equals(each, value)), -1)


def _last_index_of(elements: list[Value], value: Value) -> int:
    return next((place for place in range(len(elements) - 1, -1, -1) if equals(elements[place], value)), -1)


def _slice(elements: list[Value], start: int, end: int) -> list[Value]:
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(elements) < end:
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(elements)}")
    return elements[start:end]


def _flatten(elements: list[Value], depth: int = 1) -> list[Value]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    flat: list[Value] = []
    spend(len(elements))
    for each in elements:
        if isinstance(each, list) and depth > 0:
            flat += _flatten(each, depth - 1)
        else:
            flat.append(each)
    return flat


def _sort(elements: list[Value], keys: list[Value] | None = None) -> list[Value]:
    keys = elements if keys is None else keys
    if len(keys) != len(elements):
        raise EvaluationError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got "
            f"{len(elements)} and {len(keys)} elements respectively"
        )
    if keys and type(keys[0]) not in values.ORDERED:
        raise EvaluationError("list elements must be comparable")
    if any(type(each) is not type(keys[0]) for each in keys):
        raise EvaluationError("list elements must have the same type")
    return [elements[place] for place in sorted(range(len(keys)), key=keys.__getitem__)]


def _distinct(elements: list[Value]) -> list[Value]:
    found: list[Value] = []
    for each in elements:
        if not values.contains(found, each):
            found.append(each)
    return found


def _contains_all(elements: list[Value], wanted: list[Value]) -> bool:
    return all(values.contains(elements, each) for each in wanted)


def _equivalent(left: list[Value], right: list[Value]) -> bool:
    return _contains_all(left, right) and _contains_all(right, left)


def _intersects(left: list[Value], right: list[Value]) -> bool:
    return any(values.contains(right, each) for each in left)


LISTS = library(
    *(
        each
        for kind in COMPARABLE
        for each in (
            function("isSorted", (f"list_{kind}_is_sorted_bool", f".list({kind})->bool", _is_sorted)),
            function("max", (f"list_{kind}_max_{kind}", f".list({kind})->{kind}", _extreme("max", -1))),
            function("min", (f"list_{kind}_min_{kind}", f".list({kind})->{kind}", _extreme("min", 1))),
            function("sort", (f"list_{kind}_sort", f".list({kind})->list({kind})", _sort)),
            function(
                "@sortByAssociatedKeys",
                (f"list_{kind}_sortByAssociatedKeys", f".list(T),list({kind})->list(T)", _sort),
            ),
        )
    ),
    *map(_sum, SUMMABLE),
    function("indexOf", ("list_a_index_of_int", ".list(A),A->int", _index_of)),
    function("lastIndexOf", ("list_a_last_index_of_int", ".list(A),A->int", _last_index_of)),
    function("slice", ("list_slice", ".list(T),int,int->list(T)", _slice)),
    function(
        "flatten",
        ("list_flatten", ".list(list(T))->list(T)", _flatten),
        ("list_flatten_int", ".list(dyn),int->list(dyn)", _flatten),
    ),
    function("lists.range", ("lists_range", "int->list(int)", _range)),
    function("reverse", ("list_reverse", ".list(T)->list(T)", lambda elements: list(reversed(elements)))),
    function("distinct", ("list_distinct", ".list(T)->list(T)", _distinct)),
    function("sets.contains", ("list_sets_contains_list", "list(T),list(T)->bool", _contains_all)),
    function(
        "sets.equivalent",
        (
            "list_sets_equivalent_list",
            "list(T),list(T)->bool",
            _equivalent,
        ),
    ),
    function(
        "sets.intersects",
        (
            "list_sets_intersects_list",
            "list(T),list(T)->bool",
            _intersects,
        ),
    ),
)
