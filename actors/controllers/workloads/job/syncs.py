"""One sync of a Job, as its parts hand it on to each other."""

from __future__ import annotations

from typing import NamedTuple

from kcm.actors.controllers.workloads.job.memory import Memory
from kcm.actors.controllers.workloads.job.metrics import RECONCILING, TRACKING
from kcm.protocols.messages.outcomes import CommandError
from kcm.protocols.objects import Object
from kcm.runtime.tables.table import Entry

LOOK_AGAIN = 1.0  # seconds after a pod's name was found to exist, a pod had changed, or more is to be counted


class Sync:
    """One sync of a Job. action: what it does, as metrics call it. pod_group: the PodGroup of new pods; "" for none."""

    __slots__ = ("action", "entry", "job", "memory", "pod_group", "waits")

    def __init__(self, entry: Entry, job: Object, memory: Memory) -> None:
        self.entry, self.job, self.memory = entry, job, memory
        self.action = RECONCILING
        self.pod_group = ""
        self.waits: list[float] = []

    def look_again(self, after: float | None) -> None:
        if after is not None:
            self.waits.append(after)


class Managed(NamedTuple):
    """action: what was done, as metrics call it. failure: what the sync raises once the status is written. wait:
    seconds to requeue after.
    """

    action: str = TRACKING
    failure: CommandError | None = None
    wait: float | None = None
