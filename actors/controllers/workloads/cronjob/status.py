"""Status of a CronJob that is changed step by step during a sync."""

from __future__ import annotations

from typing import Any

from kcm.protocols.objects import Object, name_of, namespace_of, resource_version_of, uid_of
from kcm.protocols.resources import JOBS
from kcm.protocols.times import format_time, parse_time


class RunStatus:
    """Copy of a CronJob's status that a sync changes, and writes at its end."""

    def __init__(self, cron_job: Object) -> None:
        self._before: Object = cron_job.get("status") or {}
        self.active: list[Object] = list(self._before.get("active") or ())  # references to unfinished Jobs
        self.last_schedule: str | None = self._before.get("lastScheduleTime")
        self.last_successful: str | None = self._before.get("lastSuccessfulTime")
        self._is_touched = False  # most syncs change nothing

    def contains(self, uid: str) -> bool:
        return any(reference.get("uid") == uid for reference in self.active)

    def contains_name(self, namespace: str, name: str) -> bool:
        return any(
            (reference.get("namespace"), reference.get("name")) == (namespace, name) for reference in self.active
        )

    def add(self, job: Object) -> None:
        reference = {
            "kind": JOBS.kind,
            "namespace": namespace_of(job),
            "name": name_of(job),
            "uid": uid_of(job),
            "apiVersion": JOBS.api_version,
            "resourceVersion": resource_version_of(job),
        }
        self.active.append(reference)
        self._is_touched = True

    def remove(self, uid: str) -> None:
        self._is_touched = True
        self.active = [reference for reference in self.active if reference.get("uid") != uid]

    def has_started(self, slot: int) -> bool:
        """Report whether this slot (Unix seconds) or a later one was started."""
        return self.last_schedule is not None and parse_time(self.last_schedule) >= slot

    def started(self, slot: int) -> None:
        """Set lastScheduleTime to this slot (Unix seconds). A later lastScheduleTime is kept."""
        if not self.has_started(slot):
            self.last_schedule = format_time(slot)
            self._is_touched = True

    def succeeded(self, job: Object) -> None:
        at = (job.get("status") or {}).get("completionTime")
        if at and (self.last_successful is None or parse_time(self.last_successful) < parse_time(at)):
            self.last_successful = at
            self._is_touched = True

    def changed(self) -> Object | None:
        """Return the status to write; None if it is equal to the original status."""
        if not self._is_touched:
            return None
        fields: dict[str, Any] = {
            "active": self.active,
            "lastScheduleTime": self.last_schedule,
            "lastSuccessfulTime": self.last_successful,
        }
        others = {name: value for name, value in self._before.items() if name not in fields}
        after = others | {name: value for name, value in fields.items() if value}
        before = {name: value for name, value in self._before.items() if value or name not in fields}
        return None if after == before else after
