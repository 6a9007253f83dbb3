"""Access to parts of a value by fields, keys and indices: self.spec[0].?name, has(self.x), (c ? a : b).d.

Access to a part of a scalar fails as for a missing key; a test, or an optional step, returns that nothing was found.
After an optional step all further steps are optional.

Source: cel-go interpreter/attributes.go.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from kcm.runtime.cel import values
from kcm.runtime.cel.errors import EvaluationError, no_such_key
from kcm.runtime.cel.frame import Closure, Frame
from kcm.runtime.cel.values import NOTHING, Optional, Uint, Value

KEYS = frozenset({str, int, Uint, float, bool})


class LazyFields:
    """Value whose fields are computed when they are read. field: returns a field's value; raises EvaluationError."""

    __slots__ = ("field",)

    def __init__(self, field: Callable[[str], Value]) -> None:
        self.field = field


class Step(Struct, frozen=True):
    """Access by one key.

    key: a constant key, unless it is `computed`.
    tests: only report whether the key exists.
    """

    key: Value = None
    computed: Closure | None = None
    optional: bool = False
    tests: bool = False


def usable_key(key: Value) -> Value:
    if type(key) in KEYS:
        return key
    raise EvaluationError(f"invalid qualifier type: {values.in_go(key)}")


def resolver(base: Closure, steps: list[Step]) -> Closure:
    """Return a closure that applies the steps to the value of `base`.

    Each step has a cost of 1; an optional step only if it finds something.
    """
    if not steps:
        return base
    if all(type(each.key) is str and not each.optional and not each.tests for each in steps):
        return _by_names(base, [each.key for each in steps])
    if len(steps) == 1 and not steps[0].optional and not steps[0].tests:
        return _by_key(base, steps[0])

    def walk(frame: Frame) -> Value:
        return _walk(base(frame), steps, frame)

    return walk


def _by_names(base: Closure, names: list[str]) -> Closure:
    steps = [Step(name) for name in names]

    def walk(frame: Frame) -> Value:
        value = base(frame)
        if type(value) is Optional:
            return _walk(value, steps, frame)
        frame.cost += len(names)
        for name in names:
            if type(value) is dict:
                if name not in value:
                    raise no_such_key(name)
                value = value[name]
            else:
                value = reached(value, name)
        return value

    return walk


def _by_key(base: Closure, step: Step) -> Closure:
    steps = [step]
    constant, computed = step.key, step.computed

    def walk(frame: Frame) -> Value:
        value = base(frame)
        if type(value) is Optional:
            return _walk(value, steps, frame)
        frame.cost += 1
        return reached(value, constant if computed is None else usable_key(computed(frame)))

    return walk


def _walk(value: Value, steps: list[Step], frame: Frame) -> Value:
    optional = type(value) is Optional
    if optional:
        if not value.present:
            return steps[-1].tests is False and NOTHING
        value = value.value
    for step in steps:
        key = step.key if step.computed is None else usable_key(step.computed(frame))
        optional = optional or step.optional
        if step.tests:
            present = found(value, key)[0]
            frame.cost += present or not optional
            return present
        if not optional:
            frame.cost += 1
            value = reached(value, key)
            continue
        present, value = found(value, key)
        if not present:
            return steps[-1].tests is False and NOTHING
        frame.cost += 1
    return Optional(True, value) if optional else value


def reached(container: Value, key: Value) -> Value:
    """Return container[key] or container.key. Raises EvaluationError if there is no such element."""
    present, value = found(container, key)
    if present:
        return value
    if isinstance(container, list):
        raise EvaluationError(f"index out of bounds: {values.shown(key)}")
    raise no_such_key(values.shown(key))


def found(container: Value, key: Value) -> tuple[bool, Value]:
    """Report whether an element exists, and return it. Raises EvaluationError if the key is not a valid index."""
    if type(container) is dict:
        return values.lookup(container, key)
    if isinstance(container, list):
        place = _place(key)
        return (True, container[place]) if 0 <= place < len(container) else (False, None)
    if type(container) is LazyFields:
        return True, container.field(key)  # the checker has checked the field
    if type(container) is values.DefaultMap:
        return True, container.get(key, {})
    return False, None


def _place(key: Value) -> int:
    kind = type(key)
    if kind is int or kind is Uint:
        return int(key)
    if kind is not float:
        raise EvaluationError(f"unsupported index type '{values.type_name(key)}' in list")
    if not key.is_integer():
        raise EvaluationError(f"unsupported index value {values.shown(key)} in list")
    return int(key)
