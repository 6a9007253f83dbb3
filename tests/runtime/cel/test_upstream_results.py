"""Comparison with Kubernetes for 1,300 expressions: problems, types, values, errors, estimated and actual costs.

recorder.go recorded upstream_results.json with the libraries of Kubernetes 1.36. `costs` are the estimated minimum, the
estimated maximum, and the actual cost. The variables are those below; the estimated maximum size of s, l, ls, m and y
is 20, that of their elements 10.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

from kcm.runtime.cel import types, values
from kcm.runtime.cel.costs import Range
from kcm.runtime.cel.errors import CompileError, EvaluationError, ProgramError
from kcm.runtime.cel.language import base_environment, checked, cost_range
from kcm.runtime.cel.libraries.times import parse_duration, parse_timestamp
from kcm.runtime.cel.program import Program
from kcm.runtime.cel.values import Duration, Optional, Timestamp, TypeValue, Uint

RESULTS = json.loads(Path(__file__).with_name("upstream_results.json").read_text())
SELF = {
    "a": 1, "f": 1.5, "s": "x", "n": None, "l": [1, 2.5, "x", None, {"k": [1]}], "m": {"1": "one", "k": True},
    "t": True, "nested": {"a": {"b": {"c": 5}}},
}  # fmt: skip
VARIABLES: dict[str, tuple[types.Type, Any]] = {
    "self": (types.DYN, SELF),
    "i": (types.INT, 7),
    "u": (types.UINT, Uint(9)),
    "d": (types.DOUBLE, 2.5),
    "s": (types.STRING, "h\u00e9llo w\u00f6rld"),
    "b": (types.BOOL, True),
    "y": (types.BYTES, b"bytes\xff"),
    "l": (types.list_of(types.INT), [3, 1, 2]),
    "ls": (types.list_of(types.STRING), ["b", "a", "c"]),
    "m": (types.map_of(types.STRING, types.INT), {"x": 1, "y": 2}),
    "t": (types.TIMESTAMP, parse_timestamp("2024-02-29T12:34:56.789Z")),
    "r": (types.DURATION, parse_duration("1h30m30.005s")),
}


def size_of(path: tuple[str, ...]) -> Range | None:
    return Range(0, 20 if len(path) == 1 else 10) if path[0] in ("s", "l", "ls", "m", "y") else None


def evaluate(expression: str) -> dict[str, Any]:
    environment = base_environment().extended({name: kind for name, (kind, _value) in VARIABLES.items()}, {})
    answer: dict[str, Any] = {"e": expression}
    try:
        tree, kind = checked(expression, environment)
    except CompileError as error:
        return answer | {"issues": str(error)}
    answer["type"] = named(kind)
    estimate = cost_range(tree, size_of)
    try:
        value, cost = Program(tree, environment).evaluate({name: held for name, (_kind, held) in VARIABLES.items()})
    except ProgramError as error:
        return answer | {"err": f"program: {error}"}
    except EvaluationError as error:
        return answer | {"err": str(error)}
    return answer | {"value": shown(value), "costs": [estimate.least, estimate.most, cost]}


def named(kind: types.Type) -> str:
    """Return the name that cel-go gives a type outside of its errors."""
    base = {
        "null": "null_type",
        "timestamp": "google.protobuf.Timestamp",
        "duration": "google.protobuf.Duration",
    }.get(kind.kind, kind.name or kind.kind)
    return f"{base}({', '.join(map(named, kind.params))})" if kind.params else base


def shown(value: Any) -> str:
    """Return a value with its type, in the format of the recorder."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case Uint():
            return f"{int(value)}u"
        case int():
            return str(value)
        case float():
            return f"d{scientific(value)}"
        case str():
            return "".join(HTML.get(letter, letter) for letter in json.dumps(value, ensure_ascii=False))
        case bytes():
            return f"b{value.hex()}"
        case Timestamp():
            seconds, rest = divmod(value.nanoseconds, 10**9)
            return f"T{seconds}.{rest:09d}"
        case Duration():
            return f"D{value.nanoseconds}"
        case Optional():
            return f"opt({shown(value.value)})" if value.present else "none"
        case TypeValue():
            return f"type:{value.name}"
        case list():
            return f"[{','.join(map(shown, value))}]"
        case dict():
            return "{" + ",".join(sorted(f"{shown(key)}:{shown(each)}" for key, each in value.items())) + "}"
    return f"?{values.type_name(value)}"


HTML = {letter: f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}  # Go escapes them in JSON


def scientific(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    sign = "-" if math.copysign(1, value) < 0 else ""
    if value == 0:
        return f"{sign}0e+00"
    _sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    text, power = "".join(map(str, digits)), len(digits) + exponent - 1
    fraction = f".{text[1:]}" if len(text) > 1 else ""
    return f"{sign}{text[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02d}"


def test_results_equal_those_of_kubernetes() -> None:
    different = [(upstream, ours) for upstream in RESULTS if (ours := evaluate(upstream["e"])) != upstream]
    assert different == []
