"""Durations and timestamps: parsing, formatting and their parts.

Source: Go time.ParseDuration and RFC 3339; cel-go common/types/duration.go, timestamp.go.
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from kcm.protocols.times import EPOCH
from kcm.runtime.cel.declarations import Function, function
from kcm.runtime.cel.errors import EvaluationError
from kcm.runtime.cel.values import LARGEST, SMALLEST, Duration, Timestamp

SECOND = 10**9  # nanoseconds
UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND}
DAYS_OF_400_YEARS = 146_097  # whole weeks, so that the day of the week does not change
EARLIEST, LATEST = -62135596800, 253402300799  # seconds: the years 1 and 9999
_DURATION = re.compile(r"([-+]?)(0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)")
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)(?:[.,](\d+))?(?:(Z)|([-+])(\d\d):(\d\d))", re.ASCII
)


def parse_duration(text: str) -> Duration | None:
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    total = sum(int(Decimal(number) * UNITS[unit]) for number, unit in _PART.findall(text))
    total = -total if match.group(1) == "-" else total
    return Duration(total) if SMALLEST <= total <= LARGEST else None


def parse_timestamp(text: str) -> Timestamp | None:
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(match.group(place)) for place in range(1, 7))
    offset = 0
    if match.group(9) is not None:
        hours, minutes = int(match.group(10)), int(match.group(11))
        if hours > 24 or minutes > 60:
            return None
        offset = (hours * 3600 + minutes * 60) * (-1 if match.group(9) == "-" else 1)
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    since = moment - EPOCH
    seconds = since.days * 86400 + since.seconds - offset
    if not EARLIEST <= seconds <= LATEST:
        return None
    return Timestamp(seconds * SECOND + int(((match.group(7) or "0") + "0" * 9)[:9]))


def timestamp_of(nanoseconds: int) -> Timestamp:
    if not EARLIEST <= nanoseconds // SECOND <= LATEST:
        raise EvaluationError("timestamp overflow")
    return Timestamp(nanoseconds)


def duration_of(nanoseconds: int) -> Duration:
    if not SMALLEST <= nanoseconds <= LARGEST:
        raise EvaluationError("integer overflow")
    return Duration(nanoseconds)


def fraction(nanoseconds: int) -> str:
    digits = f"{nanoseconds:09d}".rstrip("0")
    return f".{digits}" if digits else ""


def shown_timestamp(value: Timestamp) -> str:
    seconds, rest = divmod(value.nanoseconds, SECOND)
    moment = EPOCH + timedelta(seconds=seconds)
    return f"{moment.year:04d}{moment:-%m-%dT%H:%M:%S}{fraction(rest)}Z"


def shown_duration(value: Duration) -> str:
    whole, rest = divmod(abs(value.nanoseconds), SECOND)
    return f"{'-' if value.nanoseconds < 0 else ''}{whole}{fraction(rest)}s"


def _offset(zone: str, seconds: int) -> int:
    """Return the offset of a time zone from UTC at a Unix time, in seconds. zone: a name, or +HH:MM."""
    hours, colon, minutes = zone.partition(":")
    if colon:
        if (
            re.fullmatch(r"[-+]?\d{1,9}", hours, re.ASCII) is None
            or re.fullmatch(r"\d{1,9}", minutes, re.ASCII) is None
        ):
            wrong = hours if re.fullmatch(r"[-+]?\d{1,9}", hours, re.ASCII) is None else minutes
            raise EvaluationError(f'strconv.Atoi: parsing "{wrong}": invalid syntax')
        return int(hours) * 3600 + int(minutes) * (-60 if zone.startswith("-") else 60)
    if zone in ("UTC", "", "Local"):
        return 0
    if ".." in zone or zone[0] in "/\\":
        raise EvaluationError("time: invalid location name")
    try:
        moment = EPOCH + timedelta(seconds=seconds)
        found = moment.astimezone(zoneinfo.ZoneInfo(zone)).utcoffset()
    except OverflowError:
        return 0
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise EvaluationError(f"unknown time zone {zone}") from None
    return int(found.total_seconds()) if found is not None else 0


def _local(seconds: int) -> tuple[datetime, int]:
    """Return the time as a datetime, and the number of years to add to it.

    The years are not 0 if datetime cannot represent the time, which is then shifted by 400 years.
    """
    moved = 400 if seconds < EARLIEST else -400 if seconds > LATEST else 0
    return EPOCH + timedelta(seconds=seconds, days=moved // 400 * DAYS_OF_400_YEARS), -moved


Field = Callable[[datetime], int]
FIELDS: dict[str, tuple[str, Field]] = {
    "getFullYear": ("timestamp_to_year", lambda moment: moment.year),  # plus the years of the shift, see _local
    "getMonth": ("timestamp_to_month", lambda moment: moment.month - 1),
    "getDayOfYear": ("timestamp_to_day_of_year", lambda moment: moment.timetuple().tm_yday - 1),
    "getDayOfMonth": ("timestamp_to_day_of_month", lambda moment: moment.day - 1),
    "getDate": ("timestamp_to_day_of_month_1_based", lambda moment: moment.day),
    "getDayOfWeek": ("timestamp_to_day_of_week", lambda moment: moment.isoweekday() % 7),
    "getHours": ("timestamp_to_hours_tz", lambda moment: moment.hour),
    "getMinutes": ("timestamp_to_minutes_tz", lambda moment: moment.minute),
    "getSeconds": ("timestamp_to_seconds_tz", lambda moment: moment.second),
}
OF_DURATIONS = {
    "getHours": 3600 * SECOND, "getMinutes": 60 * SECOND, "getSeconds": SECOND, "getMilliseconds": 10**6,
}  # fmt: skip


def _accessor(name: str, overload: str, field: Field) -> Function:
    def in_zone(value: Timestamp, zone: str = "UTC") -> int:
        seconds = value.nanoseconds // SECOND
        moment, years = _local(seconds + _offset(zone, seconds))
        return field(moment) + (years if name == "getFullYear" else 0)

    base = overload.removesuffix("_tz")
    return function(name, (base, ".timestamp->int", in_zone), (f"{base}_with_tz", ".timestamp,string->int", in_zone))


def _milliseconds(value: Timestamp, _zone: str = "UTC") -> int:
    return value.nanoseconds % SECOND // 10**6


def _of_duration(name: str, unit: int) -> Function:
    def whole(value: Duration) -> int:
        return abs(value.nanoseconds) // unit * (-1 if value.nanoseconds < 0 else 1)

    return function(name, (f"duration_to_{name[3:].lower()}", ".duration->int", whole))


FUNCTIONS = [
    *(_accessor(name, overload, field) for name, (overload, field) in FIELDS.items()),
    function(
        "getMilliseconds",
        ("timestamp_to_milliseconds", ".timestamp->int", _milliseconds),
        ("timestamp_to_milliseconds_with_tz", ".timestamp,string->int", _milliseconds),
    ),
    *(_of_duration(name, unit) for name, unit in OF_DURATIONS.items()),
]
