"""Status of a pod that a hollow kubelet reports at a given time, as a function of the pod.

Source: kubernetes v1.36 pkg/kubelet/kubelet_pods.go (getPhase, generateAPIPodStatus), status/generate.go,
status/status_manager.go, kuberuntime/kuberuntime_container.go (computeInitContainerActions), active_deadline.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from kcm.actors.hollow import behaviour
from kcm.actors.hollow.kubelet.container_runs import scripts_of
from kcm.actors.hollow.kubelet.containers import (
    KILLED,
    NOTHING,
    Life,
    Memory,
    PodContext,
    initialising,
    live,
    not_started,
    pod_context,
    stopped,
)
from kcm.actors.hollow.kubelet.images import PodEvent
from kcm.actors.hollow.kubelet.resize import RESIZE_CONDITIONS, Resized
from kcm.actors.hollow.scheduler.node_fit import NO_PORTS
from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import Object, metadata
from kcm.protocols.times import format_time, parse_time

INITIALIZED, READY, CONTAINERS_READY = "Initialized", "Ready", "ContainersReady"
SCHEDULED, READY_TO_START = "PodScheduled", "PodReadyToStartContainers"
OVERDUE = ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")

Memories = Mapping[str, Memory]
"""By container, of those of which there is something to remember."""
NO_MEMORIES: Memories = MappingProxyType({})


class PodPlan(NamedTuple):
    """Wanted fields of the status, and the Unix seconds of their next change by time alone."""

    status: Object
    due: float | None = None
    memories: Memories = NO_MEMORIES
    events: Sequence[PodEvent] = ()


def has_started(pod: Object) -> bool:
    """Report whether a kubelet has begun to run the pod."""
    return bool((pod.get("status") or {}).get("startTime"))


def has_running(pod: Object) -> bool:
    """Report whether a container of the pod is running, so that it must be stopped."""
    status = pod.get("status") or {}
    lists = (status.get("containerStatuses"), status.get("initContainerStatuses"))
    return any((status.get("state") or {}).get("running") for statuses in lists for status in statuses or ())


def rejected(pod: Object, *, capacity_milli_cpu: int, now: float) -> PodPlan:
    """Reject the pod because of a lack of CPU. Source: kubernetes v1.36 pkg/kubelet/kubelet.go, rejectPod."""
    lacking = f"requested: {capacity_milli_cpu + 1}, used: 0, capacity: {capacity_milli_cpu}"
    return _rejected(pod, "OutOfcpu", f"Node didn't have enough resource: cpu, {lacking}", now=now)


def without_ports(pod: Object, *, now: float) -> PodPlan:
    """Reject the pod, because another pod uses a host port that it requests."""
    return _rejected(pod, "NodePorts", f"Predicate NodePorts failed: {NO_PORTS}", now=now)


def _rejected(pod: Object, reason: str, why: str, *, now: float) -> PodPlan:
    message = f"Pod was rejected: {why}"
    status = {"phase": "Failed", "reason": reason, "message": message}
    events = (PodEvent("Warning", reason, message),)
    return PodPlan({**status, "startTime": _start_time(pod, now=now)}, events=events)


def creating(pod: Object, *, host_ips: Sequence[str], now: float) -> Object:
    """Return the status of a pod whose containers wait for its volumes."""
    spec = pod["spec"]
    reason = "PodInitializing" if spec.get("initContainers") else "ContainerCreating"
    init = [not_started(container, "PodInitializing") for container in spec.get("initContainers") or ()]
    containers = sorted((not_started(container, reason) for container in spec["containers"]), key=_name)
    plan = _plan(pod, init, containers, "Pending", now=now, sandboxed=False)
    addresses = {"hostIP": host_ips[0], "hostIPs": [{"ip": ip} for ip in host_ips]}
    return {"startTime": _start_time(pod, now=now), **addresses, **plan}


def running(
    pod: Object,
    *,
    host_ips: Sequence[str],
    pod_ips: Sequence[str],
    now: float,
    memories: Memories = NO_MEMORIES,
    unpullable: tuple[str, ...] = (),
    resized: Resized | None = None,
) -> PodPlan:
    """Return the status of a pod that is bound to the node and not being deleted.

    unpullable: patterns of images.
    resized: resources of its containers, which their statuses report; None to report none.
    """
    start_time = _start_time(pod, now=now)
    addresses: Object = {
        "startTime": start_time,
        "hostIP": host_ips[0],
        "hostIPs": [{"ip": ip} for ip in host_ips],
        "podIP": pod_ips[0],
        "podIPs": [{"ip": ip} for ip in pod_ips],
    }
    deadline = _deadline(pod, start_time)
    if deadline is not None and now >= deadline:
        return _overdue(pod, addresses, now=now)
    restarted = frozenset() if resized is None else resized.restarted
    context = pod_context(pod, unpullable=unpullable, now=now, resized=restarted)
    cast = _Cast(pod, context, memories)
    init = cast.init_containers()
    containers = cast.containers()
    ephemeral = cast.ephemeral_containers()
    if resized is not None:
        resized.report(init)
        resized.report(containers)
    phase = _phase(init, containers, initialised=cast.initialised, failed=cast.failed)
    if phase in ("Succeeded", "Failed"):
        init = [stopped(container_status, exit_code=0, now=now, initialised=False) for container_status in init]
        ephemeral = [stopped(status, exit_code=0, now=now) for status in ephemeral]
    plan = _plan(pod, init, containers, phase, now=now)
    if ephemeral:
        plan["ephemeralContainerStatuses"] = ephemeral
    dues = (deadline, cast.due, None if resized is None else resized.due)
    due = min((at for at in dues if at is not None), default=None)
    if phase in ("Succeeded", "Failed"):
        due = None
    elif resized is not None and resized.conditions:
        plan["conditions"] = [*resized.conditions, *plan["conditions"]]
    if resized is None:
        return PodPlan({**addresses, **plan}, due, cast.memories, cast.events)
    return PodPlan({**addresses, **plan, **resized.of_pod}, due, cast.memories, [*resized.events, *cast.events])


class _Cast:
    """Containers of a pod, evaluated in order. failed: an init container has failed and will not be restarted."""

    __slots__ = (
        "_before",
        "_context",
        "_has_annotations",
        "_pod",
        "due",
        "events",
        "failed",
        "initialised",
        "memories",
    )

    def __init__(self, pod: Object, context: PodContext, memories: Memories) -> None:
        self._pod, self._context, self._before = pod, context, memories
        self._has_annotations = behaviour.has_annotations(pod)
        self.initialised, self.failed = True, False
        self.due: float | None = None
        self.memories: dict[str, Memory] = {}
        self.events: list[PodEvent] = []

    def init_containers(self) -> list[Object]:
        """Evaluate the init containers in order: each waits until those before it have ended, or started (sidecars)."""
        spec, status = self._pod["spec"], self._pod.get("status") or {}
        if not spec.get("initContainers"):
            return []
        before = _by_name(status.get("initContainerStatuses"))
        begun = any(container_status.get("containerID") for container_status in status.get("containerStatuses") or ())
        context = self._context
        if context.restart_policy == "Always":
            context = context._replace(restart_policy="OnFailure")
        statuses = []
        for container in spec["initContainers"]:
            known = before.get(container["name"])
            sidecar = _is_sidecar(container)
            if not self.initialised or self.failed or (begun and not sidecar):
                statuses.append(initialising(container, known))
                continue
            life = self._live(container, known, context, init=True)
            statuses.append(life)
            if sidecar:
                self.initialised = begun or life["started"]
                continue
            over = life["state"].get("terminated")
            self.initialised = life["ready"] = over is not None and not over.get("exitCode")
            self.failed = over is not None and not self.initialised
        return statuses

    def containers(self) -> list[Object]:
        """Evaluate the containers, in the order by name in which the kubelet reports them."""
        before = _by_name((self._pod.get("status") or {}).get("containerStatuses"))
        statuses = []
        for container in self._pod["spec"]["containers"]:
            known = before.get(container["name"])
            if self.initialised:
                statuses.append(self._live(container, known, self._context, init=False))
            else:
                statuses.append(initialising(container, known))
        return statuses if len(statuses) == 1 else sorted(statuses, key=_name)

    def ephemeral_containers(self) -> list[Object]:
        """Evaluate the ephemeral containers, which are never restarted and not probed."""
        spec = self._pod["spec"]
        if not spec.get("ephemeralContainers"):
            return []
        before = _by_name((self._pod.get("status") or {}).get("ephemeralContainerStatuses"))
        context = self._context._replace(restart_policy="Never")
        statuses = []
        for container in spec["ephemeralContainers"]:
            status = self._live(container, before.get(container["name"]), context, init=False, ephemeral=True)
            status["ready"] = False
            del status["started"]
            statuses.append(status)
        return statuses

    def _live(
        self,
        container: Mapping[str, Any],
        known: Mapping[str, Any] | None,
        context: PodContext,
        *,
        init: bool,
        ephemeral: bool = False,
    ) -> Object:
        name = container["name"]
        scripts = scripts_of(
            self._pod, container, has_annotations=self._has_annotations, init=init, ephemeral=ephemeral
        )
        life: Life = live(container, known, scripts, context, self._before.get(name, NOTHING))
        if life.due is not None and (self.due is None or life.due < self.due):
            self.due = life.due
        if life.memory is not NOTHING:
            self.memories[name] = life.memory
        self.events += life.events
        return life.status


def _name(status: Mapping[str, Any]) -> str:
    name: str = status["name"]
    return name


def _by_name(statuses: Sequence[Object] | None) -> dict[str, Object]:
    return {status["name"]: status for status in statuses or ()}


def _is_sidecar(container: Mapping[str, Any]) -> bool:
    return container.get("restartPolicy") == "Always"


def _deadline(pod: Object, start_time: str) -> float | None:
    seconds = pod["spec"].get("activeDeadlineSeconds")
    return None if seconds is None else parse_time(start_time) + seconds


def _overdue(pod: Object, addresses: Object, *, now: float) -> PodPlan:
    reason, message = OVERDUE
    init, containers = _halted(pod, exit_code=KILLED, now=now)
    plan = _plan(pod, init, containers, "Failed", now=now) | _halted_ephemeral(pod, exit_code=KILLED, now=now)
    events = (PodEvent("Normal", reason, message),)
    return PodPlan({**addresses, **plan, "reason": reason, "message": message}, events=events)


# Status of a pod that was deleted before a kubelet began to run it.
NEVER_STARTED = PodPlan({"phase": "Failed"})


def ended(pod: Object, *, killed: bool, now: float) -> PodPlan:
    """Return the status of a pod whose containers were stopped. killed: the grace period was too short for them."""
    exit_code = KILLED if killed else 0
    init, containers = _halted(pod, exit_code=exit_code, now=now)
    codes = [container["state"].get("terminated", {}).get("exitCode", KILLED) for container in containers]
    phase = "Failed" if any(codes) else "Succeeded"
    ephemeral = _halted_ephemeral(pod, exit_code=exit_code, now=now)
    return PodPlan(_plan(pod, init, containers, phase, now=now) | ephemeral)


def _halted_ephemeral(pod: Object, *, exit_code: int, now: float) -> Object:
    """Return the field with the statuses of the stopped ephemeral containers; {} without such containers."""
    statuses = (pod.get("status") or {}).get("ephemeralContainerStatuses")
    if not statuses:
        return {}
    halted = [stopped(status, exit_code=exit_code, now=now) for status in statuses]
    for status in halted:
        status.pop("started", None)
    return {"ephemeralContainerStatuses": halted}


def _halted(pod: Object, *, exit_code: int, now: float) -> tuple[list[Object], list[Object]]:
    """Return the statuses of the stopped init containers and containers."""
    status = pod.get("status") or {}
    begun = [_has_begun(init_status) for init_status in status.get("initContainerStatuses") or ()]
    last = max((index for index, init_status in enumerate(begun) if init_status), default=0)
    init = [
        stopped(init_status, exit_code=exit_code if index == last else 0, now=now, initialised=index <= last)
        for index, init_status in enumerate(status.get("initContainerStatuses") or ())
    ]
    initialised = not begun or any(map(_has_begun, status.get("containerStatuses") or ()))
    containers = [
        stopped(container_status, exit_code=exit_code, now=now, initialised=initialised)
        for container_status in status.get("containerStatuses") or ()
    ]
    return init, containers


def _has_begun(status: Mapping[str, Any]) -> bool:
    return "waiting" not in (status.get("state") or {}) or bool(status.get("lastState"))


def _plan(
    pod: Object,
    init: Sequence[Object],
    containers: Sequence[Object],
    phase: str,
    *,
    now: float,
    sandboxed: bool = True,
) -> Object:
    """Return the status of containers, phase and conditions. sandboxed: whether the pod has its sandbox and volumes."""
    plan: Object = {"phase": phase, "containerStatuses": containers}
    if init:
        plan["initContainerStatuses"] = init
    plan["conditions"] = _conditions(pod, init, containers, phase, now=now, sandboxed=sandboxed)
    generation = metadata(pod).get("generation")
    return {**plan, "observedGeneration": generation} if generation else plan


def status_changes(pod: Object, desired: Mapping[str, Any]) -> Object:
    """Return the fields for merge_status (ordered=False) that change the pod's status to the desired one, or {}.

    Of the conditions only those that differ are returned. Their order is upstream's: first conditions of other
    components, then the kubelet's. Source: kubernetes v1.36 pkg/kubelet/status/status_manager.go, mergePodStatus.
    """
    status = pod.get("status") or {}
    changes = {field: value for field, value in desired.items() if status.get(field) != value}
    if "conditions" in changes:
        current, wanted = status.get("conditions") or (), desired["conditions"]
        ended_resizes = [
            type
            for type in RESIZE_CONDITIONS
            if find_condition(current, type) is not None and find_condition(wanted, type) is None
        ]
        changes["conditions"] = _differing(current, wanted)
        changes["conditions"] += [{"type": type, "$patch": "delete"} for type in ended_resizes]
        if not changes["conditions"]:
            del changes["conditions"]
        elif current:
            ours = [condition["type"] for condition in wanted]
            others = [condition["type"] for condition in current if condition["type"] not in (*ours, *ended_resizes)]
            changes["$setElementOrder/conditions"] = [{"type": type} for type in (*others, *ours)]
    return changes


def _differing(current: Any, desired: Sequence[Object]) -> list[Object]:
    return [condition for condition in desired if find_condition(current, condition["type"]) != condition]


def _phase(init: Sequence[Object], containers: Sequence[Object], *, initialised: bool, failed: bool) -> str:
    """Return the phase of the pod. Source: kubernetes v1.36 pkg/kubelet/kubelet_pods.go, getPhase."""
    if failed:
        return "Failed"
    if not initialised and init:
        return "Pending"
    states = [status["state"] for status in containers]
    if any("waiting" in status["state"] and not status.get("lastState") for status in containers):
        return "Pending"
    if any("running" in state for state in states):
        return "Running"
    codes = []
    for status in containers:
        over = status["state"].get("terminated")
        if over is None:
            return "Running"  # the container will be restarted
        codes.append(over.get("exitCode", 0))
    return "Failed" if any(codes) else "Succeeded"


def _conditions(
    pod: Object,
    init: Sequence[Object],
    containers: Sequence[Object],
    phase: str,
    *,
    now: float,
    sandboxed: bool,
) -> list[Object]:
    """Return the kubelet's conditions of the pod. Source: pkg/kubelet/status/generate.go."""
    over = phase in ("Succeeded", "Failed")
    why: Object = {}
    if over:
        why = {"reason": "PodCompleted" if phase == "Succeeded" else "PodFailed"}
    else:
        unready = _unready(pod, init, containers)
        if unready:
            why = {"reason": "ContainersNotReady", "message": f"containers with unready status: [{' '.join(unready)}]"}
    missing = "" if why else _missing_gates(pod)
    gates = {"reason": "ReadinessGatesNotReady", "message": missing} if missing else why
    desired = [
        {"type": READY_TO_START, "status": _truth(sandboxed and not over)},
        {"type": INITIALIZED, **_initialized(pod, init, containers, phase)},
        {"type": READY, "status": _truth(not gates), **gates},
        {"type": CONTAINERS_READY, "status": _truth(not why), **why},
        {"type": SCHEDULED, "status": "True"},
    ]
    current = (pod.get("status") or {}).get("conditions")
    stamp = format_time(now)
    return [_since(find_condition(current, condition["type"]), condition, stamp) for condition in desired]


