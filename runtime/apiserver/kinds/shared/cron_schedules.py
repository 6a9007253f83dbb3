"""Whether a text is a cron schedule, in the words of the parser that upstream uses, and whether a time zone is known.

Source: github.com/robfig/cron v3 parser.go; kubernetes v1.36 pkg/util/parsers, pkg/apis/batch/validation/validation.go
(validateScheduleFormat, validateTimeZone).
"""

from __future__ import annotations

import re
from functools import lru_cache

from runtime.apiserver.errors.go_durations import duration_problem

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
# lowest, highest, names with their numbers
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: i for i, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: i for i, name in enumerate(_DAYS)}),
)
_DESCRIPTORS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_EVERY = "@every "
_LARGEST = 2**63 - 1
_zone_part = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")


class _ScheduleError(ValueError):
    pass


@lru_cache(maxsize=1024)
def schedule_problem(schedule: str) -> str:
    """ "" for a schedule that is one. schedule: not empty."""
    try:
        _parse(schedule)
    except _ScheduleError as err:
        return str(err)
    return ""


def _parse(schedule: str) -> None:
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        zone, space, rest = schedule.partition("=")[2].partition(" ")
        if not space:
            raise _ScheduleError("invalid schedule format: runtime error: slice bounds out of range [:-1]")
        if not is_time_zone(zone):
            raise _ScheduleError(f"provided bad location {zone}: unknown time zone {zone}")
        schedule = rest.strip()
    if schedule.startswith("@"):
        _parse_descriptor(schedule)
        return
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        raise _ScheduleError(f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{' '.join(fields)}]")
    for text, (lowest, highest, names) in zip(fields, _FIELDS, strict=True):
        for piece in text.split(","):
            if piece:
                _parse_range(piece, lowest, highest, names)


def _parse_range(text: str, lowest: int, highest: int, names: dict[str, int]) -> None:
    """One of "*", "?", "5", "mon", "1-5", each with "/step" or without."""
    ends, *steps = text.split("/")
    first, *last = ends.split("-")
    if first in ("*", "?"):
        low, high = lowest, highest
    else:
        low = high = _number_or_name(first, names)
        if len(last) > 1:
            raise _ScheduleError(f"too many hyphens: {text}")
        if last:
            high = _number_or_name(last[0], names)
    step = 1
    if len(steps) > 1:
        raise _ScheduleError(f"too many slashes: {text}")
    if steps:
        step = _number(steps[0])
        if not last:
            high = highest
    if low < lowest:
        raise _ScheduleError(f"beginning of range ({low}) below minimum ({lowest}): {text}")
    if high > highest:
        raise _ScheduleError(f"end of range ({high}) above maximum ({highest}): {text}")
    if low > high:
        raise _ScheduleError(f"beginning of range ({low}) beyond end of range ({high}): {text}")
    if step == 0:
        raise _ScheduleError(f"step of range should be a positive number: {text}")


def _number_or_name(text: str, names: dict[str, int]) -> int:
    known = names.get(text.lower())
    return _number(text) if known is None else known


def _number(text: str) -> int:
    if not re.fullmatch("[+-]?[0-9]+", text):
        raise _ScheduleError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    number = int(text[:40])
    if not -_LARGEST - 1 <= number <= _LARGEST:
        raise _ScheduleError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": value out of range')
    if number < 0:
        raise _ScheduleError(f"negative number ({number}) not allowed: {text}")
    return number


def _parse_descriptor(text: str) -> None:
    if text in _DESCRIPTORS:
        return
    if not text.startswith(_EVERY):
        raise _ScheduleError(f"unrecognized descriptor: {text}")
    problem = duration_problem(text.removeprefix(_EVERY))
    if problem:
        raise _ScheduleError(f"failed to parse duration {text}: {problem}")


def time_zone_problems(zone: str) -> list[str]:
    """Of the field timeZone."""
    if not zone:
        return ["timeZone must be nil or non-empty string"]
    for part in zone.split("/"):
        if part in (".", "..") or part.startswith("-") or not _zone_part.fullmatch(part):
            return [f"unknown time zone {zone}"]
    if zone.lower() == "local":
        problem = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        return [problem] if zone == "Local" else [problem, f"unknown time zone {zone}"]
    return [] if is_time_zone(zone) else [f"unknown time zone {zone}"]


@lru_cache(maxsize=1024)
def is_time_zone(name: str) -> bool:
    """Whether the database of time zones has it. Where there is no database, any name may be one."""
    from zoneinfo import ZoneInfo

    if name in ("", "UTC", "Local"):
        return True
    try:
        ZoneInfo(name)
    except (ValueError, OSError):  # no key that may be one, or a directory
        return False
    except LookupError:
        return not _is_database()
    return True


def _is_database() -> bool:
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo("Europe/London")
    except LookupError:
        return False
    return True
