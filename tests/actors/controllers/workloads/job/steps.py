"""Runs FinalizerTracker alone, on a status and pods in a table."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from kcm.actors.controllers.workloads.job import metrics as of
from kcm.actors.controllers.workloads.job.backoff import Failures
from kcm.actors.controllers.workloads.job.fields import job_spec, job_status
from kcm.actors.controllers.workloads.job.finalizers import FinalizerTracker, StatusUpdate
from kcm.actors.controllers.workloads.job.metrics import JobMetrics
from kcm.actors.controllers.workloads.job.observed import Observed, observe
from kcm.actors.controllers.workloads.job.pods import JobPod
from kcm.actors.controllers.workloads.job.status import running_pods
from kcm.actors.controllers.workloads.job.sync import JobMemory, Sync
from kcm.actors.simulation.driver import Driven, drive_steps
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command
from kcm.protocols.messages.outcomes import Forbidden, Outcome
from kcm.protocols.objects import Key, Object, is_deleting
from kcm.protocols.resources import JOBS, PODS
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.metrics.registry import Counter
from tests.actors.controllers.workloads.job.scene import KEY, UID, Scene, described, job


class Track:
    """A Job whose finished pods are tracked.

    end: the condition with which the Job finishes. going: the Job is being deleted.
    """

    def __init__(
        self, status: Object, pods: str, *, end: Object | None = None, going: bool = False, **spec: Any
    ) -> None:
        self.end = end
        self.scene = Scene(job(), described(pods))
        running = running_pods(self.scene.bench.tables[PODS], UID)
        counts = {"active": running.active, "ready": running.ready, "terminating": running.terminating}
        meta = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if going else {}
        self.scene.bench.show(JOBS, job(status=counts | status, meta=meta, **spec))

    @property
    def observed(self) -> Observed:
        pods, shown = self.scene.bench.tables[PODS], self.scene.bench.tables[JOBS].get(KEY)
        assert shown is not None
        return observe(
            uid=UID,
            spec=job_spec(dict(shown)),
            status=job_status(dict(shown["status"])),
            pods=[JobPod(entry, pods.object_of) for entry in pods.entries()],
            is_deleting=is_deleting(dict(shown)),
        )

    def run(self, refused: type[Command] | None = None, *, but: Container[Key] = ()) -> Driven:
        """Track once. refused: commands that the server rejects, except for the keys in `but`."""
        tables, clock, observed = self.scene.bench.tables, self.scene.bench.clock, self.observed
        entry = tables[JOBS].entry(KEY)
        assert entry is not None
        sync = Sync(entry, dict(tables[JOBS].object_of(entry)), JobMemory(UID, Failures(of=UID)))
        metrics = JobMetrics(self.scene.registry)
        tracker = FinalizerTracker(pods=tables[PODS], clock=clock, metrics=metrics, log=quiet_log())
        for pod in observed.active if self.end is not None else ():
            self.scene.bench.hide(PODS, pod.entry.key)  # the sync deletes them before it tracks
        update = StatusUpdate(observed, self.end, observed.status.conditions, None, Failures(of=UID))

        def answer(command: Command) -> Outcome:
            is_refused = refused is not None and isinstance(command, refused) and getattr(command, "key", "") not in but
            return Forbidden("not allowed") if is_refused else self.scene.accept(command)

        raises = None if refused is None else CommandError
        running = tracker.track(sync, update)
        return drive_steps(running, answer, tables=tables, raises=raises)


def status_line(status: Object) -> str:
    """Format the counts of a status as one line."""
    uncounted = status["uncountedTerminatedPods"]
    waiting = [
        f"{name}: {'+'.join(map(_short, uncounted[name]))}" for name in ("succeeded", "failed") if name in uncounted
    ]
    indexes = [f"indexes {status['completedIndexes']}"] if "completedIndexes" in status else []
    failed = [f"failed indexes '{status['failedIndexes']}'"] if "failedIndexes" in status else []
    types = [condition["type"] for condition in status.get("conditions", ())]
    counts = f"{status.get('succeeded', 0)}/{status.get('failed', 0)}"
    return "; ".join([counts, *waiting, *indexes, *failed, *types])


def _short(uid: str) -> str:
    return uid.removeprefix("uid-of-")


def uncounted(succeeded: str = "", failed: str = "") -> Object:
    """Return uncountedTerminatedPods. succeeded, failed: names of pods, one letter each."""
    uids = {"succeeded": succeeded, "failed": failed}
    return {"uncountedTerminatedPods": {name: [f"uid-of-{letter}" for letter in names] for name, names in uids.items()}}


def finished_pods(track: Track) -> tuple[float, float]:
    """Return the numbers of succeeded and failed pods in the metrics."""
    families = track.scene.registry.collect()
    series = dict(next((values for family, values in families if family == of.PODS_FINISHED), ()))
    counts = {labels[1]: counter.value for labels, counter in series.items() if isinstance(counter, Counter)}
    return counts.get("succeeded", 0), counts.get("failed", 0)
