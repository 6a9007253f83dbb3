"""Parsing of a CronJob's schedule and time zone.

Source: kubernetes v1.36 pkg/controller/cronjob/cronjob_controllerv2.go (formatSchedule).
"""

from __future__ import annotations

from kcm.actors.controllers.workloads.cronjob.fields import CronJobSpec
from kcm.runtime.scheduling.cron_schedules import parse_schedule
from kcm.runtime.scheduling.cron_times import Schedule
from kcm.runtime.scheduling.time_zones import Zone, load_zone


def zone_of(spec: CronJobSpec) -> Zone:
    """Return the time zone of spec.timeZone; UTC if it is not set. Raises UnknownZoneError."""
    return load_zone(spec.time_zone or "")


def schedule_of(spec: CronJobSpec, local: Zone) -> Schedule:
    """Parse the schedule of a CronJob.

    local: time zone of the machine, which applies if spec.timeZone is not set or the schedule contains a time zone
        itself.

    Raises ScheduleError if the schedule is malformed, and UnknownZoneError.
    """
    has_zone = spec.time_zone is not None and not spec.names_zone
    return parse_schedule(spec.schedule, zone_of(spec) if has_zone else local)
