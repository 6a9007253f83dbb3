"""Resources of a pod and its containers, and their change in place while the pod runs.

The status of a container reports the resources that the kubelet has allocated and those that it has applied, and the
status of a pod with pod-level resources reports these as well. Hollow kubelets apply an allocation at once, or after
the annotation resize-seconds of the pod or node.

Source: kubernetes v1.36 pkg/kubelet/allocation/allocation_manager.go (handlePodResourcesResize), pkg/kubelet/events/
resize.go, pkg/kubelet/kubelet_pods.go (convertToAPIContainerStatuses, convertToAPIPodLevelResourcesStatus),
pkg/kubelet/status/status_manager.go. Unlike upstream, containers of a pod without any resources report none, a pod
without pod-level resources reports none, and the allocated pod-level resources do not include the pod's overhead.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kcm.actors.hollow.kubelet.images import PodEvent
from kcm.actors.hollow.scheduler.demand import amount_of
from kcm.protocols.conditions import find_condition
from kcm.protocols.messages.events import RecordType
from kcm.protocols.objects import Object, metadata
from kcm.protocols.pod_resources import RESIZE_PENDING
from kcm.protocols.times import format_time, parse_time

RESIZE_IN_PROGRESS = "PodResizeInProgress"
RESIZE_CONDITIONS = (RESIZE_PENDING, RESIZE_IN_PROGRESS)
RESIZABLE = ("cpu", "memory")
RETRY = 10.0  # seconds until a deferred resize is tried again
_POD = ""  # key of the pod-level resources, beside the names of containers
_FIELDS = ("initContainers", "containers")
_PARTS = ("limits", "requests")


class Resized(NamedTuple):
    """Resources of containers after a sync, by the container's name; under "" the pod-level resources, if any.

    applied: resources that the containers have.
    allocated: resources that the kubelet has reserved for them.
    restarted: containers that must be restarted to apply their resources.
    due: Unix seconds of the next attempt, or None.
    """

    applied: Mapping[str, Object]
    allocated: Mapping[str, Object]
    restarted: frozenset[str] = frozenset()
    conditions: Sequence[Object] = ()
    events: Sequence[PodEvent] = ()
    due: float | None = None

    def report(self, statuses: Sequence[Object]) -> None:
        """Add the resources to the statuses of containers."""
        for status in statuses:
            name = status["name"]
            if name in self.applied:
                status["resources"] = self.applied[name]
                if requests := self.allocated[name].get("requests"):
                    status["allocatedResources"] = requests

    @property
    def of_pod(self) -> Object:
        """The fields of the pod's status for its pod-level resources."""
        if _POD not in self.applied:
            return {}
        return {"resources": self.applied[_POD], "allocatedResources": self.allocated[_POD].get("requests") or {}}


