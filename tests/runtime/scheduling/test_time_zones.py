"""Time zones on a machine without a time zone database: the package tzdata is used."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator

import pytest

from kcm.protocols.times import parse_time
from kcm.runtime.scheduling.cron_schedules import parse_schedule
from kcm.runtime.scheduling.time_zones import UnknownZoneError, format_in_zone, is_time_zone, load_zone


@pytest.fixture(autouse=True)
def _machine_without_zones() -> Iterator[None]:
    def forget() -> None:
        zoneinfo.ZoneInfo.clear_cache()
        load_zone.cache_clear()
        parse_schedule.cache_clear()

    zoneinfo.reset_tzpath(to=())
    forget()
    yield
    zoneinfo.reset_tzpath()
    forget()


def test_zone_with_daylight_saving_time_is_known() -> None:
    berlin = load_zone("Europe/Berlin")
    shown = [format_in_zone(berlin, int(parse_time(f"2026-{month}-01T12:00:00Z"))) for month in ("01", "07")]
    assert shown == ["2026-01-01T13:00:00+01:00", "2026-07-01T14:00:00+02:00"]


def test_schedule_may_contain_a_time_zone() -> None:
    assert parse_schedule("TZ=Asia/Kathmandu 0 12 * * *").next(parse_time("2026-01-01T00:00:00Z")) == parse_time(
        "2026-01-01T06:15:00Z"
    )


def test_invalid_zone_is_unknown() -> None:
    assert not is_time_zone("Mars/Base")
    with pytest.raises(UnknownZoneError, match=r"^unknown time zone Mars/Base$"):
        load_zone("Mars/Base")
