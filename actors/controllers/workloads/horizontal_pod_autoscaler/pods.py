"""Grouping of pods by whether their metric samples are used, and computation of their resource requests.

Source: kubernetes v1.36 pkg/controller/podautoscaler/replica_calculator.go (groupPods, calculateRequests).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.samples import MetricSamples
from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import Object, is_deleting, name_of
from kcm.protocols.pod_resources import is_of_pods, pod_requests
from kcm.protocols.quantities import milli_value
from kcm.protocols.times import parse_time

CPU = "cpu"
NEVER_CHANGED = 0.0


class CannotComputeError(Exception):
    """Raised if no number of replicas can be computed from a metric. Its text is the same as upstream's."""


class PodState(NamedTuple):
    """Fields of a pod that determine whether its metric sample is used. Times are Unix seconds."""

    name: str
    phase: str
    deleting: bool
    ready: str = ""  # status of the condition Ready; "" without it
    changed: float = NEVER_CHANGED  # lastTransitionTime of the condition Ready
    started: float | None = None  # status.startTime


class PodGroups(NamedTuple):
    """Names of a target's pods, grouped by whether and why their metric samples are not used. Source: groupPods."""

    ready: int  # number of pods whose sample is used
    unready: frozenset[str]  # pending pods, and for CPU pods that are starting: their samples are not used
    missing: frozenset[str]  # pods without a sample
    ignored: frozenset[str]  # failed pods, and pods that are being deleted


class CpuInitialization(NamedTuple):
    """Periods after the start of a pod during which its CPU samples may be ignored, in seconds.

    CPU usage is often unusually high while a pod starts.
    """

    initialization: float  # --horizontal-pod-autoscaler-cpu-initialization-period
    readiness_delay: float  # --horizontal-pod-autoscaler-initial-readiness-delay


def pod_state(pod: Object) -> PodState:
    status = pod.get("status") or {}
    condition = find_condition(status.get("conditions"), "Ready") or {}
    changed, started = condition.get("lastTransitionTime"), status.get("startTime")
    return PodState(
        name=name_of(pod),
        phase=status.get("phase") or "",
        deleting=is_deleting(pod),
        ready=condition.get("status") or "",
        changed=parse_time(changed) if changed else NEVER_CHANGED,
        started=parse_time(started) if started else None,
    )


def group_pods(
    pods: Iterable[PodState],
    samples: MetricSamples,
    resource: str,
    cpu_initialization: CpuInitialization,
    *,
    now: float,
) -> PodGroups:
    """Divide the pods of a target into ready, unready, missing and ignored pods, as PodGroups describes.

    Only the samples of ready pods are used. For CPU, pods that are starting count as unready.

    samples: measured values by pod name
    resource: name of the resource that was measured; "" for a custom metric
    now: Unix seconds
    """
    ready = 0
    unready, missing, ignored = set(), set(), set()
    for pod in pods:
        if pod.deleting or pod.phase == "Failed":
            ignored.add(pod.name)
        elif pod.phase == "Pending":
            unready.add(pod.name)
        elif pod.name not in samples:
            missing.add(pod.name)
        elif resource == CPU and _is_starting(pod, samples, cpu_initialization, now):
            unready.add(pod.name)
        else:
            ready += 1
    return PodGroups(ready, frozenset(unready), frozenset(missing), frozenset(ignored))


def _is_starting(pod: PodState, samples: MetricSamples, cpu_initialization: CpuInitialization, now: float) -> bool:
    if not pod.ready or pod.started is None:
        return True
    unready = pod.ready == "False"
    if pod.started + cpu_initialization.initialization > now:
        sample = samples[pod.name]
        return unready or sample.at < pod.changed + sample.window  # or the sample began before the last change of Ready
    return unready and pod.started + cpu_initialization.readiness_delay > pod.changed  # the pod has never been ready


def pod_requests_by_name(
    pods: Iterable[Object], resource: str, container: str = "", *, pod_level_resources: bool = True
) -> dict[str, int]:
    """Return the request of each pod for a resource, by pod name, in thousandths. Source: calculateRequests.

    container: name of the container whose request is returned; "" for the sum of all containers and sidecars
    pod_level_resources: whether requests of the pod take precedence over those of its containers (feature gate
        PodLevelResources)

    Raises CannotComputeError if the request of a pod or container is missing.
    """
    found = {}
    for pod in pods:
        whole = pod_level_resources and not container and _has_pod_level_requests(pod)
        found[name_of(pod)] = (
            _pod_level_request(pod, resource) if whole else _container_requests(pod, resource, container)
        )
    return found


def _has_pod_level_requests(pod: Object) -> bool:
    requests = ((pod.get("spec") or {}).get("resources") or {}).get("requests") or {}
    return any(is_of_pods(name) for name in requests)


def _pod_level_request(pod: Object, resource: str) -> int:
    requests = pod_requests(pod, use_status=False)
    if resource not in requests:
        raise CannotComputeError(f"missing pod-level request for {resource} in Pod {name_of(pod)}")
    return milli_value(requests[resource].value)


def _container_requests(pod: Object, resource: str, container: str) -> int:
    total = 0
    for entry in _containers(pod):
        name = entry.get("name") or ""
        if container and name != container:
            continue
        requests = (entry.get("resources") or {}).get("requests") or {}
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
    for init_container in spec.get("initContainers") or ():
        if init_container.get("restartPolicy") == "Always":
            yield init_container
