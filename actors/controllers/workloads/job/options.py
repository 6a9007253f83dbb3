"""Flags of the Job controller."""

from __future__ import annotations

from kcm.actors.options import ControllerOptions
from kcm.runtime.flags.declaration import flag


class JobOptions(ControllerOptions, frozen=True, kw_only=True):
    configz_block = "JobController"

    concurrent_syncs: int = flag(
        5, "Number of Jobs that are synced concurrently.", name="concurrent-job-syncs", config="ConcurrentJobSyncs"
    )
