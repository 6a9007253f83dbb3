"""Functions and operators of the language itself.

Source: cel-go common/stdlib/standard.go, common/types (conversions, overflow), cel/library.go (optional types).
Logical operators, the conditional, `or` and `orValue` are evaluated by the program, because they do not always evaluate
all of their arguments.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import Any

from kcm.protocols.patterns import PatternError, compiled
from kcm.runtime.cel import values
from kcm.runtime.cel.declarations import Function, function, library
from kcm.runtime.cel.errors import EvaluationError
from kcm.runtime.cel.libraries import times
from kcm.runtime.cel.libraries.numbers import shown_double
from kcm.runtime.cel.values import (
    NOTHING,
    Duration,
    MapList,
    Optional,
    SetList,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    checked_int,
    checked_uint,
    equals,
    type_name,
)


def unreachable(*_arguments: Value) -> Value:
    raise AssertionError("the program evaluates this itself")


def _add_lists(left: list[Value], right: list[Value]) -> list[Value]:
    if type(left) is SetList:
        return SetList([*left, *(each for each in right if not values.contains(left, each))])
    if type(left) is MapList:
        merged = list(left)
        places = [left.key(each) for each in left]
        for each in right:
            key = left.key(each)
            if key in places:
                merged[places.index(key)] = each
            else:
                merged.append(each)
        return MapList(merged, left.keys)
    return [*left, *right]


def _divide(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return checked_int(quotient if (left < 0) == (right < 0) else -quotient)


def _modulo(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("modulus by zero")
    if left == values.SMALLEST and right == -1:
        raise EvaluationError("integer overflow")
    return abs(left) % abs(right) * (-1 if left < 0 else 1)


def _divide_uint(left: int, right: int) -> Uint:
    if right == 0:
        raise EvaluationError("division by zero")
    return Uint(left // right)


def _modulo_uint(left: int, right: int) -> Uint:
    if right == 0:
        raise EvaluationError("modulus by zero")
    return Uint(left % right)


def _divide_double(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or left != left:
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def _conversion(value: Value, target: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{type_name(value)}' to '{target}'")


def _int_of_double(value: float) -> int:
    if not -(2.0**63) < value < 2.0**63:
        raise EvaluationError("integer overflow")
    return int(value)


def _int_of_string(text: str) -> int:
    digits = text.lstrip("+-").lstrip("0") or "0"
    number = int(digits) if len(digits) < 20 and digits.isascii() and digits.isdigit() else values.LARGEST + 2
    number = -number if text.startswith("-") else number
    if re.fullmatch(r"[+-]?\d+", text, re.ASCII) is None or not values.SMALLEST <= number <= values.LARGEST:
        raise _conversion(text, "int")
    return number


def _uint_of_double(value: float) -> Uint:
    if not 0 <= value < 2.0**64:
        raise EvaluationError("unsigned integer overflow")
    return Uint(int(value))


def _uint_of_string(text: str) -> Uint:
    digits = text.lstrip("0") or "0"
    if re.fullmatch(r"\d+", text, re.ASCII) is None or len(digits) > 20 or int(digits) > values.LARGEST_UINT:
        raise _conversion(text, "uint")
    return Uint(int(digits))


_DOUBLE = re.compile(
    r"[+-]?(?:(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?|inf(?:inity)?)|nan", re.ASCII | re.IGNORECASE
)


def _double_of_string(text: str) -> float:
    if _DOUBLE.fullmatch(text) is None:
        raise _conversion(text, "double")
    try:
        number = float(text)
    except ValueError:  # an underscore that is not between two digits
        raise _conversion(text, "double") from None
    if math.isinf(number) and "i" not in text.lower():
        raise _conversion(text, "double")
    return number


def _bool_of_string(text: str) -> bool:
    if text in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if text in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise _conversion(text, "bool")


def _string_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def _duration_of_string(text: str) -> Duration:
    found = times.parse_duration(text)
    if found is None:
        raise _conversion(text, "google.protobuf.Duration")
    return found


def _no_duration(value: int) -> Duration:
    raise _conversion(value, "google.protobuf.Duration")


def _timestamp_of_string(text: str) -> Timestamp:
    found = times.parse_timestamp(text)
    if found is None:
        raise _conversion(text, "google.protobuf.Timestamp")
    return found


def _matches(text: str, pattern: str) -> bool:
    try:
        return compiled(pattern).search(text) is not None
    except PatternError as error:
        raise EvaluationError(str(error)) from None


def _same(value: Value) -> Value:
    return value


def _of_doubles(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Convert a comparison of two doubles to one of a double and another number."""

    def compared(left: float, right: float) -> bool:
        if left != left or right != right:
            raise EvaluationError("NaN values cannot be ordered")
        return compare(float(left), float(right))

    return compared