def _unready(pod: Object, init: Sequence[Object], containers: Sequence[Object]) -> list[str]:
    """Return the names of the sidecars and containers that are not ready, in the order of the pod's spec."""
    spec = pod["spec"]
    ready = {status["name"] for status in (*init, *containers) if status.get("ready")}
    sidecars = (
        [container["name"] for container in spec.get("initContainers") or () if _is_sidecar(container)] if init else []
    )
    return [name for name in (*sidecars, *(container["name"] for container in spec["containers"])) if name not in ready]


def _initialized(pod: Object, init: Sequence[Object], containers: Sequence[Object], phase: str) -> Object:
    if phase == "Succeeded":
        return {"status": "True", "reason": "PodCompleted"}
    if not init or any(status.get("started") or _has_begun(status) for status in containers):
        return {"status": "True"}
    done = {
        status["name"]
        for container, status in zip(pod["spec"]["initContainers"], init, strict=False)
        if status.get("started" if _is_sidecar(container) else "ready")
    }
    incomplete = [container["name"] for container in pod["spec"]["initContainers"] if container["name"] not in done]
    if not incomplete:
        return {"status": "True"}
    message = f"containers with incomplete status: [{' '.join(incomplete)}]"
    return {"status": "False", "reason": "ContainersNotInitialized", "message": message}


