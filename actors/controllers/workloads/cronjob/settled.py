"""Versions of a CronJob and its Jobs that need no further sync before the next slot (scheduled time).

A sync that creates a Job is followed by watch events of its own writes, for which there is nothing to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kcm.runtime.tables.table import Entry

Versions = Mapping[str, int]  # resourceVersions by uid, of a CronJob and its Jobs


def versions_of(cron_job: Entry, jobs: Iterable[Entry]) -> dict[str, int]:
    versions = {job.uid: job.resource_version for job in jobs}
    versions[cron_job.uid] = cron_job.resource_version
    return versions


class RepeatableResult(NamedTuple):
    """Result of a sync, which is repeated without a sync while it is current.

    versions: of the objects that the sync has read or written, without changes by others during the sync
    due: Unix seconds of the next sync
    reason: of the decision to wait until then
    """

    versions: Versions
    due: float
    reason: str

    def shows(self, cron_job: Entry, jobs: Iterable[Entry]) -> bool:
        """Report whether these are the objects of the sync, unchanged since then."""
        return versions_of(cron_job, jobs) == self.versions


class SyncInProgress:
    """Sync in progress.

    versions: of the objects that it has read or written
    due, reason: as of RepeatableResult; no reason if the next event must be synced
    is_complete: whether all its deletions of old Jobs succeeded
    """

    def __init__(self, versions: dict[str, int]) -> None:
        self.versions = versions
        self.due, self.reason = 0.0, ""
        self.is_complete = True

    def wrote(self, uid: str, version: int) -> None:
        """Record an object that the server returned for a write. version: 0 if it is unknown."""
        self.versions[uid] = version
