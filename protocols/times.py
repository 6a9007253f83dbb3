"""Times: RFC 3339 text as in objects, Unix seconds for arithmetic, and ages for display.

Source: metav1.Time and MicroTime; ages: apimachinery pkg/util/duration, HumanDuration.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

_RFC3339 = re.compile(  # restricts the hours: since Python 3.13 datetime accepts 24:00
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2})(\.[0-9]+)?(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_time(text: str) -> float:
    """Parse a Time or MicroTime, RFC 3339 with any fraction and offset, to Unix seconds.

    Exact to the microsecond, the precision of a float. Raises ValueError, also for a value that is not a string.
    """
    try:
        found = _RFC3339.fullmatch(text)
    except TypeError:
        found = None
    if found is None:
        raise ValueError(f"not an RFC 3339 time: {text!r}")
    try:
        since = datetime.fromisoformat(found[1] + "+00:00") - EPOCH
    except ValueError as err:
        raise ValueError(f"not an RFC 3339 time: {text!r}: {err}") from None
    seconds = since.days * 86400 + since.seconds
    if found[3]:
        hours, minutes = int(found[4]), int(found[5])
        if hours > 23 or minutes > 59:
            raise ValueError(f"not an RFC 3339 time: {text!r}: its offset is out of range")
        offset = hours * 3600 + minutes * 60
        seconds += -offset if found[3] == "+" else offset
    return seconds + float(found[2] or 0)


def format_time(seconds: float) -> str:
    """Format as a Time, truncated to seconds: "2026-01-02T03:04:05Z". Raises ValueError outside the years 1 to 9999."""
    return _whole(seconds // 1)


def describe_time(seconds: float) -> str:
    """Format as a Time for people: "an unknown time" outside the years 1 to 9999, also for infinity and NaN."""
    try:
        return format_time(seconds)
    except (ValueError, OverflowError):
        return "an unknown time"


def format_micro_time(seconds: float) -> str:
    """Format as a MicroTime, rounded: "2026-01-02T03:04:05.000000Z". Raises ValueError outside the years 1 to 9999."""
    return _moment(seconds).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


@lru_cache(maxsize=128)  # most times are the current time, often several in one status
def _whole(seconds: float) -> str:
    return _moment(seconds).isoformat(timespec="seconds").removesuffix("+00:00") + "Z"


def _moment(seconds: float) -> datetime:
    try:
        return EPOCH + timedelta(seconds=seconds)
    except (OverflowError, ValueError) as err:
        raise ValueError(f"not a time within the years 1 to 9999: {seconds} seconds since 1970") from err


def human_duration(seconds: float) -> str:
    """Format an age with one or two units, as kubectl: 119s, 2m3s, 179m, 7h59m, 47h, 7d23h, 729d, 7y364d, 8y.

    A time up to 2 s in the future is "0s", because clocks differ; a later time is "<invalid>".
    """
    total = int(seconds)  # towards zero
    if total < -1:
        return "<invalid>"
    if total < 120:
        return f"{max(total, 0)}s"
    minutes, hours = total // 60, total // 3600
    if minutes < 10:
        return _pair(minutes, "m", total % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        return _pair(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    if days < 365 * 8:
        return _pair(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _pair(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"
