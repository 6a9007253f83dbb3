"""The schedule of a CronJob, with its zone.

Source: kubernetes v1.36 pkg/controller/cronjob/cronjob_controllerv2.go (formatSchedule).
"""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.scheduling.cron_schedules import parse_schedule
from kcm.runtime.scheduling.cron_times import Schedule
from kcm.runtime.scheduling.time_zones import Zone, load_zone


def names_zone(cron_job: Object) -> bool:
    """Whether the schedule itself names its zone, which upstream does not support, and does."""
    return "TZ" in cron_job["spec"]["schedule"]


def zone_of(cron_job: Object) -> Zone:
    """That of spec.timeZone; UTC without it. Raises UnknownZoneError."""
    return load_zone(cron_job["spec"].get("timeZone") or "")


def schedule_of(cron_job: Object, local: Zone) -> Schedule:
    """local: of the machine, where the CronJob names none. Raises ScheduleError, UnknownZoneError."""
    spec = cron_job["spec"]
    named = spec.get("timeZone") is not None and not names_zone(cron_job)
    return parse_schedule(spec["schedule"], zone_of(cron_job) if named else local)
