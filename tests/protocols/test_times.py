"""Times as text and as seconds, and the ages that kubectl prints."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm.protocols.times import describe_time, format_micro_time, format_time, human_duration, parse_time

NEW_YEAR = 1767225600  # 2026-01-01T00:00:00Z


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-01-01T00:00:00Z", NEW_YEAR),
        ("2024-02-29T12:00:00Z", 1709208000),
        ("1969-12-31T23:59:59Z", -1),
        ("0001-01-01T00:00:00Z", -62135596800),  # the zero time of Go
        ("2026-01-01T00:00:00.5Z", NEW_YEAR + 0.5),
        ("2026-01-01T00:00:00.000001Z", NEW_YEAR + 0.000001),
        ("2026-01-01T00:00:00.250000000Z", NEW_YEAR + 0.25),
        ("2026-01-01T00:00:00.123456789123Z", NEW_YEAR + 0.123456789),
        ("2026-01-01T02:30:00+02:30", NEW_YEAR),
        ("2025-12-31T19:00:00.5-05:00", NEW_YEAR + 0.5),
        ("2026-01-01T00:00:00+00:00", NEW_YEAR),
        ("2026-01-01T00:00:00-00:00", NEW_YEAR),
    ],
)
def test_a_time_in_seconds(text: str, seconds: float) -> None:
    assert parse_time(text) == pytest.approx(seconds, abs=5e-7)


@pytest.mark.parametrize(
    "text",
    [
        *("", "now", "2026-01-01", "2026-01-01T00:00:00", "2026-01-01 00:00:00Z", "2026-01-01t00:00:00z"),
        *("2026-13-01T00:00:00Z", "2026-02-29T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z"),
        *("2026-01-01T00:00:60Z", "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00,5Z", "26-01-01T00:00:00Z"),
        *("2026-01-01T00:00:00+24:00", "2026-01-01T00:00:00+01:60", "2026-01-01T00:00:00+0100", "20260101T000000Z"),
        *("2026-01-01T00:00:00Z\n", " 2026-01-01T00:00:00Z", "٢026-01-01T00:00:00Z", "0000-01-01T00:00:00Z"),
    ],
)
def test_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an RFC 3339 time"):
        parse_time(text)


@pytest.mark.parametrize("value", [None, 5, b"2026-01-01T00:00:00Z", {}])
def test_time_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="not an RFC 3339 time"):
        parse_time(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seconds", "text", "micro"),
    [
        (0, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z"),
        (NEW_YEAR, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000000Z"),
        (NEW_YEAR + 0.999, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.999000Z"),
        (NEW_YEAR + 0.1234564, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123456Z"),
        (1.9999999, "1970-01-01T00:00:01Z", "1970-01-01T00:00:02.000000Z"),
        (-0.5, "1969-12-31T23:59:59Z", "1969-12-31T23:59:59.500000Z"),
        (-62135596800, "0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
    ],
)
def test_seconds_as_a_time(seconds: float, text: str, micro: str) -> None:
    assert format_time(seconds) == text
    assert format_micro_time(seconds) == micro


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.5, "1970-01-01T00:00:00Z"), (1e18, "an unknown time"), (float("-inf"), "an unknown time")],
)
def test_time_for_people_is_never_an_error(seconds: float, text: str) -> None:
    assert describe_time(seconds) == text


@pytest.mark.parametrize("seconds", [1e12, -1e12, 1e300, float("nan"), float("inf"), float("-inf")])
def test_seconds_outside_the_years_1_to_9999_are_an_error(seconds: float) -> None:
    with pytest.raises(ValueError, match="not a time"):
        format_time(seconds)
    with pytest.raises(ValueError, match="not a time"):
        format_micro_time(seconds)


@given(st.integers(-62135596800, 253402300799))
def test_whole_seconds_survive(seconds: int) -> None:
    assert parse_time(format_time(seconds)) == seconds
    assert parse_time(format_micro_time(seconds)) == seconds


@given(st.integers(0, 4 * 10**15))
def test_microseconds_survive(microseconds: int) -> None:
    text = format_micro_time(microseconds / 10**6)
    assert round(parse_time(text) * 10**6) == microseconds
    assert format_micro_time(parse_time(text)) == text


@given(st.datetimes(timezones=st.just(UTC)))
def test_parsing_agrees_with_the_standard_library(moment: datetime) -> None:
    assert parse_time(moment.isoformat()) == pytest.approx(moment.timestamp(), abs=1e-6)


MINUTE, HOUR, DAY = 60, 3600, 86400
YEAR = 365 * DAY


@pytest.mark.parametrize(
    ("seconds", "age"),
    [
        (-1000, "<invalid>"),
        (-2, "<invalid>"),
        (-1.999, "0s"),
        (-1, "0s"),
        (0, "0s"),
        (0.999, "0s"),
        (1, "1s"),
        (70, "70s"),
        (2 * MINUTE - 0.001, "119s"),
        (2 * MINUTE, "2m"),
        (2 * MINUTE + 1, "2m1s"),
        (3 * MINUTE + 10, "3m10s"),
        (10 * MINUTE - 0.001, "9m59s"),
        (10 * MINUTE, "10m"),
        (10 * MINUTE + 1, "10m"),
        (70 * MINUTE, "70m"),
        (3 * HOUR - 0.001, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + MINUTE, "3h1m"),
        (8 * HOUR - 0.001, "7h59m"),
        (8 * HOUR, "8h"),
        (8 * HOUR + 59 * MINUTE, "8h"),
        (2 * DAY - 0.001, "47h"),
        (2 * DAY, "2d"),
        (2 * DAY + HOUR, "2d1h"),
        (8 * DAY - 0.001, "7d23h"),
        (8 * DAY, "8d"),
        (8 * DAY + 23 * HOUR, "8d"),
        (367 * DAY, "367d"),
        (2 * YEAR - 0.001, "729d"),
        (2 * YEAR, "2y"),
        (2 * YEAR + DAY - 0.001, "2y"),
        (2 * YEAR + DAY, "2y1d"),
        (3 * YEAR, "3y"),
        (8 * YEAR - 0.001, "7y364d"),
        (8 * YEAR, "8y"),
        (8 * YEAR + 364 * DAY, "8y"),
        (9 * YEAR, "9y"),
    ],
)
def test_ages_read_as_kubectl_prints_them(seconds: float, age: str) -> None:
    assert human_duration(seconds) == age
