"""Evaluation of macros: loops over the elements of a list or the entries of a map.

Costs are those of upstream's folds, into which cel-go expands the macros.

Source: cel-go interpreter/interpretable.go (evalFold), runtimecost.go.
"""

from __future__ import annotations

from typing import Any

from kcm.runtime.cel import values
from kcm.runtime.cel.errors import NO_SUCH_OVERLOAD, EvaluationError
from kcm.runtime.cel.frame import LIST_COST, Closure, Frame
from kcm.runtime.cel.values import Value


def _iterated(value: Value, *, pairs: bool) -> Any:
    if isinstance(value, dict):
        return list(value.items()) if pairs else list(value)
    if isinstance(value, list):
        return enumerate(value) if pairs else value
    name = values.in_go(value)
    text = f"unsupported comprehension range type: {name}" if pairs else f"got '{name}', expected iterable type"
    raise EvaluationError(text)


def _set(names: dict[str, Value], first: str, second: str | None, element: Value) -> None:
    if second is None:
        names[first] = element
    else:
        names[first], names[second] = element


def quantifier(elements: Closure, first: str, second: str | None, predicate: Closure, *, decisive: bool) -> Closure:
    condition_cost = 3 if decisive else 2  # the accumulator is read and tested; exists also negates it

    def quantified(frame: Frame) -> Value:
        names = frame.names
        failed: EvaluationError | None = None
        count = 0
        iterated = elements(frame)
        for element in _iterated(iterated, pairs=second is not None):
            count += 1
            frame.charge(condition_cost + 1)
            _set(names, first, second, element)
            try:
                value = predicate(frame)
            except EvaluationError as error:
                failed = failed or error
                continue
            if value is decisive:
                frame.cost += 1 if count == len(iterated) else condition_cost + 1
                return decisive
            if type(value) is not bool:
                failed = failed or EvaluationError(NO_SUCH_OVERLOAD)
        frame.charge(1)
        if failed is not None:
            raise failed
        return not decisive

    return quantified


def _holds(value: Value) -> bool:
    if type(value) is not bool:
        raise EvaluationError(NO_SUCH_OVERLOAD)
    return value


def exactly_one(elements: Closure, first: str, second: str | None, predicate: Closure) -> Closure:
    def exactly_one(frame: Frame) -> Value:
        count = 0
        for element in _iterated(elements(frame), pairs=second is not None):
            _set(frame.names, first, second, element)
            if _holds(predicate(frame)):
                frame.charge(2)
                count += 1
        frame.charge(2)
        return count == 1

    return exactly_one


def mapped(
    elements: Closure, first: str, second: str | None, predicate: Closure | None, transform: Closure, *, constant: bool
) -> Closure:
    """Return the closure of a map macro. constant: the transformed value is a constant, which lowers the cost."""
    cost = 2 if constant else 2 + LIST_COST

    def mapped(frame: Frame) -> Value:
        made = []
        for element in _iterated(elements(frame), pairs=second is not None):
            _set(frame.names, first, second, element)
            if predicate is None or _holds(predicate(frame)):
                frame.charge(cost)
                made.append(transform(frame))
        frame.charge(1)
        return made

    return mapped


def mapped_entries(
    elements: Closure, first: str, second: str | None, predicate: Closure | None, transform: Closure, *, keyed: bool
) -> Closure:
    def mapped(frame: Frame) -> Value:
        made: dict[Value, Value] = {}
        for element in _iterated(elements(frame), pairs=True):
            _set(frame.names, first, second, element)
            if predicate is not None and not _holds(predicate(frame)):
                continue
            frame.charge(3 if keyed else 2)
            value = transform(frame)
            if not keyed and type(value) is not dict:
                raise EvaluationError(f"no such overload: cel.@mapInsert(map, {values.type_name(value)})")
            for key, each in [(frame.names[first], value)] if keyed else list(value.items()):
                if values.lookup(made, key)[0]:
                    raise EvaluationError(f"insert failed: key {values.shown(key)} already exists")
                made[key] = each
        frame.charge(1)
        return made

    return mapped
