"""Actual costs of calls, in cel-go's units.

Source: cel-go interpreter/runtimecost.go, ext/lists.go; k8s.io/apiserver/pkg/cel/library/cost.go (CallCost).
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from kcm.runtime.cel.effort import spend
from kcm.runtime.cel.values import Opaque, Value, size

TRAVERSAL = 0.1  # for each character
PATTERN = 0.25  # for each character of a regular expression
AUTHORIZATION = 350_000  # a rule's limit of 1,000,000 allows two authorization checks


def call_cost(function: str, overload: str, arguments: list[Value], result: Value) -> int:
    """Return the cost of a call.

    overload: cel-go's overload id; empty if the argument types match several overloads.
    """
    if not arguments:
        return 1
    if function in NOMINAL:
        return 1
    by_function = BY_FUNCTION.get(function) if overload or function not in BY_OVERLOAD else None
    if by_function is not None:
        return by_function(overload, arguments, result)
    if overload in MINIMUM or overload in COMPARED:
        if function == "_==_" and isinstance(arguments[0], Opaque):
            return 1
        return ceil(min(size(arguments[0]), size(arguments[1])) * TRAVERSAL)
    if overload in LINEAR:
        return ceil(size(arguments[0]) * TRAVERSAL)
    match overload:
        case "in_list":
            return size(arguments[1])
        case "add_string" | "add_bytes":
            return ceil((size(arguments[0]) + size(arguments[1])) * TRAVERSAL)
        case "matches" | "matches_string":
            return pattern_cost(size(arguments[0]), size(arguments[1]))
        case "contains_string":
            return ceil(size(arguments[0]) * TRAVERSAL) * ceil(size(arguments[1]) * TRAVERSAL)
    return 1


def pattern_cost(text: int, pattern: int) -> int:
    return ceil((1.0 + text) * TRAVERSAL) * ceil(pattern * PATTERN)


BY_OVERLOAD = frozenset({"sort", "@sortByAssociatedKeys"})  # and the nominal cost if the overload is unknown
LINEAR = frozenset(
    {"starts_with_string", "ends_with_string", "string_to_bytes", "bytes_to_string", "strings_quote", "string_format"}
)
MINIMUM = frozenset({"equals", "not_equals"})
COMPARED = frozenset(
    f"{relation}_{kind}"
    for relation in ("less", "less_equals", "greater", "greater_equals")
    for kind in ("string", "bytes")
)
NOMINAL = frozenset(
    [
        "serviceAccount",
        "path",
        "group",
        "resource",
        "subresource",
        "namespace",
        "name",
        "allowed",
        "reason",
        "error",
        "errored",
        "masked",
        "prefixLength",
        "family",
        "isUnspecified",
        "isLoopback",
        "isLinkLocalMulticast",
        "isLinkLocalUnicast",
        "isGlobalUnicast",
        "format.named",
        "sign",
        "asInteger",
        "isInteger",
        "asApproximateFloat",
        "isGreaterThan",
        "isLessThan",
        "compareTo",
        "add",
        "sub",
        "major",
        "minor",
        "patch",
        "getScheme",
        "getHostname",
        "getHost",
        "getPort",
        "getEscapedPath",
        "getQuery",
    ]
)
ByFunction = Callable[[str, list[Value], Value], int]


def _traversal(value: Value) -> int:
    if type(value) in (str, bytes):
        return int(len(value) * TRAVERSAL)
    if isinstance(value, list):
        spend(len(value))
        return sum(map(_traversal, value))
    if isinstance(value, dict):
        spend(len(value))
        return sum(_traversal(key) + _traversal(each) for key, each in value.items())
    return 1


def _linear(factor: float) -> ByFunction:
    return lambda _overload, arguments, _result: ceil(size(arguments[0]) * factor)


def _ip(overload: str, arguments: list[Value], _result: Value) -> int:
    return 1 if overload == "cidr_ip" else ceil(size(arguments[0]) * TRAVERSAL)


def _contains_ip(overload: str, arguments: list[Value], _result: Value) -> int:
    cost = ceil(2 * size(arguments[0]) * TRAVERSAL)
    return cost + (ceil(size(arguments[1]) * TRAVERSAL) if overload == "cidr_contains_ip_string" else 0)


def _contains_cidr(overload: str, arguments: list[Value], _result: Value) -> int:
    network = size(arguments[0])
    cost = ceil(2 * network * TRAVERSAL) + ceil(network * TRAVERSAL) + 1
    return cost + (ceil(size(arguments[1]) * TRAVERSAL) if overload == "cidr_contains_cidr_string" else 0)


def _validate(_overload: str, arguments: list[Value], _result: Value) -> int:
    return pattern_cost(size(arguments[1]), arguments[0].longest_pattern)


def _selector(_overload: str, arguments: list[Value], _result: Value) -> int:
    length = size(arguments[1])
    return 10 + ceil(length * TRAVERSAL) + ceil(ceil(length * 0.5) * 50)


def _searched(_overload: str, arguments: list[Value], _result: Value) -> int:
    return pattern_cost(size(arguments[0]), size(arguments[1]))


def _compared_with_itself(elements: list[Value]) -> int:
    factor = 2.0 + (TRAVERSAL if elements and type(elements[0]) in (str, bytes) else 0)
    return int(len(elements) ** 2 * factor) + 11


PARSED = (
    *("url", "lowerAscii", "upperAscii", "substring", "trim", "jsonpatch.escapeKey", "cidr", "isIP", "isCIDR"),
    *("quantity", "isQuantity", "semver", "isSemver"),
)
BY_FUNCTION: dict[str, ByFunction] = {
    "check": lambda *_: AUTHORIZATION,
    "fieldSelector": _selector,
    "labelSelector": _selector,
    **dict.fromkeys(
        ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), lambda _o, arguments, _r: _traversal(arguments[0])
    ),
    **dict.fromkeys(
        PARSED,
        _linear(TRAVERSAL),
    ),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _linear(2 * TRAVERSAL)),
    "join": lambda _overload, _arguments, result: ceil(size(result) * 2 * TRAVERSAL),
    **dict.fromkeys(("find", "findAll"), _searched),
    "ip": _ip,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validate,
    "sets.contains": lambda _o, arguments, _r: 1 + size(arguments[0]) * size(arguments[1]),
    "sets.intersects": lambda _o, arguments, _r: 1 + size(arguments[0]) * size(arguments[1]),
    "sets.equivalent": lambda _o, arguments, _r: 1 + 2 * size(arguments[0]) * size(arguments[1]),
    "slice": lambda _o, _a, result: size(result) + 11,
    "lists.range": lambda _o, _a, result: size(result) + 11,
    "reverse": lambda _o, _a, result: size(result) + 11,
    "flatten": lambda _o, arguments, _r: size(arguments[0]) * (arguments[1] if len(arguments) == 2 else 1) + 11,
    "distinct": lambda _o, arguments, _r: _compared_with_itself(arguments[0]),
    "sort": lambda _o, arguments, _r: _compared_with_itself(arguments[0]),
    "@sortByAssociatedKeys": lambda _o, arguments, _r: _compared_with_itself(arguments[1]),
}  # fmt: skip
