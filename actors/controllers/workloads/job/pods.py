"""Pods of a Job: completion index, failure counts, outcome and finish time.

Source: kubernetes v1.36 pkg/controller/job (isPodFailed, getCompletionIndex, getFinishedTime).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kcm.actors.controllers.workloads.job.fields import FAILURE_COUNT, FINALIZER, IGNORED_FAILURE_COUNT, INDEX, JobSpec
from kcm.protocols.conditions import find_condition
from kcm.protocols.field_types import MAP, NUMBER, TEXT, TIME, CompiledShape, check
from kcm.protocols.integers import INT32, parse_int
from kcm.protocols.objects import Object, annotations_of, metadata
from kcm.protocols.pods import PodFacts, is_active, is_terminating
from kcm.protocols.times import parse_time
from kcm.runtime.tables.table import Entry

_TERMINATED = {"exitCode": NUMBER, "finishedAt": TIME}
_CONTAINERS = [{"name": TEXT, "restartCount": NUMBER, "state": {"terminated": _TERMINATED}}]
_SHAPE = CompiledShape(
    {
        "metadata": {"annotations": MAP, "deletionGracePeriodSeconds": NUMBER},
        "spec": {"initContainers": [{"name": TEXT, "restartPolicy": TEXT}]},
        "status": {
            "containerStatuses": _CONTAINERS,
            "initContainerStatuses": _CONTAINERS,
            "conditions": [{"type": TEXT, "status": TEXT, "lastTransitionTime": TIME}],
        },
    }
)


class JobPod:
    """One version of a Job's pod. The pod is decoded only when a field is read that its facts do not include."""

    __slots__ = ("_decode", "_index", "_object", "entry", "facts", "is_tracked")

    def __init__(self, entry: Entry, decode: Callable[[Entry], Object]) -> None:
        self.entry, self._decode = entry, decode
        self.facts: PodFacts = entry.facts
        self.is_tracked = FINALIZER in entry.finalizers  # not counted yet, as far as the table shows
        self._object: Object | None = None
        self._index: int | None = -1

    @property
    def uid(self) -> str:
        return self.entry.uid

    @property
    def object(self) -> Object:
        """The decoded pod. Raises ValueError if it is malformed."""
        if self._object is None:
            pod = self._decode(self.entry)
            try:
                check(pod, _SHAPE)
            except ValueError as err:
                raise ValueError(f"Pod {self.entry.key}: {err}") from err
            self._object = pod
        return self._object

    @property
    def index(self) -> int | None:
        """The completion index; None if it is missing or invalid."""
        if self._index == -1:
            number = parse_int(annotations_of(self.object).get(INDEX))
            self._index = number if number is not None and number >= 0 else None
        return self._index

    @property
    def is_active(self) -> bool:
        return is_active(self.facts)

    @property
    def is_terminating(self) -> bool:
        return is_terminating(self.facts)

    @property
    def has_succeeded(self) -> bool:
        return self.facts.phase == "Succeeded"

    def has_failed(self, spec: JobSpec) -> bool:
        """Report whether the pod counts as failed. Source: isPodFailed.

        A pod that is being deleted counts as failed, because its phase may never become Failed. It does not count if
        the Job replaces only pods in phase Failed: then the controller waits for that phase.
        """
        if self.facts.phase == "Failed":
            return True
        return not spec.only_failed and self.facts.deleting and not self.has_succeeded

    @property
    def failures(self) -> int:
        """Number of counted failures of the completion index before this pod."""
        return self._count(FAILURE_COUNT)

    @property
    def ignored_failures(self) -> int:
        return self._count(IGNORED_FAILURE_COUNT)

    def _count(self, annotation: str) -> int:
        """Return the number in an annotation; 0 if it is missing, malformed or negative."""
        number = parse_int(annotations_of(self.object).get(annotation), INT32)
        return number if number is not None and number >= 0 else 0


def is_settled(pod: Entry, spec: JobSpec) -> bool:
    """Report whether this version of a claimed pod cannot change the state of its Job.

    The pod has finished and lost the finalizer, so it was counted. A failed pod still matters if a rule of the pod
    failure policy may match it.
    """
    phase = pod.facts.phase
    return (phase == "Succeeded" or (phase == "Failed" and spec.failure_rules is None)) and (
        FINALIZER not in pod.finalizers
    )


def finish_time(pod: Object) -> float:
    """Return the time at which the pod finished, in Unix seconds. Source: getFinishedTime.

    The time is taken from the first of these that is present: the termination of its containers, its condition Ready,
    its deletion, its creation.
    """
    status = pod.get("status") or {}
    by_containers = _last_container_finish(pod, status)
    if by_containers is not None:
        return by_containers
    ready = find_condition(status.get("conditions") or (), "Ready")
    if ready is not None and ready.get("status") == "False" and ready.get("lastTransitionTime"):
        return parse_time(ready["lastTransitionTime"])
    meta = metadata(pod)
    if meta.get("deletionTimestamp"):
        return parse_time(meta["deletionTimestamp"]) - (meta.get("deletionGracePeriodSeconds") or 0)
    created = meta.get("creationTimestamp")
    return parse_time(created) if created else 0.0


def _last_container_finish(pod: Object, status: Mapping[str, Any]) -> float | None:
    """Return the finish time of the last container; None unless all containers and sidecars have terminated."""
    init_containers = (pod.get("spec") or {}).get("initContainers") or ()
    sidecars = {container.get("name") for container in init_containers if container.get("restartPolicy") == "Always"}
    main: Iterable[Any] = status.get("containerStatuses") or ()
    sidecar_statuses = [c for c in status.get("initContainerStatuses") or () if c.get("name") in sidecars]
    last = None
    # As upstream: a sidecar that has not terminated makes the result None, a container that has not terminated only
    # does so if there are no sidecars.
    for statuses in (main, sidecar_statuses):
        for container in statuses:
            at = ((container.get("state") or {}).get("terminated") or {}).get("finishedAt")
            if not at:
                last = None
                break
            finished = parse_time(at)
            last = finished if last is None else max(last, finished)
    return last


def total_restarts(pods: Iterable[JobPod]) -> int:
    """Return the number of container restarts in all Pending and Running pods."""
    total = 0
    for pod in pods:
        if pod.facts.phase not in ("Running", "Pending"):
            continue
        status = pod.object.get("status") or {}
        for field in ("initContainerStatuses", "containerStatuses"):
            total += sum(container.get("restartCount") or 0 for container in status.get(field) or ())
    return total
