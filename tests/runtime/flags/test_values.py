"""Values of flags, parsed and formatted as in Go's strconv, time and pflag."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm.runtime.flags.values import (
    INTEGERS,
    NAMED_PAIRS,
    QUANTITY,
    VMODULE,
    format_duration,
    parse_duration,
    parse_float,
    parse_int,
    parse_map,
    parse_pairs,
    parse_strings,
)


@pytest.mark.parametrize(
    "text, seconds",
    [
        ("0", 0.0),
        ("+0", 0.0),
        ("5s", 5.0),
        ("1m30s", 90.0),
        ("1h", 3600.0),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("5.s", 5.0),
        ("-300ms", -0.3),
        ("100us", 0.0001),
        ("100µs", 0.0001),
        ("100μs", 0.0001),
        ("12h0m0s", 43200.0),
        ("1s1h", 3601.0),
    ],
)
def test_durations_are_parsed_as_in_go(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text, problem",
    [
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        ("s", 'time: invalid duration "s"'),
        (".s", 'time: invalid duration ".s"'),
        ("5", 'time: missing unit in duration "5"'),
        ("1h5", 'time: missing unit in duration "1h5"'),
        ("3d", 'time: unknown unit "d" in duration "3d"'),
        (" 1s", 'time: invalid duration " 1s"'),
        ("1e3s", 'time: unknown unit "e" in duration "1e3s"'),
        ("9999999h", 'time: invalid duration "9999999h"'),
    ],
)
def test_invalid_duration_is_named(text: str, problem: str) -> None:
    with pytest.raises(ValueError) as error:
        parse_duration(text)
    assert str(error.value) == problem


@pytest.mark.parametrize(
    "seconds, text",
    [
        (0.0, "0s"),
        (-0.0, "0s"),
        (1e-9, "1ns"),
        (1.5e-6, "1.5µs"),
        (0.1, "100ms"),
        (1.5, "1.5s"),
        (60.0, "1m0s"),
        (90.0, "1m30s"),
        (43200.0, "12h0m0s"),
        (3600.5, "1h0m0.5s"),
        (-2.0, "-2s"),
    ],
)
def test_durations_are_formatted_as_in_go(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(min_value=-(10**15), max_value=10**15))
def test_durations_round_trip(microseconds: int) -> None:
    assert parse_duration(format_duration(microseconds / 1e6)) == pytest.approx(microseconds / 1e6, rel=1e-15, abs=1e-9)


@pytest.mark.parametrize(
    "text, number",
    [("10", 10), ("-10", -10), ("+10", 10), ("0x10", 16), ("010", 8), ("0o10", 8), ("0b10", 2), ("1_000", 1000)],
)
def test_integers_are_go_literals(text: str, number: int) -> None:
    assert parse_int(text, bits=32) == number


@pytest.mark.parametrize("text", ["", " 1", "1.0", "089", "1__0", "x", "0x"])
def test_invalid_integer_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="invalid syntax"):
        parse_int(text, bits=32)


@pytest.mark.parametrize("text", ["", "1_0", " 1", "x", "١"])
def test_invalid_float_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"strconv\.ParseFloat: parsing .*: invalid syntax"):
        parse_float(text)


def test_quoted_list_value_may_contain_commas() -> None:
    assert parse_strings('a,"b,c",d') == ("a", "b,c", "d")
    with pytest.raises(ValueError, match="not a comma-separated list"):
        parse_strings('"a')


def test_pairs_may_have_spaces_around_and_no_value() -> None:
    assert parse_pairs("A=true, kube:B=false ,C") == (("A", "true"), ("kube:B", "false"), ("C", ""))


def test_vmodule_is_patterns_with_levels() -> None:
    assert VMODULE.parse("rep*=4,job=2,") == (("rep*", "4"), ("job", "2"))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a", '"a" does not have the pattern=N format'),
        ("=2", '"=2" does not have the pattern=N format'),
        ("a=x", 'parsing verbosity in "a=x": strconv.ParseUint: parsing "x": invalid syntax'),
        ("a=-1", 'parsing verbosity in "a=-1": strconv.ParseUint: parsing "-1": invalid syntax'),
        (
            "b=1,a=99999999999",
            'parsing verbosity in "a=99999999999": strconv.ParseUint: parsing "99999999999": value out of range',
        ),
    ],
)
def test_malformed_vmodule_is_rejected_with_upstreams_text(text: str, error: str) -> None:
    with pytest.raises(ValueError) as raised:
        VMODULE.parse(text)
    assert str(raised.value) == error


@pytest.mark.parametrize(("text", "shown"), [("0", "0"), ("512", "512"), ("1Ki", "1Ki"), ("2048Ki", "2Mi")])
def test_quantity_is_kept_as_canonical_text(text: str, shown: str) -> None:
    assert QUANTITY.parse(text) == shown


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("1K", "unable to parse quantity's suffix"),
        ("5kk", "unable to parse quantity's suffix"),
        ("abc", "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        ("", "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        ("1.2.3", "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
    ],
)
def test_malformed_quantity_is_rejected_with_upstreams_text(text: str, error: str) -> None:
    with pytest.raises(ValueError) as raised:
        QUANTITY.parse(text)
    assert str(raised.value) == error


@pytest.mark.parametrize(
    "text, pair",
    [
        ("a.crt,a.key", ("a.crt", "a.key", ())),
        (" a.crt , a.key : *.a.example, a.example ", ("a.crt", "a.key", ("*.a.example", "a.example"))),
    ],
)
def test_pairs_for_names(text: str, pair: tuple[str, str, tuple[str, ...]]) -> None:
    assert NAMED_PAIRS.parse(text) == (pair,)
    assert NAMED_PAIRS.parse(NAMED_PAIRS.show((pair,)).strip("[]")) == (pair,)


@pytest.mark.parametrize(
    "text, problem",
    [
        ("a.crt", "expected comma separated certificate and key file paths"),
        ("a.crt,a.key,b.key", "expected comma separated certificate and key file paths"),
        ("a.crt,", "expected comma separated certificate and key file paths"),
        ("a.crt,a.key:", "empty names list is not allowed"),
    ],
)
def test_invalid_pair_for_names_is_reported(text: str, problem: str) -> None:
    with pytest.raises(ValueError) as error:
        NAMED_PAIRS.parse(text)
    assert str(error.value) == problem


def test_list_of_integers_is_parsed() -> None:
    assert INTEGERS.parse("29, 23") == (29, 23)
    assert INTEGERS.show((29, 23)) == "[29,23]"
    with pytest.raises(ValueError, match="invalid syntax"):
        INTEGERS.parse("29,X25519")


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("metric,label=a,b", (("metric,label", "a,b"),)),
        ('"metric,label=a,b"', (("metric,label", "a,b"),)),
        ('"m1,l=a,b","m2,l=c"', (("m1,l", "a,b"), ("m2,l", "c"))),
        ("m,l=", (("m,l", ""),)),
    ],
)
def test_map_is_parsed_as_pflag_does(text: str, pairs: tuple[tuple[str, str], ...]) -> None:
    assert parse_map(text) == pairs


@pytest.mark.parametrize(
    ("text", "problem"),
    [("", " must be formatted as key=value"), ("a", "a must be formatted"), ("m,l=a,m2,l2=b", "m must be formatted")],
)
def test_map_without_an_equals_sign_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{problem}"):
        parse_map(text)
