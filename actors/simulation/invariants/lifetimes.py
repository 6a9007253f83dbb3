"""A finished Job is not deleted before its time."""

from __future__ import annotations

from actors.simulation import SimulatedCluster
from actors.simulation.invariants.observing import Fail, Handled, Observation
from protocols.objects import Object, decode_object, is_deleting, key_of
from protocols.times import parse_time
from runtime.apiserver.storage.store import DELETED
from runtime.faults.vocabulary import FaultKind

CLIENT = "ttl-after-finished-controller"
ENDS = ("Complete", "Failed")


class LivesAsLongAsItMay:
    """By the version that the deletion met, and not by the one that the controller saw.

    A manager whose clock is ahead deletes by that, as upstream's.
    """

    name = "no finished Job goes too early"
    observes = (Handled,)

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        jumps = (fault for fault in cluster.injector.faults if fault.kind is FaultKind.CLOCK_JUMPED)
        self._ahead = sum(max(0.0, fault.seconds) for fault in jumps)

    def observe(self, observation: Observation, fail: Fail) -> None:
        if not isinstance(observation, Handled) or observation.client != CLIENT:
            return
        for change in observation.changes:
            if change.storage != "jobs.batch" or not change.previous:
                continue
            before = decode_object(change.previous)
            goes = change.type == DELETED or is_deleting(decode_object(change.raw))
            if not goes or is_deleting(before):
                continue
            expires = expiry(before)
            if expires is None:
                fail(f"Job {key_of(before)} is deleted, and was to stay")
            elif expires > self._cluster.clock.now() + self._ahead:
                fail(f"Job {key_of(before)} is deleted {expires - self._cluster.clock.now():.3f} s too early")


def expiry(job: Object) -> float | None:
    """When a Job may be deleted, in Unix seconds; None if never."""
    seconds = job["spec"].get("ttlSecondsAfterFinished")
    ended = [
        one["lastTransitionTime"]
        for one in (job.get("status") or {}).get("conditions") or ()
        if one["type"] in ENDS and one["status"] == "True"
    ]
    return None if seconds is None or not ended else parse_time(ended[0]) + seconds