def containers_of(pod: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for field in _FIELDS:
        yield from pod["spec"].get(field) or ()


def has_resources(pod: Mapping[str, Any]) -> bool:
    """Report whether the pod or one of its containers has requests or limits."""
    return bool(pod["spec"].get("resources")) or any(container.get("resources") for container in containers_of(pod))


def resized(pod: Object, *, lack: Callable[[], str], seconds: float, now: float) -> Resized:
    """Return the resources of the pod and its containers at `now`, in Unix seconds.

    lack: returns the resource that the node lacks for the pod's new requests, as a message; "" if they fit.
    seconds: time between the allocation of resources and their application.
    """
    wanted = {container["name"]: _resources(container) for container in containers_of(pod)}
    if pod["spec"].get("resources"):
        wanted[_POD] = _resources(pod["spec"])
    known = _known(pod, wanted)
    generation = metadata(pod).get("generation") or 0
    conditions = (pod.get("status") or {}).get("conditions")
    progress = find_condition(conditions, RESIZE_IN_PROGRESS)
    allocated = known
    if progress is not None:
        is_current = (progress.get("observedGeneration") or 0) == generation
        allocated = wanted if is_current else _allocated(pod, known)
    events: list[PodEvent] = []
    if any(not same(allocated[name], wanted[name]) for name in wanted):
        message = lack()
        if message:
            pending, fresh = _pending(find_condition(conditions, RESIZE_PENDING), message, generation, now=now)
            if fresh:
                events.append(_event(pod, "Warning", "ResizeDeferred", "Pod resize Deferred", error=message))
            kept = [pending] if progress is None else [pending, dict(progress)]
            return Resized(known, allocated, conditions=kept, events=events, due=now + RETRY)
        allocated, progress = wanted, _in_progress(generation, now=now)
        events.append(_event(pod, "Normal", "ResizeStarted", "Pod resize started"))
    if progress is None:
        return Resized(known, allocated)
    due = parse_time(progress["lastTransitionTime"]) + seconds
    if seconds and now < due:
        return Resized(known, allocated, conditions=[dict(progress)], events=events, due=due)
    events.append(_event(pod, "Normal", "ResizeCompleted", "Pod resize completed"))
    return Resized(allocated, allocated, restarted=frozenset(_restarted(pod, known, allocated)), events=events)


def same(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Report whether CPU and memory of two resources are equal."""
    return all(_amount(left, part, name) == _amount(right, part, name) for part in _PARTS for name in RESIZABLE)


def allocated_spec(pod: Object) -> Mapping[str, Any]:
    """Return the spec of a pod with the allocated requests in place of the requested ones."""
    spec = pod["spec"]
    given = _statuses(pod)
    changed: Object = {}
    if _differs(spec, given.get(_POD)):
        requests = spec["resources"].get("requests") or {}
        allocated = {**requests, **{k: v for k, v in given[_POD]["allocatedResources"].items() if k in requests}}
        changed["resources"] = {**spec["resources"], "requests": allocated}
    for field in _FIELDS:
        containers = spec.get(field) or ()
        if any(_differs(container, given.get(container["name"])) for container in containers):
            changed[field] = [_as_allocated(container, given.get(container["name"])) for container in containers]
    return {**spec, **changed} if changed else spec


def _differs(container: Mapping[str, Any], status: Mapping[str, Any] | None) -> bool:
    requests = (container.get("resources") or {}).get("requests")
    return status is not None and "allocatedResources" in status and status["allocatedResources"] != requests


def _as_allocated(container: Mapping[str, Any], status: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if status is None or not _differs(container, status):
        return container
    return {**container, "resources": {**container["resources"], "requests": status["allocatedResources"]}}


def _resources(container: Mapping[str, Any]) -> Object:
    resources = container.get("resources") or {}
    return {part: resources[part] for part in _PARTS if resources.get(part)}


def _statuses(pod: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    status = pod.get("status") or {}
    lists = (status.get("initContainerStatuses"), status.get("containerStatuses"))
    found = {container["name"]: container for statuses in lists for container in statuses or ()}
    return {**found, _POD: status} if pod["spec"].get("resources") and status.get("resources") is not None else found


def _known(pod: Mapping[str, Any], wanted: Mapping[str, Object]) -> dict[str, Object]:
    """Return the resources that the status reports; those of the spec for a container that has not started."""
    statuses = _statuses(pod)
    known = {}
    for name, resources in wanted.items():
        status = statuses.get(name) or {}
        reported = status.get("resources") if name == _POD or status.get("containerID") else None
        known[name] = dict(reported) if reported is not None else resources
    return known


def _allocated(pod: Mapping[str, Any], known: Mapping[str, Object]) -> dict[str, Object]:
    statuses = _statuses(pod)
    found = {}
    for name, resources in known.items():
        requests = (statuses.get(name) or {}).get("allocatedResources")
        found[name] = {**resources, "requests": requests} if requests else resources
    return found


def _amount(resources: Mapping[str, Any], part: str, name: str) -> int | None:
    quantity = (resources.get(part) or {}).get(name)
    return None if quantity is None else amount_of(name, quantity)


def _restarted(pod: Object, old: Mapping[str, Object], new: Mapping[str, Object]) -> Iterator[str]:
    """Yield the containers that must be restarted because of the resizePolicy of a changed resource."""
    for container in containers_of(pod):
        name = container["name"]
        for policy in container.get("resizePolicy") or ():
            resource = policy.get("resourceName") or ""
            changed = any(_amount(old[name], part, resource) != _amount(new[name], part, resource) for part in _PARTS)
            if changed and policy.get("restartPolicy") == "RestartContainer":
                yield name
                break


def _condition(type: str, generation: int, *, now: float, **fields: str) -> Object:
    stamp = format_time(now)
    condition: Object = {"type": type, "status": "True", "lastProbeTime": stamp, "lastTransitionTime": stamp, **fields}
    if generation:
        condition["observedGeneration"] = generation
    return condition


def _in_progress(generation: int, *, now: float) -> Object:
    return _condition(RESIZE_IN_PROGRESS, generation, now=now)


def _pending(known: Mapping[str, Any] | None, message: str, generation: int, *, now: float) -> tuple[Object, bool]:
    """Return the condition of a deferred resize, and whether it is new for this generation."""
    wanted = _condition(RESIZE_PENDING, generation, now=now, reason="Deferred", message=message)
    if known is None:
        return wanted, True
    is_known = (known.get("observedGeneration") or 0) == generation
    if is_known and (known.get("reason"), known.get("message")) == ("Deferred", message):
        return dict(known), False
    if known.get("reason") == "Deferred":
        wanted["lastTransitionTime"] = known.get("lastTransitionTime") or wanted["lastTransitionTime"]
    return wanted, not (is_known and known.get("reason") == "Deferred")


def _event(pod: Object, type: RecordType, reason: str, text: str, *, error: str = "") -> PodEvent:
    """Return an event with the wanted resources of all containers, as JSON in the form of Go's encoder."""
    summary: Object = {}
    for field in _FIELDS:
        listed = [
            {"name": container["name"], "resources": _sorted(_resources(container))}
            for container in pod["spec"].get(field) or ()
        ]
        if listed:
            summary[field] = listed
    summary["generation"] = metadata(pod).get("generation") or 0
    if error:
        summary["error"] = error
    return PodEvent(type, reason, f"{text}: {json.dumps(summary, separators=(',', ':'))}")


def _sorted(resources: Object) -> Object:
    return {part: dict(sorted(amounts.items())) for part, amounts in resources.items()}
