"""Parser of cron schedules as in Kubernetes: five fields, names, steps, descriptors, "@every", and a time zone prefix.

Source: github.com/robfig/cron v3 parser.go; kubernetes v1.36 pkg/util/parsers.
"""

from __future__ import annotations

import re
from datetime import UTC, tzinfo
from typing import NamedTuple

from kcm.protocols.bounded_cache import bounded_cache, first_size
from kcm.runtime.scheduling.cron_times import Every, Fields, Schedule
from kcm.runtime.scheduling.go_durations import nanoseconds_of
from kcm.runtime.scheduling.time_zones import LOCAL, UnknownZoneError, load_zone

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
# (lowest number, highest number, numbers by name)
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: i for i, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: i for i, name in enumerate(_DAYS)}),
)
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every "
_SECOND = 10**9  # nanoseconds
_LARGEST = 2**63 - 1


class ScheduleError(ValueError):
    """Invalid schedule, with upstream's error text."""


class _Range(NamedTuple):
    """Numbers of a field that match. star: the field is "*" or "?"."""

    numbers: range
    star: bool


@bounded_cache(1024, size=first_size)
def parse_schedule(text: str, local: tzinfo = UTC) -> Schedule:
    """Parse a schedule. local: time zone of a schedule without one. Raises ScheduleError."""
    if not text:
        raise ScheduleError("empty spec string")
    zone = local
    if text.startswith(("TZ=", "CRON_TZ=")):
        name, space, rest = text.partition("=")[2].partition(" ")
        if not space:
            raise ScheduleError("invalid schedule format: runtime error: slice bounds out of range [:-1]")
        zone, text = _zone(name, local), rest.strip()
    if text.startswith("@") and text not in _DESCRIPTORS:
        return _every(text)
    return _fields(_DESCRIPTORS.get(text, text), zone)


def _zone(name: str, local: tzinfo) -> tzinfo:
    try:
        return local if name == LOCAL else load_zone(name)
    except UnknownZoneError as err:
        raise ScheduleError(f"provided bad location {name}: {err}") from None


def _every(text: str) -> Every:
    if not text.startswith(_EVERY):
        raise ScheduleError(f"unrecognized descriptor: {text}")
    try:
        return Every(max(nanoseconds_of(text.removeprefix(_EVERY)) // _SECOND, 1))
    except ValueError as err:
        raise ScheduleError(f"failed to parse duration {text}: {err}") from None


def _fields(text: str, zone: tzinfo) -> Fields:
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise ScheduleError(f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{' '.join(fields)}]")
    ranges = [
        [_range(piece, lowest, highest, names) for piece in field.split(",") if piece]
        for field, (lowest, highest, names) in zip(fields, _FIELDS, strict=True)
    ]
    minutes, hours, days, months, days_of_week = (
        frozenset().union(*(part.numbers for part in field)) for field in ranges
    )
    return Fields(
        minutes=minutes,
        hours=hours,
        days=days,
        months=months,
        days_of_week=days_of_week,
        any_day=any(part.star for part in (*ranges[2], *ranges[4])),
        zone=zone,
    )


def _range(text: str, lowest: int, highest: int, names: dict[str, int]) -> _Range:
    """Parse "*", "?", "5", "mon" or "1-5", with or without "/step"; "5/step" extends to the highest number.

    With a step above 1, the range is no star: for "*/2" in one field of days, a match of either field suffices.
    """
    ends, *steps = text.split("/")
    first, *last = ends.split("-")
    star = first in ("*", "?")
    if star:
        low, high = lowest, highest
    else:
        low = high = _number_or_name(first, names)
        if len(last) > 1:
            raise ScheduleError(f"too many hyphens: {text}")
        if last:
            high = _number_or_name(last[0], names)
    step = 1
    if len(steps) > 1:
        raise ScheduleError(f"too many slashes: {text}")
    if steps:
        step = _number(steps[0])
        if not last:
            high = highest
    if low < lowest:
        raise ScheduleError(f"beginning of range ({low}) below minimum ({lowest}): {text}")
    if high > highest:
        raise ScheduleError(f"end of range ({high}) above maximum ({highest}): {text}")
    if low > high:
        raise ScheduleError(f"beginning of range ({low}) beyond end of range ({high}): {text}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {text}")
    return _Range(range(low, high + 1, step), star and step == 1)


def _number_or_name(text: str, names: dict[str, int]) -> int:
    known = names.get(text.lower())
    return _number(text) if known is None else known


def _number(text: str) -> int:
    if not re.fullmatch("[+-]?[0-9]+", text):
        raise ScheduleError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    number = int(text[:40])
    if not -_LARGEST - 1 <= number <= _LARGEST:
        raise ScheduleError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": value out of range')
    if number < 0:
        raise ScheduleError(f"negative number ({number}) not allowed: {text}")
    return number
