"""Time zones, and conversion between Unix seconds and local time.

zoneinfo reads the machine's database of time zones, or that of the package tzdata.

Source: Go's time.LoadLocation and time.Date, also for times that a clock change skips or repeats.
"""

from __future__ import annotations

import os
from datetime import UTC, date, datetime, tzinfo

from kcm.protocols.bounded_cache import bounded_cache

Zone = tzinfo
LOCAL = "Local"
_DAY = 86400
_EPOCH = date(1970, 1, 1).toordinal()


class UnknownZoneError(ValueError):
    """Unknown time zone, with Go's error text."""


@bounded_cache(1024)
def load_zone(name: str) -> tzinfo:
    """Load a time zone as Go does: "" is UTC, and "Local" the machine's. Raises UnknownZoneError."""
    if name in ("", "UTC"):
        return UTC
    if name == LOCAL:
        return local_zone()
    if name[0] in "/\\" or ".." in name.replace("\\", "/").split("/"):
        raise UnknownZoneError("time: invalid location name")
    from zoneinfo import ZoneInfo  # heavy: sysconfig

    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):  # an invalid key, a directory, or a missing file
        raise UnknownZoneError(f"unknown time zone {name}") from None


def is_time_zone(name: str) -> bool:
    try:
        load_zone(name)
    except UnknownZoneError:
        return False
    return True


def local_zone() -> tzinfo:
    """Return the time zone of the environment (TZ) or of the machine; UTC if it cannot be read."""
    named = os.environ.get("TZ")
    if named is not None:
        named = named.removeprefix(":")
        if named in ("", "UTC"):
            return UTC
    from zoneinfo import ZoneInfo  # heavy: sysconfig

    path = "/etc/localtime" if named is None else named
    try:
        if not path.startswith("/"):
            return ZoneInfo(path)
        with open(path, "rb") as file:
            return ZoneInfo.from_file(file)
    except (ValueError, OSError, LookupError):
        return UTC


def wall_time(zone: tzinfo, moment: int) -> datetime:
    """Return the local time of a Unix second. Raises ValueError or OverflowError outside the years 1 to 9999."""
    return datetime.fromtimestamp(moment, zone)


def moment_of(zone: tzinfo, year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0) -> int:
    """Return the Unix second of a local time. Month 13 is the next January, day 32 the day after the 31st.

    For a repeated or skipped time, one of the two offsets is used, as in Go.
    """
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    days = date(year, month, 1).toordinal() - _EPOCH + day - 1
    shown = days * _DAY + hour * 3600 + minute * 60 + second
    offset = _offset(zone, shown)
    return shown - _offset(zone, shown - offset) if offset else shown


def _offset(zone: tzinfo, moment: int) -> int:
    offset = wall_time(zone, moment).utcoffset()
    assert offset is not None
    return offset.days * _DAY + offset.seconds


def format_in_zone(zone: tzinfo, moment: int) -> str:
    """Format as RFC 3339 with the zone's offset: "2026-01-02T03:04:05-05:00", or "…Z" for UTC."""
    shown = wall_time(zone, moment).isoformat(timespec="seconds")
    return shown.removesuffix("+00:00") + "Z" if shown.endswith("+00:00") else shown
