"""Comparison of cron schedules with github.com/robfig/cron v3.0.1.

cron_cases.jsonl contains its results for selected schedules, and for random ones in zones with daylight saving time,
half of them shortly before a change. `next` contains the times after `after`, in Unix seconds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kcm.protocols.times import parse_time
from kcm.runtime.scheduling.cron_schedules import ScheduleError, parse_schedule
from kcm.runtime.scheduling.time_zones import UnknownZoneError, load_zone

CASES = [json.loads(line) for line in (Path(__file__).parent / "cron_cases.jsonl").read_text().splitlines()]


def result_of(case: Any) -> list[int] | str:
    try:
        schedule = parse_schedule(case["schedule"])
    except ScheduleError as err:
        return str(err)
    times: list[int] = []
    at: float = case["after"]
    for _ in case.get("next", ()):
        following = schedule.next(at)
        times.append(following or 0)
        at = following or 0
    return times


def test_schedules_have_the_times_and_error_texts_of_upstreams_library() -> None:
    different = {
        case["schedule"]: result_of(case) for case in CASES if result_of(case) != (case.get("problem") or case["next"])
    }
    assert len(CASES) > 500
    assert different == {}


def test_day_skipped_by_a_time_zone_is_skipped() -> None:
    schedule = parse_schedule("TZ=Pacific/Apia 0 12 30,31 12 *")
    found = schedule.next(parse_time("2011-12-29T11:00:00-10:00"))
    assert found == parse_time("2011-12-31T12:00:00+14:00")


def test_nothing_is_due_after_the_last_supported_year() -> None:
    assert parse_schedule("@yearly").next(parse_time("9999-06-01T00:00:00Z")) is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Nowhere/Land", "unknown time zone Nowhere/Land"),
        ("../etc/localtime", "time: invalid location name"),
        ("/etc/localtime", "time: invalid location name"),
        ("Europe", "unknown time zone Europe"),
    ],
)
def test_unknown_zone_has_gos_error_text(name: str, problem: str) -> None:
    with pytest.raises(UnknownZoneError, match=f"^{problem}$"):
        load_zone(name)