def _comparison(name: str, overload: str, compare: Callable[[Any, Any], bool]) -> Function:
    kinds = {"int": "int64", "uint": "uint64", "double": "double"}
    pairs = [
        (
            f"{overload}_{kinds[a]}" + ("" if a == b else f"_{kinds[b]}"),
            f"{a},{b}->bool",
            _of_doubles(compare) if "double" in (a, b) else compare,
        )
        for a in kinds
        for b in kinds
    ]
    rest = [
        (f"{overload}_{kind}", f"{kind},{kind}->bool", compare)
        for kind in ("bool", "string", "bytes", "timestamp", "duration")
    ]
    return function(name, *pairs, *rest)


def _size(kind: str) -> Function:
    name = kind.partition("(")[0]
    return function("size", (f"size_{name}", f"{kind}->int", len), (f"{name}_size", f".{kind}->int", len))


def _later(left: Duration, right: Duration) -> Duration:
    return times.duration_of(left.nanoseconds + right.nanoseconds)


def _later_time(left: Timestamp | Duration, right: Timestamp | Duration) -> Timestamp:
    return times.timestamp_of(left.nanoseconds + right.nanoseconds)


def _earlier(left: Timestamp | Duration, right: Timestamp | Duration) -> Duration:
    return times.duration_of(left.nanoseconds - right.nanoseconds)


def _earlier_time(left: Timestamp, right: Duration) -> Timestamp:
    return times.timestamp_of(left.nanoseconds - right.nanoseconds)


def _held(optionals: list[Optional]) -> list[Value]:
    if any(type(each) is not Optional for each in optionals):
        raise EvaluationError("no such overload: unwrapOpt(list)")
    return [each.value for each in optionals if each.present]


def _optional_value(optional: Optional) -> Value:
    if not optional.present:
        raise EvaluationError("optional.none() dereference")
    return optional.value


ZEROS = (Duration(0), Timestamp(times.EARLIEST * times.SECOND))


def _non_zero(value: Value) -> Optional:
    zero = value is None or (
        not value if isinstance(value, (bool, int, float, str, bytes, list, dict)) else value in ZEROS
    )
    return NOTHING if zero else Optional(True, value)


def _element(elements: list[Value], place: int) -> Optional:
    return Optional(True, elements[place]) if elements else NOTHING


def _in_map(key: Value, container: dict[Value, Value]) -> bool:
    return values.lookup(container, key)[0]


def _in_list(value: Value, container: list[Value]) -> bool:
    return values.contains(container, value)


