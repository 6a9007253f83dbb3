"""A Job and its pods on a bench: what one sync does, and the status that it leaves."""

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
    """more: metadata, except status and spec, which are merged into those."""
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
    """So many of each phase."""
    return [pod(f"{phase.lower()}-{i}", phase) for phase, count in phases.items() for i in range(count)]


def going(one: Object) -> Object:
    meta = {**one["metadata"], "deletionTimestamp": format_time(NOW - 5), "deletionGracePeriodSeconds": 30}
    return {**one, "metadata": meta}


def exited(code: int, *, container: str = "main", at: float = NOW - 1) -> Object:
    """A status."""
    state = {"terminated": {"exitCode": code, "finishedAt": format_time(at)}}
    return {"containerStatuses": [{"name": container, "state": state}]}


def described(text: str) -> list[Object]:
    """Pods in a few words each: "a: Failed #0 exit=3, Running Ready x2". Without a name they are p0, p1, and so on.

    A phase comes first. #0: an index. failures=1: how often its index failed before. exit=3: its container has ended
    with this code, as those of pods do that have ended, all of them long ago. restarts=2: of its container. Ready, or
    any other condition: is True. untracked: without the finalizer. going: being deleted. x2: so many of them.
    """
    made: list[Object] = []
    for one in text.split(", ") if text else ():
        name, _, words = one.rpartition(": ")
        phase, *said = words.split()
        count = next((int(word[1:]) for word in said if word[0] == "x"), 1)
        made += [_described(name or f"p{len(made) + i}", phase, said) for i in range(count)]
    return made


def _described(name: str, phase: str, said: Sequence[str]) -> Object:
    numbers = dict(word.split("=") for word in said if "=" in word)
    status: Object = {"conditions": [{"type": word, "status": "True"} for word in said if word[0].isupper()]}
    if "exit" in numbers or phase in ("Failed", "Succeeded"):
        status |= exited(int(numbers.get("exit", phase == "Failed")), at=0.0)
    if "restarts" in numbers:
        status |= {"containerStatuses": [{"name": "main", "restartCount": int(numbers["restarts"])}]}
    index = next((word[1:] for word in said if word[0] == "#"), None)
    counts = {FAILURE_COUNT: numbers["failures"]} if "failures" in numbers else {}
    made = pod(name, phase, index=index, tracked="untracked" not in said, status=status, annotations=counts)
    return going(made) if "going" in said else made


class Scene:
    def __init__(self, shown: Object, some: Iterable[Object] = (), *, clears_start_time: bool = True) -> None:
        self.bench = Bench({JOBS: [shown], PODS: some}, facts=SPEC.facts)
        self.registry = Metrics()
        self._clears_start_time = clears_start_time
        self.begin_anew()

    def begin_anew(self) -> None:
        """As after a crash: nothing is remembered."""
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
        """The kubelets have stopped what is being deleted, and the watch has shown it all."""
        self.bench.catch_up()
        for entry in list(self.bench.tables[PODS].entries()):
            if entry.facts.deleting and not entry.finalizers:
                self.bench.hide(PODS, entry.key)

    def accept(self, command: Command) -> Outcome:
        """A deleted pod that runs or has a finalizer stays a while. A list has what the watch has shown.

        Fails on a status that the server would refuse.
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
        """Type, status and reason of each."""
        return [(one["type"], one["status"], one.get("reason", "")) for one in self._conditions]

    @property
    def _conditions(self) -> list[Object]:
        return list(self.status.get("conditions", ()))

    @property
    def messages(self) -> list[tuple[str, str, str, str]]:
        """Type, status, reason and message of each condition."""
        return [(*seen, one.get("message", "")) for seen, one in zip(self.conditions, self._conditions, strict=True)]

    @property
    def numbers(self) -> Object:
        """Compare with `numbers`."""
        return numbers(**{name: value for name, value in self.status.items() if name in numbers()})

    @property
    def counts(self) -> tuple[int, int, int]:
        """Active, succeeded, failed."""
        status = self.status
        return status.get("active", 0), status.get("succeeded", 0), status.get("failed", 0)


def numbers(**said: Any) -> Object:
    """What a status counts; what is not said is 0, or empty. failedIndexes: None where indexes have no limits."""
    none: Object = {"active": 0, "ready": 0, "terminating": 0, "succeeded": 0, "failed": 0}
    return none | {"completedIndexes": "", "failedIndexes": None} | said


def acts(driven: Driven) -> tuple[int, int, int]:
    """How many pods it created, deleted, and how many finalizers it removed."""
    released = [one for one in driven.of(Patch) if b"$deleteFromPrimitiveList" in one.body]
    return len(driven.of(Create)), len(driven.of(Delete)), len(released)


def written(driven: Driven) -> list[Object]:
    """The statuses, in order."""
    return [decode_object(one.body)["status"] for one in driven.of(Update)]


def job_pods(*some: Object) -> list[JobPod]:
    """As a sync sees them."""
    table = Bench({PODS: some}).tables[PODS]
    return [JobPod(entry, table.object_of) for entry in table.entries()]
