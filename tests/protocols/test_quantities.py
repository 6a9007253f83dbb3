"""Quantities: values, canonical format, and exact arithmetic."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm.protocols.quantities import (
    QuantityFormat,
    QuantityText,
    canonical_quantity,
    format_quantity,
    milli_value,
    parse_quantity,
    whole_value,
)

SI, BINARY, EXPONENT = QuantityFormat.DECIMAL_SI, QuantityFormat.BINARY_SI, QuantityFormat.DECIMAL_EXPONENT


@pytest.mark.parametrize(
    ("text", "value", "form", "canonical"),
    [
        ("0", "0", SI, "0"),
        ("0Ki", "0", BINARY, "0"),
        ("0e5", "0", EXPONENT, "0"),
        ("-0", "0", SI, "0"),
        ("1", "1", SI, "1"),
        ("+1", "1", SI, "1"),
        ("-1", "-1", SI, "-1"),
        ("007", "7", SI, "7"),
        ("1.", "1", SI, "1"),
        (".5", "0.5", SI, "500m"),
        ("0.5", "0.5", SI, "500m"),
        ("1.5", "1.5", SI, "1500m"),
        ("1.50", "1.5", SI, "1500m"),
        ("100m", "0.1", SI, "100m"),
        ("1000m", "1", SI, "1"),
        ("5n", "0.000000005", SI, "5n"),
        ("5u", "0.000005", SI, "5u"),
        ("1000n", "0.000001", SI, "1u"),
        ("1000", "1000", SI, "1k"),
        ("1024", "1024", SI, "1024"),
        ("12k", "12000", SI, "12k"),
        ("1.5M", "1500000", SI, "1500k"),
        ("3G", "3000000000", SI, "3G"),
        ("3T", "3000000000000", SI, "3T"),
        ("3P", "3000000000000000", SI, "3P"),
        ("3E", "3000000000000000000", SI, "3E"),
        ("1000E", "1000000000000000000000", SI, "1000E"),
        ("1Ki", "1024", BINARY, "1Ki"),
        ("1Mi", "1048576", BINARY, "1Mi"),
        ("1Gi", "1073741824", BINARY, "1Gi"),
        ("1Ti", "1099511627776", BINARY, "1Ti"),
        ("1Pi", "1125899906842624", BINARY, "1Pi"),
        ("1Ei", "1152921504606846976", BINARY, "1Ei"),
        ("1024Mi", "1073741824", BINARY, "1Gi"),
        ("1.5Gi", "1610612736", BINARY, "1536Mi"),
        ("-1.5Gi", "-1610612736", BINARY, "-1536Mi"),
        ("1000Ki", "1024000", BINARY, "1000Ki"),
        ("0.5Ki", "512", BINARY, "512"),
        ("0.3Ki", "307.2", BINARY, "307200m"),
        ("1.3Mi", "1363148.8", BINARY, "1363148800m"),
        ("9999999Ei", "9223372036854775807", BINARY, "9223372036854775807"),
        ("-9999999Ei", "-9223372036854775807", BINARY, "-9223372036854775807"),
        ("9007199254740992.5Ki", "9223372036854775807", BINARY, "9223372036854775807"),
        ("12e6", "12000000", EXPONENT, "12e6"),
        ("12E6", "12000000", EXPONENT, "12e6"),
        ("1e+3", "1000", EXPONENT, "1e3"),
        ("1e2", "100", EXPONENT, "100"),
        ("1.1e5", "110000", EXPONENT, "110e3"),
        ("1e-3", "0.001", EXPONENT, "1e-3"),
        ("1e21", "1000000000000000000000", EXPONENT, "1e21"),
        ("0.1n", "0.000000001", SI, "1n"),  # finer than a nano rounds away from zero
        ("-0.1n", "-0.000000001", SI, "-1n"),
        ("1.0000000001", "1.000000001", SI, "1000000001n"),
        ("1e-99999999999999999999", "0.000000001", EXPONENT, "1e-9"),
        (5, "5", SI, "5"),
        (0, "0", SI, "0"),
        (0.5, "0.5", SI, "500m"),
        (1e22, "10000000000000000000000", EXPONENT, "10e21"),
        (1e-7, "0.0000001", EXPONENT, "100e-9"),
    ],
)
def test_quantity_is_parsed_and_formatted_canonically(
    text: QuantityText, value: str, form: QuantityFormat, canonical: str
) -> None:
    assert parse_quantity(text) == Decimal(value)
    assert format_quantity(parse_quantity(text), form) == canonical
    assert canonical_quantity(text) == canonical


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", ".", "+", "-", "k", "Mi", "e3", "1 ", " 1", "1 Mi", "1i", ".5i", "1e", "1e+", "-3.01e-", "1e1.5"),
        *("1.1.M", "1+1.0M", "0.1mi", "0.1am", "aoeu", "1K", "1ki", "1mm", "1Kim", "1MiB", "0x10", "1_000", "1,5"),
        *("١", "1\n", "nan", "inf", "--1", "1" * 200, "1e200", "1e999999999999", "9" * 100 + "e100"),
    ],
)
def test_invalid_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        parse_quantity(text)


@pytest.mark.parametrize("value", [None, True, float("nan"), float("inf"), [], {}, b"1"])
def test_value_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        parse_quantity(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (0, BINARY, "0"),
        (1023, BINARY, "1023"),
        (1024, BINARY, "1Ki"),
        (-1024, BINARY, "-1Ki"),
        (2**60, BINARY, "1Ei"),
        (2**70, BINARY, "1024Ei"),
        (Decimal("1536.5"), BINARY, "1536500m"),
        (Decimal("1E+3"), BINARY, "1k"),
        (Decimal("1024E+3"), BINARY, "1000Ki"),
        (Decimal("2048.00"), BINARY, "2Ki"),
        (Decimal("0.25"), EXPONENT, "250e-3"),
        (1500, SI, "1500"),
    ],
)
def test_a_computed_value_is_written_in_the_family_asked_for(
    value: Decimal | int, form: QuantityFormat, text: str
) -> None:
    assert format_quantity(value, form) == text


@pytest.mark.parametrize("value", [Decimal("1E-10"), Decimal("NaN"), Decimal("Infinity")])
def test_unsupported_number_is_not_formatted(value: Decimal) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        format_quantity(value)


@pytest.mark.parametrize(
    ("quantity", "milli", "whole"),
    [
        ("0", 0, 0),
        ("1", 1000, 1),
        ("100m", 100, 1),
        ("1.5", 1500, 2),
        ("1500m", 1500, 2),
        ("100u", 1, 1),
        ("1n", 1, 1),
        ("-1.5", -1500, -2),
        ("-100u", -1, -1),
        ("1Ki", 1024000, 1024),
        (2, 2000, 2),
        (0.25, 250, 1),
        (Decimal("0.75"), 750, 1),
        ("9223372036854775807.000000001", 9223372036854775807001, 9223372036854775808),
    ],
)
def test_milli_and_whole_values_are_rounded_away_from_zero(
    quantity: Decimal | QuantityText, milli: int, whole: int
) -> None:
    assert milli_value(quantity) == milli
    assert whole_value(quantity) == whole


MULTIPLIERS = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "e3": Fraction(10**3),
    "E6": Fraction(10**6),
    "e-3": Fraction(1, 1000),
}
NUMBERS = st.tuples(st.integers(-(10**6), 10**6), st.integers(0, 999)).map(lambda parts: f"{parts[0]}.{parts[1]:03}")
SUFFIXES = st.sampled_from(sorted(MULTIPLIERS))


@given(NUMBERS, SUFFIXES)
def test_a_quantity_is_its_number_times_its_suffix(number: str, suffix: str) -> None:
    exact = Fraction(number) * MULTIPLIERS[suffix]
    nanos = Fraction(ceil(abs(exact) * 10**9), 10**9)
    assert Fraction(parse_quantity(number + suffix)) == (nanos if exact >= 0 else -nanos)


@given(NUMBERS, SUFFIXES)
def test_the_canonical_form_has_the_same_value_and_stays_as_it_is(number: str, suffix: str) -> None:
    canonical = canonical_quantity(number + suffix)
    assert parse_quantity(canonical) == parse_quantity(number + suffix)
    assert canonical_quantity(canonical) == canonical
    assert "." not in canonical


@given(st.lists(st.tuples(NUMBERS, SUFFIXES), max_size=5))
def test_sums_are_exact(parts: list[tuple[str, str]]) -> None:
    texts = [number + suffix for number, suffix in parts]
    assert Fraction(sum(map(parse_quantity, texts), Decimal(0))) == sum(map(Fraction, map(parse_quantity, texts)))


@given(st.text(alphabet="0123456789.+-eEinumkKMGTP", max_size=10))
def test_any_text_is_a_quantity_or_a_value_error(text: str) -> None:
    try:
        value = parse_quantity(text)
    except ValueError:
        return
    assert parse_quantity(canonical_quantity(text)) == value
