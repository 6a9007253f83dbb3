"""The status that a hollow kubelet reports of a pod at a moment, as a function of the pod.

Source: kubernetes v1.36 pkg/kubelet/kubelet_pods.go (getPhase, generateAPIPodStatus), status/generate.go and
status/status_manager.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from actors.hollow import behaviour
from actors.hollow.containers import FOR_EVER, KILLED, Script, completed, live, stopped
from protocols.conditions import find_condition
from protocols.objects import Object, metadata, uid_of
from protocols.times import format_time

INITIALIZED, READY, CONTAINERS_READY = "Initialized", "Ready", "ContainersReady"
SCHEDULED, READY_TO_START = "PodScheduled", "PodReadyToStartContainers"


class PodPlan(NamedTuple):
    """The fields of status as they should be, and the Unix seconds at which time alone changes them."""

    status: Object
    due: float | None = None


def has_started(pod: Object) -> bool:
    """A kubelet has taken it up."""
    return bool((pod.get("status") or {}).get("startTime"))


def script_of(pod: Object) -> Script:
    """What the pod's annotations have its containers do."""
    run_seconds, code = behaviour.seconds(pod, behaviour.RUN_SECONDS), behaviour.exit_code(pod)
    ready_after = behaviour.seconds(pod, behaviour.READY_AFTER) or 0.0
    if run_seconds is None and code is not None:
        run_seconds = 0.0
    if run_seconds is None and not ready_after:
        return FOR_EVER
    return Script(run_seconds=run_seconds, exit_code=code or 0, ready_after=ready_after)


def rejected(pod: Object, *, capacity_milli_cpu: int, now: float) -> PodPlan:
    """The kubelet does not take it. Source: kubernetes v1.36 pkg/kubelet/kubelet.go, rejectPod."""
    lacking = f"requested: {capacity_milli_cpu + 1}, used: 0, capacity: {capacity_milli_cpu}"
    message = f"Pod was rejected: Node didn't have enough resource: cpu, {lacking}"
    status = {"phase": "Failed", "reason": "OutOfcpu", "message": message}
    return PodPlan({**status, "startTime": _start_time(pod, now=now)})


def running(pod: Object, *, host_ips: Sequence[str], pod_ips: Sequence[str], now: float) -> PodPlan:
    """A pod that is bound to the node and not being deleted."""
    spec, status, uid = pod["spec"], pod.get("status") or {}, uid_of(pod)
    script = script_of(pod)
    before = {one["name"]: one for one in status.get("containerStatuses") or ()}
    policy = spec.get("restartPolicy") or "Always"
    lives = [
        live(container, before.get(container["name"]), script, uid=uid, restart_policy=policy, now=now)
        for container in spec["containers"]
    ]
    containers = [life.status for life in lives]
    phase = _phase(containers)
    plan: Object = {
        "phase": phase,
        "startTime": _start_time(pod, now=now),
        "containerStatuses": containers,
        "hostIP": host_ips[0],
        "hostIPs": [{"ip": ip} for ip in host_ips],
        "podIP": pod_ips[0],
        "podIPs": [{"ip": ip} for ip in pod_ips],
    }
    if spec.get("initContainers"):
        plan["initContainerStatuses"] = _init_containers(pod, ended=phase != "Running", now=now)
    plan["conditions"] = _conditions(pod, containers, phase, now=now)
    return PodPlan(plan | _observed(pod), min((life.due for life in lives if life.due is not None), default=None))


def ended(pod: Object, *, killed: bool, now: float) -> PodPlan:
    """A pod whose containers have been stopped. killed: its grace period was too short for them."""
    status = pod.get("status") or {}
    code = KILLED if killed else 0
    containers = [stopped(one, exit_code=code, now=now) for one in status.get("containerStatuses") or ()]
    phase = _phase(containers)
    plan: Object = {"phase": phase, "containerStatuses": containers}
    if status.get("initContainerStatuses"):
        plan["initContainerStatuses"] = [stopped(one, exit_code=0, now=now) for one in status["initContainerStatuses"]]
    plan["conditions"] = _conditions(pod, containers, phase, now=now)
    return PodPlan(plan | _observed(pod))


