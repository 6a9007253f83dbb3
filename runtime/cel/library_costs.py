"""Estimated costs of calls of Kubernetes' libraries and of cel-go's extensions.

Source: k8s.io/apiserver/pkg/cel/library/cost.go (EstimateCallCost), cel-go ext/lists.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from kcm.runtime.cel.actual_costs import AUTHORIZATION, NOMINAL
from kcm.runtime.cel.costs import MOST, ONE, PATTERN, TRAVERSAL, UNKNOWN, Estimate, Range, Sized, fixed
from kcm.runtime.cel.syntax import Literal

Size = Callable[[Sized], Range]
LONGEST_FORMAT, LONGEST_NAME_PATTERN = 64, 128
ADDRESS = Range(4, 16)  # bytes of an IP address
ONCE = frozenset({"url", "jsonpatch.escapeKey"})
PARSED = frozenset({"cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"})
TRAVERSED = frozenset({"lowerAscii", "upperAscii", "substring", "trim"})
SCANNED = frozenset({"isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"})
QUICKLY_EQUAL = frozenset({"net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"})


def call_estimate(
    function: str, overload: str, target: Sized | None, arguments: list[Sized], size: Size
) -> Estimate | None:
    if function in NOMINAL:
        return Estimate(ONE)
    if function == "check":
        return Estimate(fixed(AUTHORIZATION))
    if function in ("fieldSelector", "labelSelector") and len(arguments) == 1:
        return Estimate(_selector(size(arguments[0])))
    if target is not None:
        return _of_member(function, overload, target, arguments, size)
    if function in ONCE and len(arguments) == 1:
        return Estimate(size(arguments[0]).scaled(TRAVERSAL), size(arguments[0]))
    if (function in PARSED or function == "ip") and arguments:
        return Estimate(size(arguments[0]).scaled(TRAVERSAL))
    if function == "ip.isCanonical":
        return Estimate(size(arguments[0]).scaled(2 * TRAVERSAL))
    if function in ("sets.contains", "sets.intersects", "sets.equivalent"):
        product = size(arguments[0]) * size(arguments[1])
        return Estimate((product + product if function == "sets.equivalent" else product) + ONE)
    if function == "lists.range":
        return _made_list(1, fixed(_literal(arguments[0], MOST)))
    if function == "_==_" and len(arguments) == 2 and arguments[0].type == arguments[1].type:
        return _equality(arguments[0].type.name if arguments[0].type.kind == "opaque" else "", arguments)
    return None


def _equality(name: str, arguments: list[Sized]) -> Estimate | None:
    if name in QUICKLY_EQUAL or name.startswith("kubernetes.authorization."):
        return Estimate(ONE)
    if name == "kubernetes.NamedFormat":
        return Estimate(Range(1, LONGEST_FORMAT).scaled(TRAVERSAL))
    if name == "kubernetes.URL":
        known = arguments[1].size
        return Estimate(Range(1, known.most if known is not None else 1).scaled(TRAVERSAL))
    return None


def _of_member(function: str, overload: str, target: Sized, arguments: list[Sized], size: Size) -> Estimate | None:
    if function in SCANNED:
        element = _element(target)
        if element is None:
            return Estimate(size(target).scaled(TRAVERSAL))
        each = ONE
        if element.type.kind in ("string", "bytes"):
            each += size(element).scaled(TRAVERSAL)
        return Estimate(size(target) * each)
    if function in TRAVERSED:
        return Estimate(size(target).scaled(TRAVERSAL), size(target))
    by_function = BY_FUNCTION.get(function)
    return None if by_function is None else by_function(overload, target, arguments, size)


def _element(target: Sized) -> Sized | None:
    if not target.type.params:
        return None
    path = (*target.path, "@items") if target.path else ()
    return Sized(None, target.type.params[0], path, None)


def _literal(sized: Sized, default: int) -> int:
    if isinstance(sized.node, Literal) and type(sized.node.value) is int:
        return max(sized.node.value, 0)
    return default


def _selector(length: Range) -> Range:
    return fixed(10) + length.scaled(TRAVERSAL) + length.scaled(0.5).scaled(50)


def _made_list(factor: float, size: Range) -> Estimate:
    return Estimate(size.scaled(factor) + fixed(11), size)


def _replace(_overload: str, target: Sized, arguments: list[Sized], size: Size) -> Estimate:
    text, old, new = size(target), size(arguments[0]), size(arguments[1])
    most = least = (0, 0)  # replacements, characters kept
    if old.least == 0:
        most = (min(text.most + 1, MOST), text.most)
    elif new.most <= old.least:
        most = (0, text.most)
    else:
        most = (math.ceil(text.most / old.least), 0)
    if old.most == 0:
        least = (min(text.least + 1, MOST), text.least)
    elif old.most <= new.least:
        least = (0, text.least)
    else:
        least = (math.ceil(text.least / old.most), 0)
    result = Range(least[0], most[0]) * new + Range(least[1], most[1])
    return Estimate(text.scaled(2 * TRAVERSAL), result)


def _split(_overload: str, target: Sized, arguments: list[Sized], size: Size) -> Estimate:
    text = size(target)
    most = text.most
    if len(arguments) > 1 and isinstance(arguments[1].node, Literal):
        most = arguments[1].node.value % 2**64
    return Estimate(text.scaled(2 * TRAVERSAL), Range(0, most))


def _join(_overload: str, target: Sized, arguments: list[Sized], size: Size) -> Estimate:
    count, element = size(target), _element(target)
    result = count * size(element) if element is not None else Range(0, 0)
    if arguments:
        result += size(arguments[0]) * Range(max(count.least - 1, 0), max(count.most - 1, 0))
    return Estimate(result.scaled(TRAVERSAL), result)


def _find(_overload: str, target: Sized, arguments: list[Sized], size: Size) -> Estimate:
    text = size(target)
    cost = (text + ONE).scaled(TRAVERSAL) * size(arguments[0]).scaled(PATTERN)
    return Estimate(cost, Range(0, text.most))


def _contains_ip(overload: str, _target: Sized, arguments: list[Sized], size: Size) -> Estimate:
    cost = (ADDRESS + ADDRESS).scaled(TRAVERSAL)
    return Estimate(cost + (size(arguments[0]).scaled(TRAVERSAL) if overload.endswith("_string") else Range(0, 0)))


def _contains_cidr(overload: str, _target: Sized, arguments: list[Sized], size: Size) -> Estimate:
    cost = (ADDRESS + ADDRESS).scaled(TRAVERSAL) + ADDRESS.scaled(TRAVERSAL) + ONE
    return Estimate(cost + (size(arguments[0]).scaled(TRAVERSAL) if overload.endswith("_string") else Range(0, 0)))


def _validate(_overload: str, _target: Sized, arguments: list[Sized], size: Size) -> Estimate:
    return Estimate(size(arguments[0]).scaled(TRAVERSAL).scaled(LONGEST_NAME_PATTERN * PATTERN))


def _slice(_overload: str, target: Sized, arguments: list[Sized], _size: Size) -> Estimate:
    start, end = _literal(arguments[0], 0), _literal(arguments[1], (target.size or UNKNOWN).most)
    return _made_list(1, fixed((end - start) % 2**64))


def _flatten(_overload: str, target: Sized, arguments: list[Sized], size: Size) -> Estimate:
    return _made_list(float(_literal(arguments[0], MOST)) if arguments else 1.0, size(target))


def _sorted_by(overload: str, list_: Sized, size: Size) -> Estimate:
    factor = 2.0 + (TRAVERSAL if overload.startswith(("list_string_", "list_bytes_")) else 0)
    return _made_list(factor, size(list_) * size(list_))


ByFunction = Callable[[str, Sized, list[Sized], Size], Estimate]
BY_FUNCTION: dict[str, ByFunction] = {
    "replace": _replace,
    "split": _split,
    "join": _join,
    "find": _find,
    "findAll": _find,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validate,
    "slice": _slice,
    "flatten": _flatten,
    "reverse": lambda _overload, target, _arguments, size: _made_list(1, size(target)),
    "distinct": lambda _overload, target, _arguments, size: _made_list(2, size(target) * size(target)),
    "sort": lambda overload, target, _arguments, size: _sorted_by(overload, target, size),
    "@sortByAssociatedKeys": lambda overload, _target, arguments, size: _sorted_by(overload, arguments[0], size),
    "ip": lambda *_: Estimate(ONE),
}
