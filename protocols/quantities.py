"""Resource quantities ("100m", "1.5Gi", "2e3") as exact decimals, and their canonical text.

The value is a decimal.Decimal: Python compares, adds and hashes it without rounding to a float. The format (the family
of suffixes) only affects the text.

Source: apimachinery pkg/api/resource. Differences: text without a digit (".", "k") is an error, where upstream reads 0;
text longer than any real quantity is rejected, so that no request makes us compute 10**10**9; the text is always
canonical, where upstream keeps some of it as it was ("007", "1E3") and writes 1000E as "1".
"""

from __future__ import annotations

import re
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

QuantityText = str | int | float

DECIMAL_EXPONENTS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY_EXPONENTS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIXES = {exponent: suffix for suffix, exponent in DECIMAL_EXPONENTS.items()}
_BINARY_SUFFIXES = {exponent: suffix for suffix, exponent in BINARY_EXPONENTS.items()}
_QUANTITY = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+|)")
_MOST_BINARY = 2**63 - 1
_LONGEST = 128  # characters of text, and decimal digits of a value


class QuantityFormat(Enum):
    """Family of suffixes of a quantity's text."""

    DECIMAL_SI = "DecimalSI"  # 100m, 5, 12M
    BINARY_SI = "BinarySI"  # 64Mi
    DECIMAL_EXPONENT = "DecimalExponent"  # 12e6


class Quantity(NamedTuple):
    """Value of a quantity, with the format of its text. str() returns the canonical text."""

    value: Decimal
    form: QuantityFormat = QuantityFormat.DECIMAL_SI

    def __str__(self) -> str:
        return format_quantity(self.value, self.form)


def read_quantity(quantity: QuantityText) -> Quantity:
    """Parse a quantity, and keep its format."""
    return Quantity(*_parse(quantity))


def parse_quantity(quantity: QuantityText) -> Decimal:
    """Return the value of a quantity: text with any suffix, or a JSON number.

    A value finer than 1n is rounded away from zero; a value with a binary suffix is capped at 2**63-1. Raises
    ValueError for an invalid quantity.
    """
    return _parse(quantity)[0]


def canonical_quantity(quantity: QuantityText) -> str:
    """Return the text that the API server returns: "0.5" → "500m", "1000" → "1k", "1.5Gi" → "1536Mi"."""
    value, form = _parse(quantity)
    return format_quantity(value, form)


def format_quantity(value: Decimal | int, form: QuantityFormat = QuantityFormat.DECIMAL_SI) -> str:
    """Return the canonical text: an integer with the largest suffix that loses no digits.

    BINARY_SI falls back to DECIMAL_SI for a value that is not an integer, or below 1024. Raises ValueError on a value
    that is finer than 1n, or not finite.
    """
    value = Decimal(value)
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):  # NaN or infinite
        raise ValueError(f"not a quantity: {value}")
    number = int("".join(map(str, digits)))
    if number == 0:
        return "0"
    minus = "-" if sign else ""
    if form is QuantityFormat.BINARY_SI and abs(value) >= 1024 and value == value.to_integral_value():
        return minus + _format_binary(number * 10**exponent if exponent >= 0 else number // 10**-exponent)
    while number % 10 == 0:
        number, exponent = number // 10, exponent + 1
    if exponent < -9:
        raise ValueError(f"not a quantity: {value} is finer than 1n")
    # There are suffixes for multiples of 3, up to E. Beyond it upstream drops the exponent; here the zeros stay.
    most = exponent if form is QuantityFormat.DECIMAL_EXPONENT else 18
    wanted = min(exponent - exponent % 3, most)
    number *= 10 ** (exponent - wanted)
    if form is QuantityFormat.DECIMAL_EXPONENT:
        return f"{minus}{number}e{wanted}" if wanted else f"{minus}{number}"
    return f"{minus}{number}{_DECIMAL_SUFFIXES[wanted]}"


def whole_value(quantity: Decimal | QuantityText) -> int:
    """Return the value in units, rounded away from zero: "1.5" → 2. Upstream's Value()."""
    return _rounded_up(quantity, 1)


def milli_value(quantity: Decimal | QuantityText) -> int:
    """Return the value in thousandths, rounded away from zero: "0.5" → 500, "100u" → 1. Upstream's MilliValue()."""
    return _rounded_up(quantity, 1000)


def _rounded_up(quantity: Decimal | QuantityText, parts: int) -> int:
    value = quantity if isinstance(quantity, Decimal) else parse_quantity(quantity)
    numerator, denominator = value.as_integer_ratio()
    number = -(-abs(numerator) * parts // denominator)
    return number if numerator >= 0 else -number


def _format_binary(number: int) -> str:
    exponent = 0
    while number % 1024 == 0 and exponent < 60:
        number, exponent = number // 1024, exponent + 10
    return f"{number}{_BINARY_SUFFIXES[exponent]}" if exponent else str(number)


def _parse(quantity: QuantityText) -> tuple[Decimal, QuantityFormat]:
    if isinstance(quantity, bool) or not isinstance(quantity, str | int | float):
        raise ValueError(f"not a quantity: {quantity!r}")
    return _parse_text(quantity if isinstance(quantity, str) else repr(quantity))


@lru_cache(maxsize=1024)  # a cluster has few distinct quantities, which every new pod repeats
def _parse_text(text: str) -> tuple[Decimal, QuantityFormat]:
    found = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None or not (found[2] or found[3]):
        raise ValueError(f"not a quantity: {text[:_LONGEST]!r}; expected a number and a suffix such as m, k, Mi or e3")
    sign, whole, fraction, suffix = found[1], found[2], found[3] or "", found[4]
    number, exponent = int(whole + fraction), -len(fraction)
    form = QuantityFormat.DECIMAL_SI
    if suffix in BINARY_EXPONENTS:
        form = QuantityFormat.BINARY_SI
        number <<= BINARY_EXPONENTS[suffix]
    elif suffix in DECIMAL_EXPONENTS:
        exponent += DECIMAL_EXPONENTS[suffix]
    else:
        form = QuantityFormat.DECIMAL_EXPONENT
        exponent += int(suffix[1:])
    if number == 0:
        return Decimal(0), form
    if exponent + len(str(number)) > _LONGEST:
        raise ValueError(f"not a quantity: {text!r} is too large")
    if exponent < -9:
        # Rounded away from zero, so that a small request is not lost. A number with all digits below 1n becomes 1n.
        number = -(-number // 10 ** min(-9 - exponent, len(str(number))))
        exponent = -9
    if form is QuantityFormat.BINARY_SI and number > _MOST_BINARY * 10**-exponent:
        number, exponent = _MOST_BINARY, 0
    return Decimal((1 if sign == "-" else 0, tuple(map(int, str(number))), exponent)), form