def status_patch(pod: Object, desired: Mapping[str, Any]) -> Object | None:
    """The strategic merge patch that makes it so, for this very pod; None if it is so already.

    Conditions are those that differ; the server merges them by type.
    """
    status = pod.get("status") or {}
    changes = {field: value for field, value in desired.items() if status.get(field) != value}
    if "conditions" in changes:
        changes["conditions"] = _differing(status.get("conditions"), desired["conditions"])
        if not changes["conditions"]:
            del changes["conditions"]
    return {"metadata": {"uid": uid_of(pod)}, "status": changes} if changes else None


def _differing(current: Any, desired: Sequence[Object]) -> list[Object]:
    return [condition for condition in desired if find_condition(current, condition["type"]) != condition]


def _phase(containers: Sequence[Mapping[str, Any]]) -> str:
    """Of a pod whose containers have started: it is over when none of them will run again."""
    codes = [_exit_code(status) for status in containers]
    if any(code is None for code in codes):
        return "Running"
    return "Failed" if any(codes) else "Succeeded"


def _exit_code(status: Mapping[str, Any]) -> int | None:
    """None while it has not ended for good."""
    ended = (status.get("state") or {}).get("terminated")
    return None if ended is None else ended.get("exitCode", 0)


def _init_containers(pod: Object, *, ended: bool, now: float) -> list[Object]:
    """Those that prepare the pod are done at once; sidecars run as long as it does."""
    before = {one["name"]: one for one in (pod.get("status") or {}).get("initContainerStatuses") or ()}
    statuses = []
    for container in pod["spec"]["initContainers"]:
        known, uid = before.get(container["name"]), uid_of(pod)
        if container.get("restartPolicy") == "Always":
            status = live(container, known, FOR_EVER, uid=uid, restart_policy="Always", now=now).status
            statuses.append(stopped(status, exit_code=0, now=now) if ended else status)
        else:
            statuses.append(completed(container, known, uid=uid, now=now))
    return statuses


def _conditions(pod: Object, containers: Sequence[Mapping[str, Any]], phase: str, *, now: float) -> list[Object]:
    """Source: pkg/kubelet/status/generate.go."""
    unready = [status["name"] for status in containers if not status["ready"]]
    why: Object = {}
    if phase != "Running":
        why = {"reason": "PodCompleted" if phase == "Succeeded" else "PodFailed"}
    elif unready:
        why = {"reason": "ContainersNotReady", "message": f"containers with unready status: [{' '.join(unready)}]"}
    missing = "" if why else _missing_gates(pod)
    gates = {"reason": "ReadinessGatesNotReady", "message": missing} if missing else why
    initialized = {"reason": "PodCompleted"} if phase == "Succeeded" else {}
    desired = [
        {"type": READY_TO_START, "status": _truth(phase == "Running")},
        {"type": INITIALIZED, "status": "True", **initialized},
        {"type": READY, "status": _truth(not gates), **gates},
        {"type": CONTAINERS_READY, "status": _truth(not why), **why},
        {"type": SCHEDULED, "status": "True"},
    ]
    current = (pod.get("status") or {}).get("conditions")
    stamp = format_time(now)
    return [_since(find_condition(current, condition["type"]), condition, stamp) for condition in desired]


def _since(known: Mapping[str, Any] | None, condition: Object, stamp: str) -> Object:
    """The condition with its lastTransitionTime; one that says the same already stays as it is, to the last field."""
    if known is None or known.get("status") != condition["status"]:
        return {**condition, "lastTransitionTime": stamp}
    if all((known.get(field) or "") == condition.get(field, "") for field in ("reason", "message")):
        return dict(known)
    return {**condition, "lastTransitionTime": known.get("lastTransitionTime") or stamp}


def _missing_gates(pod: Object) -> str:
    """Which of the pod's readiness gates are not True; "" if all are."""
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


def _observed(pod: Object) -> Object:
    generation = metadata(pod).get("generation")
    return {"observedGeneration": generation} if generation else {}
