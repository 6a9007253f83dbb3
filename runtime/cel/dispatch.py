"""Selection of the overload of a call whose argument types are known only at run time, and the errors if none matches.

Source: cel-go interpreter/interpretable.go, common/decls/decls.go.
"""

from __future__ import annotations

from kcm.runtime.cel import values
from kcm.runtime.cel.declarations import Overload, accepts
from kcm.runtime.cel.errors import NO_SUCH_OVERLOAD, EvaluationError
from kcm.runtime.cel.values import Value

SEARCHES = frozenset({"matches", "find", "findAll"})


def dispatch(name: str, candidates: list[Overload], arguments: list[Value]) -> Overload:
    if name in ("sort", "@sortByAssociatedKeys") and isinstance(arguments[0], list):
        return candidates[0]  # this overload inspects all elements itself
    for overload in candidates:
        if len(overload.parameters) == len(arguments) and all(map(accepts, overload.parameters, arguments)):
            return overload
    raise EvaluationError(mismatch(name, arguments))


NUMBERS = frozenset(values.NUMBERS)
_TIMES = frozenset({values.Duration, values.Timestamp})
_ORDERED = NUMBERS | _TIMES | {bool, str, bytes}
_LISTS = frozenset({list, values.SetList, values.MapList})
OPERANDS: dict[str, frozenset[type]] = {
    "_+_": NUMBERS | _TIMES | _LISTS | {str, bytes},
    "_-_": NUMBERS | _TIMES,
    "_*_": NUMBERS,
    "_/_": NUMBERS,
    "_%_": frozenset({int, values.Uint}),
    "-_": frozenset({bool, int, float}),
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _ORDERED),
    **dict.fromkeys(("!_", "@in", "contains", "startsWith", "endsWith"), frozenset()),
    "size": frozenset(),
    "matches": frozenset(),
    "sort": _LISTS,
}
"""Functions that cel-go looks up by what their first operand can do, and of which types it can; others by signature."""
NAMELESS = frozenset({"!_", "@in", "contains", "startsWith", "endsWith"})
RECEIVERS = _TIMES | {str}  # types with methods of their own


def mismatch(name: str, arguments: list[Value]) -> str:
    operands = OPERANDS.get(name)
    if name in SEARCHES and type(arguments[1]) is str:
        return NO_SUCH_OVERLOAD
    if operands is None:
        return f"{NO_SUCH_OVERLOAD}: {name}({', '.join(map(values.type_name, arguments))})"
    if name in NAMELESS or type(arguments[0]) in operands | RECEIVERS:
        return NO_SUCH_OVERLOAD
    return f"{NO_SUCH_OVERLOAD}: {name}"
