"""Flags of the Job controller."""

from __future__ import annotations

from kcm.actors.options import ControllerOptions
from kcm.protocols.late_methods import dataclass
from kcm.runtime.flags.declaration import flag


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions(ControllerOptions):
    configz_block = "JobController"

    concurrent_syncs: int = flag(
        5, "Number of Jobs that are synced concurrently.", name="concurrent-job-syncs", config="ConcurrentJobSyncs"
    )