STANDARD = library(
    function("_?_:_", ("conditional", "bool,A,A->A", unreachable)),
    function("_&&_", ("logical_and", "bool,bool->bool", unreachable)),
    function("_||_", ("logical_or", "bool,bool->bool", unreachable)),
    function("!_", ("logical_not", "bool->bool", operator.not_)),
    function("@not_strictly_false", ("not_strictly_false", "bool->bool", unreachable)),
    function("_==_", ("equals", "A,A->bool", equals)),
    function("_!=_", ("not_equals", "A,A->bool", lambda a, b: not equals(a, b))),
    function(
        "_+_",
        ("add_bytes", "bytes,bytes->bytes", operator.add),
        ("add_double", "double,double->double", operator.add),
        ("add_duration_duration", "duration,duration->duration", _later),
        ("add_duration_timestamp", "duration,timestamp->timestamp", _later_time),
        ("add_timestamp_duration", "timestamp,duration->timestamp", _later_time),
        ("add_int64", "int,int->int", lambda a, b: checked_int(a + b)),
        ("add_list", "list(A),list(A)->list(A)", _add_lists),
        ("add_string", "string,string->string", operator.add),
        ("add_uint64", "uint,uint->uint", lambda a, b: checked_uint(int(a) + int(b))),
    ),
    function(
        "_-_",
        ("subtract_double", "double,double->double", operator.sub),
        ("subtract_duration_duration", "duration,duration->duration", _earlier),
        ("subtract_int64", "int,int->int", lambda a, b: checked_int(a - b)),
        ("subtract_timestamp_duration", "timestamp,duration->timestamp", _earlier_time),
        ("subtract_timestamp_timestamp", "timestamp,timestamp->duration", _earlier),
        ("subtract_uint64", "uint,uint->uint", lambda a, b: checked_uint(int(a) - int(b))),
    ),
    function(
        "_*_",
        ("multiply_double", "double,double->double", operator.mul),
        ("multiply_int64", "int,int->int", lambda a, b: checked_int(a * b)),
        ("multiply_uint64", "uint,uint->uint", lambda a, b: checked_uint(int(a) * int(b))),
    ),
    function(
        "_/_",
        ("divide_double", "double,double->double", _divide_double),
        ("divide_int64", "int,int->int", _divide),
        ("divide_uint64", "uint,uint->uint", _divide_uint),
    ),
    function("_%_", ("modulo_int64", "int,int->int", _modulo), ("modulo_uint64", "uint,uint->uint", _modulo_uint)),
    function(
        "-_",
        ("negate_double", "double->double", operator.neg),
        ("negate_int64", "int->int", lambda a: checked_int(-a)),
    ),
    _comparison("_<_", "less", operator.lt),
    _comparison("_<=_", "less_equals", operator.le),
    _comparison("_>_", "greater", operator.gt),
    _comparison("_>=_", "greater_equals", operator.ge),
    function(
        "_[_]",
        ("index_list", "list(A),int->A", unreachable),
        ("index_map", "map(A,B),A->B", unreachable),
        ("optional_list_index_int", "optional_type(list(V)),int->optional_type(V)", unreachable),
        ("optional_map_index_value", "optional_type(map(K,V)),K->optional_type(V)", unreachable),
    ),
    function(
        "_[?_]",
        ("list_optindex_optional_int", "list(V),int->optional_type(V)", unreachable),
        ("optional_list_optindex_optional_int", "optional_type(list(V)),int->optional_type(V)", unreachable),
        ("map_optindex_optional_value", "map(K,V),K->optional_type(V)", unreachable),
        ("optional_map_optindex_optional_value", "optional_type(map(K,V)),K->optional_type(V)", unreachable),
    ),
    function("@in", ("in_list", "A,list(A)->bool", _in_list), ("in_map", "A,map(A,B)->bool", _in_map)),
    *(_size(kind) for kind in ("bytes", "list(A)", "map(A,B)", "string")),
    function("type", ("type", "A->type(A)", lambda value: TypeValue(type_name(value)))),
    function("dyn", ("to_dyn", "A->dyn", _same)),
    function("bool", ("bool_to_bool", "bool->bool", _same), ("string_to_bool", "string->bool", _bool_of_string)),
    function("bytes", ("bytes_to_bytes", "bytes->bytes", _same), ("string_to_bytes", "string->bytes", str.encode)),
    function(
        "double",
        ("double_to_double", "double->double", _same),
        ("int64_to_double", "int->double", float),
        ("string_to_double", "string->double", _double_of_string),
        ("uint64_to_double", "uint->double", float),
    ),
    function(
        "duration",
        ("duration_to_duration", "duration->duration", _same),
        ("int64_to_duration", "int->duration", _no_duration),
        ("string_to_duration", "string->duration", _duration_of_string),
    ),
    function(
        "int",
        ("int64_to_int64", "int->int", _same),
        ("double_to_int64", "double->int", _int_of_double),
        ("duration_to_int64", "duration->int", lambda value: value.nanoseconds),
        ("string_to_int64", "string->int", _int_of_string),
        ("timestamp_to_int64", "timestamp->int", lambda value: value.nanoseconds // times.SECOND),
        ("uint64_to_int64", "uint->int", lambda value: checked_int(int(value))),
    ),
    function(
        "string",
        ("string_to_string", "string->string", _same),
        ("bool_to_string", "bool->string", values.shown),
        ("bytes_to_string", "bytes->string", _string_of_bytes),
        ("double_to_string", "double->string", shown_double),
        ("duration_to_string", "duration->string", times.shown_duration),
        ("int64_to_string", "int->string", str),
        ("timestamp_to_string", "timestamp->string", times.shown_timestamp),
        ("uint64_to_string", "uint->string", str),
    ),
    function(
        "timestamp",
        ("timestamp_to_timestamp", "timestamp->timestamp", _same),
        ("int64_to_timestamp", "int->timestamp", lambda value: times.timestamp_of(value * times.SECOND)),
        ("string_to_timestamp", "string->timestamp", _timestamp_of_string),
    ),
    function(
        "uint",
        ("uint64_to_uint64", "uint->uint", _same),
        ("double_to_uint64", "double->uint", _uint_of_double),
        ("int64_to_uint64", "int->uint", checked_uint),
        ("string_to_uint64", "string->uint", _uint_of_string),
    ),
    function("contains", ("contains_string", ".string,string->bool", lambda text, part: part in text)),
    function("startsWith", ("starts_with_string", ".string,string->bool", str.startswith)),
    function("endsWith", ("ends_with_string", ".string,string->bool", str.endswith)),
    function(
        "matches", ("matches", "string,string->bool", _matches), ("matches_string", ".string,string->bool", _matches)
    ),
    *times.FUNCTIONS,
    function(
        "cel.@mapInsert",
        ("@mapInsert_map_key_value", "map(K,V),K,V->map(K,V)", unreachable),
        ("@mapInsert_map_map", "map(K,V),map(K,V)->map(K,V)", unreachable),
    ),
    function("optional.of", ("optional_of", "V->optional_type(V)", lambda value: Optional(True, value))),
    function("optional.ofNonZeroValue", ("optional_ofNonZeroValue", "V->optional_type(V)", _non_zero)),
    function("optional.none", ("optional_none", "->optional_type(V)", lambda: NOTHING)),
    function("value", ("optional_value", ".optional_type(V)->V", _optional_value)),
    function("hasValue", ("optional_hasValue", ".optional_type(V)->bool", lambda optional: optional.present)),
    function("or", ("optional_or_optional", ".optional_type(V),optional_type(V)->optional_type(V)", unreachable)),
    function("orValue", ("optional_orValue_value", ".optional_type(V),V->V", unreachable)),
    function("first", ("list_first", ".list(V)->optional_type(V)", lambda each: _element(each, 0))),
    function("last", ("list_last", ".list(V)->optional_type(V)", lambda each: _element(each, -1))),
    function("optional.unwrap", ("optional_unwrap", "list(optional_type(V))->list(V)", _held)),
    function("unwrapOpt", ("optional_unwrapOpt", ".list(optional_type(V))->list(V)", _held)),
)  # fmt: skip
