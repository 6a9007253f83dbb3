"""What of a pod decides whether its sample counts, and what it asks for.

Source: kubernetes v1.36 pkg/controller/podautoscaler/replica_calculator.go (groupPods, calculateRequests).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.samples import Samples
from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import Object, is_deleting, name_of
from kcm.protocols.pod_resources import is_of_pods, pod_requests
from kcm.protocols.quantities import milli_value
from kcm.protocols.times import parse_time

CPU = "cpu"
LONG_AGO = 0.0


class CannotComputeError(Exception):
    """Why there is no number of replicas, in upstream's words."""


class PodState(NamedTuple):
    """ready: the status of its condition Ready, "" without one; changed: since when. started: None before it did."""

    name: str
    phase: str
    deleting: bool
    ready: str = ""
    changed: float = LONG_AGO
    started: float | None = None


class Groups(NamedTuple):
    """Names of pods. ready: how many have a sample that counts."""

    ready: int
    unready: frozenset[str]
    missing: frozenset[str]
    ignored: frozenset[str]


class Youth(NamedTuple):
    """For how many seconds the CPU of a pod says nothing: while it starts, and until it may be ready at all."""

    initialization: float
    readiness_delay: float


def pod_state(pod: Object) -> PodState:
    status = pod.get("status") or {}
    condition = find_condition(status.get("conditions"), "Ready") or {}
    changed, started = condition.get("lastTransitionTime"), status.get("startTime")
    return PodState(
        name=name_of(pod),
        phase=status.get("phase") or "",
        deleting=is_deleting(pod),
        ready=condition.get("status") or "",
        changed=parse_time(changed) if changed else LONG_AGO,
        started=parse_time(started) if started else None,
    )


def group_pods(pods: Iterable[PodState], samples: Samples, resource: str, youth: Youth, *, now: float) -> Groups:
    """resource: "" for what is no resource. now: Unix seconds. Only CPU is higher while a pod starts."""
    ready = 0
    unready, missing, ignored = set(), set(), set()
    for pod in pods:
        if pod.deleting or pod.phase == "Failed":
            ignored.add(pod.name)
        elif pod.phase == "Pending":
            unready.add(pod.name)
        elif pod.name not in samples:
            missing.add(pod.name)
        elif resource == CPU and _is_starting(pod, samples, youth, now):
            unready.add(pod.name)
        else:
            ready += 1
    return Groups(ready, frozenset(unready), frozenset(missing), frozenset(ignored))


def _is_starting(pod: PodState, samples: Samples, youth: Youth, now: float) -> bool:
    if not pod.ready or pod.started is None:
        return True
    unready = pod.ready == "False"
    if pod.started + youth.initialization > now:
        sample = samples[pod.name]
        return unready or sample.at < pod.changed + sample.window  # or taken in part before it was as it is now
    return unready and pod.started + youth.readiness_delay > pod.changed  # it never was ready


def requests_of(
    pods: Iterable[Object], resource: str, container: str = "", *, of_whole_pods: bool = True
) -> dict[str, int]:
    """By the pod's name, in thousandths. container: "" for all of them, those too that run beside from the start.

    of_whole_pods: what a pod asks for as a whole counts, where it does. Raises CannotComputeError for a pod that does
    not ask for this.
    """
    found = {}
    for pod in pods:
        whole = of_whole_pods and not container and _asks_as_a_whole(pod)
        found[name_of(pod)] = _of_whole(pod, resource) if whole else _of_containers(pod, resource, container)
    return found


def _asks_as_a_whole(pod: Object) -> bool:
    requests = ((pod.get("spec") or {}).get("resources") or {}).get("requests") or {}
    return any(is_of_pods(name) for name in requests)


def _of_whole(pod: Object, resource: str) -> int:
    requests = pod_requests(pod, use_status=False)
    if resource not in requests:
        raise CannotComputeError(f"missing pod-level request for {resource} in Pod {name_of(pod)}")
    return milli_value(requests[resource].value)


def _of_containers(pod: Object, resource: str, container: str) -> int:
    total = 0
    for one in _containers(pod):
        name = one.get("name") or ""
        if container and name != container:
            continue
        requests = (one.get("resources") or {}).get("requests") or {}
        if resource not in requests:
            raise CannotComputeError(f"missing request for {resource} in container {name} of Pod {name_of(pod)}")
        try:
            total += milli_value(requests[resource])
        except ValueError as err:
            text = f"the request for {resource} in container {name} of Pod {name_of(pod)}: {err}"
            raise CannotComputeError(text) from err
        if container:
            return total
    if container:
        raise CannotComputeError(f"container {container} not found in Pod {name_of(pod)}")
    return total


def _containers(pod: Object) -> Iterator[Object]:
    spec = pod.get("spec") or {}
    yield from spec.get("containers") or ()
    for one in spec.get("initContainers") or ():
        if one.get("restartPolicy") == "Always":
            yield one
