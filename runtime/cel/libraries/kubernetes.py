"""Kubernetes' functions: quantities, semantic versions, named formats, regular expressions, JSON patch keys.

Source: k8s.io/apiserver/pkg/cel/library/quantity.go, semverlib.go, format.go, regex.go, jsonpatch.go.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from msgspec import Struct

from kcm.protocols.names import dns1035_label, dns_label, dns_subdomain, label_key, label_value
from kcm.protocols.patterns import PatternError, compiled
from kcm.protocols.quantities import BINARY_EXPONENTS, DECIMAL_EXPONENTS, parse_quantity
from kcm.runtime.cel.declarations import Function, function, library
from kcm.runtime.cel.errors import EvaluationError
from kcm.runtime.cel.libraries import times
from kcm.runtime.cel.libraries.format import quoted
from kcm.runtime.cel.libraries.networks import request_uri_problem
from kcm.runtime.cel.values import LARGEST, LARGEST_UINT, NOTHING, SMALLEST, Opaque, Optional, Value

QUANTITY, SEMVER = "kubernetes.Quantity", "kubernetes.Semver"
QUANTITY_PROBLEM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


class QuantityValue(Struct, Opaque, frozen=True):
    """A quantity. places: decimal exponent of the 64-bit integer in which upstream keeps it; None if upstream does not.

    isInteger is true only for such an integer with an exponent of at least 0: not for 1.0 or 1000m.
    """

    amount: Decimal
    places: int | None = None
    type_name = "kubernetes.Quantity"

    def cel_equals(self, other: Value) -> bool:
        return isinstance(other, QuantityValue) and self.amount == other.amount


_PARTS = re.compile(r"[+-]?(\d*)(?:\.(\d*))?(.*)", re.ASCII)
_ALLOWED = re.compile(r"([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)


def parsed_quantity(text: str) -> QuantityValue:
    try:
        amount = Decimal(parse_quantity(text))
    except (ValueError, ArithmeticError):
        known = _ALLOWED.fullmatch(text) is not None
        raise EvaluationError("unable to parse quantity's suffix" if known else QUANTITY_PROBLEM) from None
    return QuantityValue(amount, _places(text))


def _places(text: str) -> int | None:
    """Return the decimal exponent of a quantity that upstream stores as an integer, or None if it is stored as a Dec.

    Source: apimachinery pkg/api/resource/quantity.go, ParseQuantity.
    """
    match = _PARTS.fullmatch(text)
    assert match is not None
    whole, fraction, suffix = match.group(1).lstrip("0"), match.group(2) or "", match.group(3)
    if suffix in BINARY_EXPONENTS:
        exponent = BINARY_EXPONENTS[suffix]
        return 0 if not fraction and 15 - len(whole) - exponent * 3 // 10 - 1 >= 0 else None
    places = DECIMAL_EXPONENTS[suffix] if suffix in DECIMAL_EXPONENTS else int(suffix[1:])
    if 18 - len(whole) - len(fraction) < 0 or places - len(fraction) < -9:
        return None
    return places - len(fraction)


def _is_quantity(text: str) -> bool:
    try:
        parsed_quantity(text)
    except EvaluationError:
        return False
    return True


def _as_integer(quantity: QuantityValue) -> int:
    if not _is_integer(quantity):
        raise EvaluationError("cannot convert value to integer")
    return int(quantity.amount)


def _is_integer(quantity: QuantityValue) -> bool:
    return quantity.places is not None and quantity.places >= 0 and SMALLEST <= quantity.amount <= LARGEST


def _as_float(quantity: QuantityValue) -> float:
    if quantity.places is None:
        return float(quantity.amount)
    return float(int(quantity.amount.scaleb(-quantity.places))) * float(f"1e{quantity.places}")


def _sum(left: QuantityValue, amount: Decimal, places: int | None) -> QuantityValue:
    total = left.amount + amount
    if left.places is None or places is None:
        return QuantityValue(total)
    if not left.amount or not amount:
        return QuantityValue(total, left.places if left.amount else places)
    lowest = min(left.places, places)
    fits = all(SMALLEST <= each.scaleb(-lowest) <= LARGEST for each in (left.amount, amount, total))
    return QuantityValue(total, lowest if fits else None)


def _add(left: QuantityValue, right: QuantityValue | int) -> QuantityValue:
    if isinstance(right, QuantityValue):
        return _sum(left, right.amount, right.places)
    return _sum(left, Decimal(right), 0)


def _subtract(left: QuantityValue, right: QuantityValue | int) -> QuantityValue:
    if isinstance(right, QuantityValue):
        return _sum(left, -right.amount, right.places)
    return _sum(left, Decimal(-right), 0)


def _compared(left: Value, right: Value) -> int:
    return int(left > right) - int(left < right)


def _compared_amounts(left: QuantityValue, right: QuantityValue) -> int:
    return _compared(left.amount, right.amount)


class Semver(Struct, Opaque, frozen=True):
    numbers: tuple[int, int, int]
    prerelease: tuple[str, ...]
    build: tuple[str, ...]
    type_name = "kubernetes.Semver"

    def cel_equals(self, other: Value) -> bool:
        return isinstance(other, Semver) and _compared_versions(self, other) == 0


_NUMERIC = re.compile(r"\d*", re.ASCII)
_ALPHANUMERIC = re.compile(r"[0-9A-Za-z-]*", re.ASCII)


def parsed_version(text: str, normalize: bool = False) -> Semver:
    """Parse a semantic version. Source: blang/semver Parse."""
    text = _normalized(text) if normalize else text
    if not text:
        raise EvaluationError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) < 3:
        raise EvaluationError("No Major.Minor.Patch elements found")
    rest, plus, built = parts[2].partition("+")
    patch, dash, before = rest.partition("-")
    numbers = tuple(map(_version_number, ("Major", "Minor", "Patch"), (*parts[:2], patch)))
    prerelease = tuple(before.split(".")) if dash else ()
    for part in prerelease:
        _check_prerelease(part)
    build = tuple(built.split(".")) if plus else ()
    for part in build:
        if not part:
            raise EvaluationError("Build meta data is empty")
        if _ALPHANUMERIC.fullmatch(part) is None:
            raise EvaluationError(f"Invalid character(s) found in build meta data {quoted(part)}")
    return Semver((numbers[0], numbers[1], numbers[2]), prerelease, build)


def _version_number(word: str, text: str) -> int:
    if _NUMERIC.fullmatch(text) is None:
        raise EvaluationError(f"Invalid character(s) found in {word.lower()} number {quoted(text)}")
    if len(text) > 1 and text.startswith("0"):
        raise EvaluationError(f"{word} number must not contain leading zeroes {quoted(text)}")
    return _unsigned(text)


def _unsigned(text: str) -> int:
    problem = None
    if not text:
        problem = "invalid syntax"
    elif len(text) > 20 or int(text) > LARGEST_UINT:
        problem = "value out of range"
    if problem is not None:
        raise EvaluationError(f"strconv.ParseUint: parsing {quoted(text)}: {problem}")
    return int(text)


def _check_prerelease(part: str) -> None:
    if not part:
        raise EvaluationError("Prerelease is empty")
    if _NUMERIC.fullmatch(part) is not None:
        if len(part) > 1 and part.startswith("0"):
            raise EvaluationError(f"Numeric PreRelease version must not contain leading zeroes {quoted(part)}")
        _unsigned(part)
    elif _ALPHANUMERIC.fullmatch(part) is None:
        raise EvaluationError(f"Invalid character(s) found in prerelease {quoted(part)}")


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
    """Convert an unsigned 64-bit integer to a signed one, as Go does."""
    return number if number <= LARGEST else number - LARGEST_UINT - 1


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        parsed_version(text, normalize)
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


class NamedFormat(Struct, Opaque, frozen=True):
    """A named format. longest_pattern: size of the regular expression that determines its cost."""

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
    return [] if times.parse_timestamp(text.upper()) is not None else ["invalid datetime"]


def _prefix(problems: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """Validate the prefix of a generated name, which may end with a dash."""
    return lambda text: problems(text[:-1] + "a" if len(text) > 1 and text.endswith("-") else text)


def _in_bytes(problems: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """Use the text of upstream's generated validation, which counts bytes."""
    return lambda text: [
        re.sub(r"no more than 63 characters$", "no more than 63 bytes", each) for each in problems(text)
    ]