def _since(known: Mapping[str, Any] | None, condition: Object, stamp: str) -> Object:
    """Return the condition with its lastTransitionTime. An unchanged condition keeps all its fields."""
    if known is None or known.get("status") != condition["status"]:
        return {**condition, "lastTransitionTime": stamp}
    if all((known.get(field) or "") == condition.get(field, "") for field in ("reason", "message")):
        return dict(known)
    return {**condition, "lastTransitionTime": known.get("lastTransitionTime") or stamp}


def _missing_gates(pod: Object) -> str:
    """Return the first readiness gate that is not True; "" if all are."""
    status = pod.get("status") or {}
    messages = []
    for gate in pod["spec"].get("readinessGates") or ():
        type = gate["conditionType"]
        condition = find_condition(status.get("conditions"), type)
        if condition is None:
            messages.append(f'corresponding condition of pod readiness gate "{type}" does not exist.')
        elif condition.get("status") != "True":
            actual = condition.get("status")
            messages.append(f'the status of pod readiness gate "{type}" is not "True", but {actual}')
    return ", ".join(messages)


def _truth(value: bool) -> str:
    return "True" if value else "False"


def _start_time(pod: Object, *, now: float) -> str:
    known: str | None = (pod.get("status") or {}).get("startTime")
    return known or format_time(now)
