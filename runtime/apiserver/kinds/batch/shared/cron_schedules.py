"""Validation of cron schedules, with the error texts of upstream's parser, and of time zones.

Source: kubernetes v1.36 pkg/apis/batch/validation/validation.go (validateScheduleFormat, validateTimeZone).
"""

from __future__ import annotations

import re

from kcm.runtime.scheduling.cron_schedules import ScheduleError, parse_schedule
from kcm.runtime.scheduling.time_zones import is_time_zone

_zone_part = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")


def schedule_problem(schedule: str) -> str:
    """Return the error text for a cron schedule; "" if it is valid."""
    try:
        parse_schedule(schedule)
    except ScheduleError as err:
        return str(err)
    return ""


def time_zone_problems(zone: str) -> list[str]:
    """Return the error texts for a value of spec.timeZone; [] if it is valid."""
    if not zone:
        return ["timeZone must be nil or non-empty string"]
    for part in zone.split("/"):
        if part in (".", "..") or part.startswith("-") or not _zone_part.fullmatch(part):
            return [f"unknown time zone {zone}"]
    if zone.lower() == "local":
        problem = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        return [problem] if zone == "Local" else [problem, f"unknown time zone {zone}"]
    return [] if is_time_zone(zone) else [f"unknown time zone {zone}"]
