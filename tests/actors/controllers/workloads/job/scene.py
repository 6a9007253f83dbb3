"""Test bench of the Job reconciler: a Job, its pods, and the status after a sync."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kcm.actors.controllers.workloads.job.fields import FAILURE_COUNT, FINALIZER, INDEX
from kcm.actors.controllers.workloads.job.metrics import JobMetrics
from kcm.actors.controllers.workloads.job.pods import JobPod
from kcm.actors.controllers.workloads.job.reconciler import JobReconciler
from kcm.actors.controllers.workloads.job.spec import SPEC
from kcm.actors.simulation.driver import NOW, Answer, Bench, Driven, drive
from kcm.protocols.messages.commands import Command, Create, Delete, List, Patch, Update
from kcm.protocols.messages.outcomes import Done, Outcome
from kcm.protocols.objects import Object, decode_object, encode_object, finalizers_of
from kcm.protocols.resources import JOBS, PODS
from kcm.protocols.times import format_time
from kcm.runtime.apiserver.kinds.batch.job.status import wrong_job_status
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.metrics.registry import Metrics

KEY = "default/count"
UID = "uid-of-count"
LABELS = {"job": "count"}
AT = format_time(NOW - 60)


def job(*, status: Mapping[str, Any] | None = None, meta: Mapping[str, Any] | None = None, **spec: Any) -> Object:
    pod = {"restartPolicy": spec.pop("restartPolicy", "Never"), "containers": [{"name": "main", "image": "i"}]}
    template = {"metadata": {"labels": LABELS}, "spec": pod}
    selector = {"matchLabels": LABELS}
    return {
        "metadata": {"name": "count", "namespace": "default", "uid": UID, "generation": 1, **(meta or {})},
        "spec": {"selector": selector, "template": template, "backoffLimit": 6, "parallelism": 1, **spec},
        "status": status or {},
    }


def pod(name: str, phase: str, *, index: int | str | None = None, tracked: bool = True, **more: Any) -> Object:
    """Build a pod of the Job. more: fields of metadata; `status`, `spec` and `annotations` are merged."""
    status, spec, annotations = more.pop("status", {}), more.pop("spec", {}), more.pop("annotations", {})
    number = {} if index is None else {INDEX: str(index)}
    meta: Object = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-of-{name}",
        "labels": {**LABELS, **number},
        "annotations": {**annotations, **number},
        "creationTimestamp": AT,
        "finalizers": [FINALIZER] if tracked else [],
        "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "count", "uid": UID, "controller": True}],
        **more,
    }
    return {"metadata": meta, "spec": spec, "status": {"phase": phase, **status}}


def pods(**phases: int) -> list[Object]:
    """Build pods by phase, with the number of each."""
    return [pod(f"{phase.lower()}-{i}", phase) for phase, count in phases.items() for i in range(count)]


def going(pod: Object) -> Object:
    """Return the pod with a deletionTimestamp."""
    meta = {**pod["metadata"], "deletionTimestamp": format_time(NOW - 5), "deletionGracePeriodSeconds": 30}
    return {**pod, "metadata": meta}


def exited(code: int, *, container: str = "main", at: float = NOW - 1) -> Object:
    """Return the status of a pod whose container has terminated."""
    state = {"terminated": {"exitCode": code, "finishedAt": format_time(at)}}
    return {"containerStatuses": [{"name": container, "state": state}]}


def described(text: str) -> list[Object]:
    """Build pods from a description such as "a: Failed #0 exit=3, Running Ready x2". Pods without a name are p0, p1, …

    The phase comes first. The other words:

    #0: completion index.
    failures=1: failures of the index before this pod.
    exit=3: exit code of the container. Containers of finished pods terminated at time 0.
    restarts=2: restarts of the container.
    Ready, or another word in upper case: this condition is True.
    untracked: without the finalizer.
    going: being deleted.
    x2: number of such pods.
    """
    described_pods: list[Object] = []
    for description in text.split(", ") if text else ():
        name, _, words = description.rpartition(": ")
        phase, *traits = words.split()
        count = next((int(word[1:]) for word in traits if word[0] == "x"), 1)
        described_pods += [_described(name or f"p{len(described_pods) + i}", phase, traits) for i in range(count)]
    return described_pods


def _described(name: str, phase: str, traits: Sequence[str]) -> Object:
    numbers = dict(word.split("=") for word in traits if "=" in word)
    status: Object = {"conditions": [{"type": word, "status": "True"} for word in traits if word[0].isupper()]}
    if "exit" in numbers or phase in ("Failed", "Succeeded"):
        status |= exited(int(numbers.get("exit", phase == "Failed")), at=0.0)
    if "restarts" in numbers:
        status |= {"containerStatuses": [{"name": "main", "restartCount": int(numbers["restarts"])}]}
    index = next((word[1:] for word in traits if word[0] == "#"), None)
    counts = {FAILURE_COUNT: numbers["failures"]} if "failures" in numbers else {}
    built = pod(name, phase, index=index, tracked="untracked" not in traits, status=status, annotations=counts)
    return going(built) if "going" in traits else built


class Scene:
    def __init__(self, shown: Object, some: Iterable[Object] = (), *, clears_start_time: bool = True) -> None:
        self.bench = Bench({JOBS: [shown], PODS: some}, facts=SPEC.facts)
        self.registry = Metrics()
        self._clears_start_time = clears_start_time
        self.restart()

    def restart(self) -> None:
        """Replace the reconciler, as after a crash: the new one has no memory."""
        self.reconciler = JobReconciler(
            tables=self.bench.tables,
            clock=self.bench.clock,
            metrics=JobMetrics(self.registry),
            log=quiet_log(),
            clears_start_time=self._clears_start_time,
        )

    def sync(
        self,
        answer: Answer | None = None,
        *,
        raises: type[Exception] | None = None,
        stop_after: int | None = None,
    ) -> Driven:
        tables = self.bench.tables
        return drive(self.reconciler, KEY, answer or self.accept, tables=tables, raises=raises, stop_after=stop_after)

    def let_pods_go(self) -> None:
        """Remove the pods that are being deleted and have no finalizer, and let the watch catch up."""
        self.bench.catch_up()
        for entry in list(self.bench.tables[PODS].entries()):
            if entry.facts.deleting and not entry.finalizers:
                self.bench.hide(PODS, entry.key)

    def accept(self, command: Command) -> Outcome:
        """Respond as the server. A deleted pod that is Running or has a finalizer stays, with a deletionTimestamp.

        Fails on a status that the server would reject.
        """
        if isinstance(command, List):
            found = [decode_object(entry.raw) for entry in self.bench.tables[PODS].entries()]
            return Done(encode_object({"metadata": {"resourceVersion": "100000"}, "items": found}))
        if isinstance(command, Update):
            new, old = decode_object(command.body), self.bench.tables[JOBS].get(KEY)
            assert old is not None
            assert list(wrong_job_status(new, dict(old))) == []
        if not isinstance(command, Delete):
            return self.bench.accept(command)
        known = self.bench.tables[PODS].get(command.key)
        if known is None or not (finalizers_of(known) or known["status"].get("phase") == "Running"):
            return self.bench.accept(command)
        entry = self.bench.tables[PODS].entry(command.key)
        assert entry is not None
        obj = going(decode_object(entry.raw))
        obj["metadata"]["resourceVersion"] = str(entry.resource_version + 1000)
        return Done(encode_object(obj))

    @property
    def status(self) -> Object:
        found = self.bench.tables[JOBS].get(KEY)
        assert found is not None
        return dict(found["status"])

    @property
    def conditions(self) -> list[tuple[str, str, str]]:
        """Return type, status and reason of each condition."""
        return [(each["type"], each["status"], each.get("reason", "")) for each in self._conditions]

    @property
    def _conditions(self) -> list[Object]:
        return list(self.status.get("conditions", ()))

    @property
    def messages(self) -> list[tuple[str, str, str, str]]:
        """Return type, status, reason and message of each condition."""
        pairs = zip(self.conditions, self._conditions, strict=True)
        return [(*seen, condition.get("message", "")) for seen, condition in pairs]

    @property
    def numbers(self) -> Object:
        """Return the counts in the status, to compare with `numbers(...)`."""
        return numbers(**{name: value for name, value in self.status.items() if name in numbers()})

    @property
    def counts(self) -> tuple[int, int, int]:
        """Return active, succeeded, failed."""
        status = self.status
        return status.get("active", 0), status.get("succeeded", 0), status.get("failed", 0)


def numbers(**counts: Any) -> Object:
    """Return the counts of a status; unnamed ones are 0 or empty. failedIndexes: None without backoffLimitPerIndex."""
    none: Object = {"active": 0, "ready": 0, "terminating": 0, "succeeded": 0, "failed": 0}
    return none | {"completedIndexes": "", "failedIndexes": None} | counts


def acts(driven: Driven) -> tuple[int, int, int]:
    """Return the numbers of pods created, pods deleted and finalizers removed."""
    released = [patch for patch in driven.of(Patch) if b"$deleteFromPrimitiveList" in patch.body]
    return len(driven.of(Create)), len(driven.of(Delete)), len(released)


def written(driven: Driven) -> list[Object]:
    """Return the written statuses, in order."""
    return [decode_object(update.body)["status"] for update in driven.of(Update)]


def job_pods(*some: Object) -> list[JobPod]:
    """Return these pods as a sync reads them."""
    table = Bench({PODS: some}).tables[PODS]
    return [JobPod(entry, table.object_of) for entry in table.entries()]
