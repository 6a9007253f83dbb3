"""Kubernetes' own functions: quantities, semantic versions, named formats, regular expressions, JSON patch keys.

Source: k8s.io/apiserver/pkg/cel/library/quantity.go, semverlib.go, format.go, regex.go, jsonpatch.go.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from protocols.late_methods import dataclass
from protocols.names import dns1035_label, dns_label, dns_subdomain, label_key, label_value
from protocols.patterns import PatternError, compiled
from protocols.quantities import parse_quantity
from runtime.cel.declarations import Function, function, library
from runtime.cel.errors import EvaluationError
from runtime.cel.libraries import times
from runtime.cel.libraries.networks import request_uri_problem
from runtime.cel.values import LARGEST, LARGEST_UINT, NOTHING, SMALLEST, Opaque, Optional, Value

QUANTITY, SEMVER = "kubernetes.Quantity", "kubernetes.Semver"
QUANTITY_PROBLEM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@dataclass(frozen=True, slots=True)
class QuantityValue(Opaque):
    amount: Decimal
    type_name = "kubernetes.Quantity"


def _quantity(text: str) -> QuantityValue:
    try:
        return QuantityValue(Decimal(parse_quantity(text)))
    except (ValueError, ArithmeticError):
        raise EvaluationError(QUANTITY_PROBLEM) from None


def _is_quantity(text: str) -> bool:
    try:
        _quantity(text)
    except EvaluationError:
        return False
    return True


def _as_integer(quantity: QuantityValue) -> int:
    if not _is_integer(quantity):
        raise EvaluationError("cannot convert value to integer")
    return int(quantity.amount)


def _is_integer(quantity: QuantityValue) -> bool:
    return quantity.amount == int(quantity.amount) and SMALLEST <= quantity.amount <= LARGEST


def _amount(value: QuantityValue | int) -> Decimal:
    return value.amount if isinstance(value, QuantityValue) else Decimal(value)


def _compared(left: Value, right: Value) -> int:
    return int(left > right) - int(left < right)


def _compared_amounts(left: QuantityValue, right: QuantityValue) -> int:
    return _compared(left.amount, right.amount)


@dataclass(frozen=True, slots=True)
class Semver(Opaque):
    numbers: tuple[int, int, int]
    prerelease: tuple[str, ...]
    build: tuple[str, ...]
    type_name = "kubernetes.Semver"

    def cel_equals(self, other: Value) -> bool:
        return isinstance(other, Semver) and _compared_versions(self, other) == 0


_SEMVER = re.compile(
    r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?", re.ASCII
)


def _semver(text: str, normalize: bool = False) -> Semver:
    text = _normalized(text) if normalize else text
    if not text:
        raise EvaluationError("Version string empty")
    if text.count(".") < 2:
        raise EvaluationError("No Major.Minor.Patch elements found")
    match = _SEMVER.fullmatch(text)
    if match is None:
        raise EvaluationError(f'Invalid character(s) found in version "{text}"')
    prerelease = tuple((match.group(4) or "").split(".")) if match.group(4) else ()
    for number in (*match.groups()[:3], *filter(str.isdigit, prerelease)):
        if len(number.lstrip("0")) > 20 or int(number) > LARGEST_UINT:
            raise EvaluationError(f'strconv.ParseUint: parsing "{number}": value out of range')
    for number, word in zip(match.groups()[:3], ("Major", "Minor", "Patch"), strict=True):
        if len(number) > 1 and number.startswith("0"):
            raise EvaluationError(f'{word} number must not contain leading zeroes "{number}"')
    for part in prerelease:
        if part.isdigit() and len(part) > 1 and part.startswith("0"):
            raise EvaluationError(f'Numeric PreRelease version must not contain leading zeroes "{part}"')
    build = tuple((match.group(5) or "").split(".")) if match.group(5) else ()
    return Semver((int(match.group(1)), int(match.group(2)), int(match.group(3))), prerelease, build)


def _normalized(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    for place, part in enumerate(parts):
        if len(part) > 1:
            part = part.lstrip("0")
            parts[place] = part if part and part[0] in "0123456789" else "0" + part
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise EvaluationError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _signed(number: int) -> int:
    """As upstream makes one of 64 bits of an unsigned one."""
    return number if number <= LARGEST else number - LARGEST_UINT - 1


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        _semver(text, normalize)
    except EvaluationError:
        return False
    return True


def _compared_versions(left: Semver, right: Semver) -> int:
    if left.numbers != right.numbers:
        return _compared(left.numbers, right.numbers)
    if not left.prerelease or not right.prerelease:
        return bool(right.prerelease) - bool(left.prerelease)

    def ranked(part: str) -> tuple[bool, int, str]:
        return (False, int(part), "") if part.isdigit() else (True, 0, part)

    return _compared([ranked(each) for each in left.prerelease], [ranked(each) for each in right.prerelease])


@dataclass(frozen=True, slots=True)
class NamedFormat(Opaque):
    """longest_pattern: size of the regular expression that stands for its cost."""

    name: str
    problems: Callable[[str], list[str]]
    longest_pattern: int
    type_name = "kubernetes.NamedFormat"

    @property
    def size(self) -> int:
        return len(self.name)


def _uri(text: str) -> list[str]:
    problem = request_uri_problem(text)
    return [] if problem is None else [f'parse "{text}": {problem}']


def _uuid(text: str) -> list[str]:
    pattern = r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"
    return [] if re.fullmatch(pattern, text, re.IGNORECASE | re.ASCII) else ["does not match the UUID format"]


def _byte(text: str) -> list[str]:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ["invalid base64"]
    return [] if text else ["invalid base64"]


def _date(text: str) -> list[str]:
    return [] if times.parse_timestamp(f"{text}T00:00:00Z") is not None and len(text) == 10 else ["invalid date"]


def _datetime(text: str) -> list[str]:
    return [] if times.parse_timestamp(text) is not None else ["invalid datetime"]


def _prefix(problems: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """Of a name that a suffix will follow: a dash at its end is fine."""
    return lambda text: problems(text[:-1] + "a" if len(text) > 1 and text.endswith("-") else text)


FORMATS = {
    name: NamedFormat(shown, problems, longest)
    for name, shown, problems, longest in (
        ("dns1123Label", "DNS1123Label", dns_label, 30),
        ("dns1123Subdomain", "DNS1123Subdomain", dns_subdomain, 60),
        ("dns1035Label", "DNS1035Label", dns1035_label, 30),
        ("qualifiedName", "QualifiedName", label_key, 60),
        ("dns1123LabelPrefix", "DNS1123LabelPrefix", _prefix(dns_label), 30),
        ("dns1123SubdomainPrefix", "DNS1123SubdomainPrefix", _prefix(dns_subdomain), 60),
        ("dns1035LabelPrefix", "DNS1035LabelPrefix", _prefix(dns1035_label), 30),
        ("labelValue", "LabelValue", label_value, 40),
        ("uri", "URI", _uri, 1103),
        ("uuid", "uuid", _uuid, 79),
        ("byte", "byte", _byte, 84),
        ("date", "date", _date, 117),
        ("datetime", "datetime", _datetime, 117),
    )
}


def _named(name: str) -> Optional:
    known = FORMATS.get(name)
    return NOTHING if known is None else Optional(True, known)


def _validated(kind: NamedFormat, text: str) -> Optional:
    problems = kind.problems(text)
    return Optional(True, problems) if problems else NOTHING


def _find(text: str, pattern: str) -> str:
    match = _compiled(pattern).search(text)
    return match.group() if match is not None else ""


def _find_all(text: str, pattern: str, count: int = -1) -> list[str]:
    found = [match.group() for match in _compiled(pattern).finditer(text)]
    return found if count < 0 else found[:count]


def _compiled(pattern: str) -> Any:
    try:
        return compiled(pattern)
    except PatternError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None


def _constant(value: Value) -> Callable[[], Value]:
    return lambda: value


def _add(left: QuantityValue, right: QuantityValue | int) -> QuantityValue:
    return QuantityValue(left.amount + _amount(right))


def _subtract(left: QuantityValue, right: QuantityValue | int) -> QuantityValue:
    return QuantityValue(left.amount - _amount(right))


def _escaped_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _comparison(name: str, overload: str, result: str, of: Callable[[int], int]) -> Function:
    return function(
        name,
        (f"quantity_{overload}", f".{QUANTITY},{QUANTITY}->{result}", lambda a, b: of(_compared_amounts(a, b))),
        (f"semver_{overload}", f".{SEMVER},{SEMVER}->{result}", lambda a, b: of(_compared_versions(a, b))),
    )


KUBERNETES = library(
    function("quantity", ("string_to_quantity", "string->kubernetes.Quantity", _quantity)),
    function("isQuantity", ("is_quantity_string", "string->bool", _is_quantity)),
    function("sign", ("quantity_sign", "kubernetes.Quantity->int", lambda each: _compared(each.amount, 0))),
    function("asApproximateFloat", ("quantity_get_float", f".{QUANTITY}->double", lambda each: float(each.amount))),
    function("asInteger", ("quantity_get_int", ".kubernetes.Quantity->int", _as_integer)),
    function("isInteger", ("quantity_is_integer", ".kubernetes.Quantity->bool", _is_integer)),
    function(
        "add",
        ("quantity_add", f".{QUANTITY},{QUANTITY}->{QUANTITY}", _add),
        ("quantity_add_int", f".{QUANTITY},int->{QUANTITY}", _add),
    ),
    function(
        "sub",
        ("quantity_sub", f".{QUANTITY},{QUANTITY}->{QUANTITY}", _subtract),
        ("quantity_sub_int", f".{QUANTITY},int->{QUANTITY}", _subtract),
    ),
    _comparison("isGreaterThan", "is_greater_than", "bool", lambda order: order > 0),
    _comparison("isLessThan", "is_less_than", "bool", lambda order: order < 0),
    _comparison("compareTo", "compare_to", "int", lambda order: order),
    function(
        "semver",
        ("string_to_semver", "string->kubernetes.Semver", _semver),
        ("string_bool_to_semver", "string,bool->kubernetes.Semver", _semver),
    ),
    function(
        "isSemver",
        ("is_semver_string", "string->bool", _is_semver),
        ("is_semver_string_bool", "string,bool->bool", _is_semver),
    ),
    function("major", ("semver_major", ".kubernetes.Semver->int", lambda version: _signed(version.numbers[0]))),
    function("minor", ("semver_minor", ".kubernetes.Semver->int", lambda version: _signed(version.numbers[1]))),
    function("patch", ("semver_patch", ".kubernetes.Semver->int", lambda version: _signed(version.numbers[2]))),
    *(
        function(f"format.{name}", (f"format.{name}", "->kubernetes.NamedFormat", _constant(each)))
        for name, each in FORMATS.items()
    ),
    function("format.named", ("format-named", "string->optional_type(kubernetes.NamedFormat)", _named)),
    function(
        "validate", ("format-validate", ".kubernetes.NamedFormat,string->optional_type(list(string))", _validated)
    ),
    function("find", ("string_find_string", ".string,string->string", _find)),
    function(
        "findAll",
        ("string_find_all_string", ".string,string->list(string)", _find_all),
        ("string_find_all_string_int", ".string,string,int->list(string)", _find_all),
    ),
)

JSON_PATCH = library(
    function("jsonpatch.escapeKey", ("string_jsonpatch_escapeKey_string", "string->string", _escaped_key)),
)