FORMATS = {
    name: NamedFormat(shown, problems, longest)
    for name, shown, problems, longest in (
        ("dns1123Label", "DNS1123Label", dns_label, 30),
        ("dns1123Subdomain", "DNS1123Subdomain", dns_subdomain, 60),
        ("dns1035Label", "DNS1035Label", dns1035_label, 30),
        ("qualifiedName", "QualifiedName", _in_bytes(label_key), 60),
        ("dns1123LabelPrefix", "DNS1123LabelPrefix", _prefix(dns_label), 30),
        ("dns1123SubdomainPrefix", "DNS1123SubdomainPrefix", _prefix(dns_subdomain), 60),
        ("dns1035LabelPrefix", "DNS1035LabelPrefix", _prefix(dns1035_label), 30),
        ("labelValue", "LabelValue", _in_bytes(label_value), 40),
        ("uri", "URI", _uri, 1103),
        ("uuid", "uuid", _uuid, 70),
        ("byte", "byte", _byte, 84),
        ("date", "date", _date, 71),
        ("datetime", "datetime", _datetime, 71),
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
    found, end = [], -1
    for match in _compiled(pattern).finditer(text):
        if match.end() > match.start() or match.start() != end:  # an empty one does not follow another at once
            found.append(match.group())
        end = match.end()
    return found if count < 0 else found[:count]


def _compiled(pattern: str) -> Any:
    try:
        return compiled(pattern)
    except PatternError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None


def _constant(value: Value) -> Callable[[], Value]:
    return lambda: value


def _escaped_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _comparison(name: str, overload: str, result: str, of: Callable[[int], int]) -> Function:
    return function(
        name,
        (f"quantity_{overload}", f".{QUANTITY},{QUANTITY}->{result}", lambda a, b: of(_compared_amounts(a, b))),
        (f"semver_{overload}", f".{SEMVER},{SEMVER}->{result}", lambda a, b: of(_compared_versions(a, b))),
    )


KUBERNETES = library(
    function("quantity", ("string_to_quantity", "string->kubernetes.Quantity", parsed_quantity)),
    function("isQuantity", ("is_quantity_string", "string->bool", _is_quantity)),
    function("sign", ("quantity_sign", "kubernetes.Quantity->int", lambda each: _compared(each.amount, 0))),
    function("asApproximateFloat", ("quantity_get_float", f".{QUANTITY}->double", _as_float)),
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
        ("string_to_semver", "string->kubernetes.Semver", parsed_version),
        ("string_bool_to_semver", "string,bool->kubernetes.Semver", parsed_version),
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
