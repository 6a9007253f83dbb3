"""What the controller remembers of a Job between two syncs. If it is lost, it waits less, or asks the server again."""

from __future__ import annotations

from dataclasses import field

from kcm.actors.controllers.workloads.job.backoff import Failures
from kcm.actors.controllers.workloads.job.making_sure import Live
from kcm.actors.controllers.workloads.job.pods import JobPod
from kcm.protocols.late_methods import dataclass
from kcm.protocols.objects import Key


@dataclass(slots=True)
class Memory:
    """uid: the Job's. is_sure: the tables showed, when that mattered for the first time, what an earlier leader wrote.
    live: what the server said of that.

    unsure: pods whose creation may have succeeded unseen, by name, with their index. doomed: uids of pods whose removal
    may have succeeded unseen. pods: as they were read last, by uid. ended: uids of tracked pods that have ended.
    """

    uid: str
    failures: Failures
    is_sure: bool = False
    live: Live | None = None
    unsure: dict[str, int | None] = field(default_factory=dict)
    doomed: set[str] = field(default_factory=set)
    pods: dict[str, JobPod] = field(default_factory=dict)
    ended: frozenset[str] = frozenset()


class Memories:
    """By the key of a Job."""

    def __init__(self) -> None:
        self._of: dict[Key, Memory] = {}

    def of(self, key: Key, uid: str) -> Memory:
        """Another Job of this name begins anew, but for the pods of the one before that are still waited for."""
        known = self._of.get(key)
        if known is None or known.uid != uid:
            ended = frozenset[str]() if known is None else known.ended
            known = self._of[key] = Memory(uid, Failures(of=uid), ended=ended)
        return known

    def forget(self, key: Key) -> frozenset[str]:
        """Returns the uids of tracked pods that had ended."""
        known = self._of.pop(key, None)
        return frozenset() if known is None else known.ended
