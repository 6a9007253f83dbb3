"""Schedule of a CronJob in its time zone.

Source: kubernetes v1.36 pkg/controller/cronjob/cronjob_controllerv2.go (formatSchedule).
"""

from __future__ import annotations

from kcm.actors.controllers.workloads.cronjob.fields import CronJobSpec
from kcm.runtime.scheduling.cron_schedules import parse_schedule
from kcm.runtime.scheduling.cron_times import Schedule
from kcm.runtime.scheduling.time_zones import Zone, load_zone


def zone_of(spec: CronJobSpec) -> Zone:
    """Return the zone of spec.timeZone, UTC without it. Raises UnknownZoneError."""
    return load_zone(spec.time_zone or "")


def schedule_of(spec: CronJobSpec, local: Zone) -> Schedule:
    """Parse the schedule. local: the machine's zone, used without spec.timeZone.

    Raises ScheduleError, UnknownZoneError.
    """
    has_zone = spec.time_zone is not None and not spec.names_zone
    return parse_schedule(spec.schedule, zone_of(spec) if has_zone else local)
