"""A Job's pods, as it sees them.

Source: kubernetes v1.36 pkg/controller/job (isPodFailed, getCompletionIndex, getFinishedTime).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kcm.actors.controllers.workloads.job.fields import FAILURE_COUNT, FINALIZER, IGNORED_FAILURE_COUNT, INDEX, JobSpec
from kcm.protocols.conditions import find_condition
from kcm.protocols.integers import INT32, parse_int
from kcm.protocols.objects import Object, annotations_of, metadata
from kcm.protocols.pods import PodFacts, is_active, is_terminating
from kcm.protocols.shapes import MAP, NUMBER, TEXT, TIME, check
from kcm.protocols.times import parse_time
from kcm.runtime.tables.table import Entry

_TERMINATED = {"exitCode": NUMBER, "finishedAt": TIME}
_CONTAINERS = [{"name": TEXT, "restartCount": NUMBER, "state": {"terminated": _TERMINATED}}]
_SHAPE = {
    "metadata": {"annotations": MAP, "deletionGracePeriodSeconds": NUMBER},
    "spec": {"initContainers": [{"name": TEXT, "restartPolicy": TEXT}]},
    "status": {
        "containerStatuses": _CONTAINERS,
        "initContainerStatuses": _CONTAINERS,
        "conditions": [{"type": TEXT, "status": TEXT, "lastTransitionTime": TIME}],
    },
}


class JobPod:
    """One version of a pod. What is not among its facts is read when it is asked for, and then once.

    is_tracked: it has the finalizer: it is not counted yet, or we do not know that the finalizer is gone.
    """

    __slots__ = ("_index", "_look", "_object", "entry", "facts", "is_tracked")

    def __init__(self, entry: Entry, look: Callable[[Entry], Object]) -> None:
        self.entry, self._look = entry, look
        self.facts: PodFacts = entry.facts
        self.is_tracked = FINALIZER in entry.finalizers
        self._object: Object | None = None
        self._index: int | None = -1

    @property
    def uid(self) -> str:
        return self.entry.uid

    @property
    def object(self) -> Object:
        """Raises ValueError on a malformed one."""
        if self._object is None:
            pod = self._look(self.entry)
            try:
                check(pod, _SHAPE)
            except ValueError as err:
                raise ValueError(f"Pod {self.entry.key}: {err}") from err
            self._object = pod
        return self._object

    @property
    def index(self) -> int | None:
        """Its completion index, None if it has no valid one."""
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
        """Also of one that is being deleted and may never say that it failed; not where only failed ones are replaced:
        those are waited for.
        """
        if self.facts.phase == "Failed":
            return True
        return not spec.only_failed and self.facts.deleting and not self.has_succeeded

    @property
    def failures(self) -> int:
        """Of its index before it, as far as they count."""
        return self._count(FAILURE_COUNT)

    @property
    def ignored_failures(self) -> int:
        return self._count(IGNORED_FAILURE_COUNT)

    def _count(self, annotation: str) -> int:
        """0 if it is missing or no such number."""
        number = parse_int(annotations_of(self.object).get(annotation), INT32)
        return number if number is not None and number >= 0 else 0


def finish_time(pod: Object) -> float:
    """When it ended, in Unix seconds: by its containers, else its condition Ready, else its deletion; in the last
    resort when it was created.
    """
    status = pod.get("status") or {}
    by_containers = _last_end(pod, status)
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


def _last_end(pod: Object, status: Mapping[str, Any]) -> float | None:
    """None unless all containers have ended, and the sidecars, which end last."""
    containers = (pod.get("spec") or {}).get("initContainers") or ()
    sidecars = {one.get("name") for one in containers if one.get("restartPolicy") == "Always"}
    main: Iterable[Any] = status.get("containerStatuses") or ()
    beside = [one for one in status.get("initContainerStatuses") or () if one.get("name") in sidecars]
    last = None
    # As upstream, a sidecar that has not ended takes the answer away, and a container that has not does so only
    # where there are no sidecars.
    for some in (main, beside):
        for one in some:
            at = ((one.get("state") or {}).get("terminated") or {}).get("finishedAt")
            if not at:
                last = None
                break
            ended = parse_time(at)
            last = ended if last is None else max(last, ended)
    return last


def restarts_in_all(pods: Iterable[JobPod]) -> int:
    """Of containers of pods that are pending or run."""
    total = 0
    for pod in pods:
        if pod.facts.phase not in ("Running", "Pending"):
            continue
        status = pod.object.get("status") or {}
        for field in ("initContainerStatuses", "containerStatuses"):
            total += sum(one.get("restartCount") or 0 for one in status.get(field) or ())
    return total
