"""Pods: how far their containers are, in one word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from protocols.objects import Object, is_deleting
from runtime.apiserver.kinds.printing.columns import (
    AGE,
    NAME,
    NONE,
    Column,
    Printer,
    age_cell,
    condition,
    container_cells,
    first_of,
    is_true,
    items,
    label_cell,
    name_cell,
    part,
    since,
    wide,
)


@dataclass(slots=True)
class _Summary:
    """What is found out while looking at one container after the other."""

    reason: str
    total: int
    ready: int = 0
    restarts: int = 0
    last_restart: str = ""

    def count_restarts(self, container: Mapping[str, Any]) -> None:
        self.restarts += container.get("restartCount") or 0
        finished = part(container, "lastState", "terminated").get("finishedAt") or ""
        self.last_restart = max(self.last_restart, finished)  # RFC 3339 in UTC sorts as text


def pod_cells(pod: Object, now: float) -> list[Any]:
    spec, status = part(pod, "spec"), part(pod, "status")
    summary = _summary(pod)
    restarts = str(summary.restarts)
    if summary.restarts and summary.last_restart:
        restarts = f"{restarts} ({since(summary.last_restart, now)} ago)"
    return [
        name_cell(pod),
        f"{summary.ready}/{summary.total}",
        summary.reason,
        restarts,
        age_cell(pod, now),
        first_of((*(one.get("ip") for one in items(status, "podIPs")[:1]), status.get("podIP")), NONE),
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _readiness_gates(spec, status),
    ]


def pod_completion(pod: Object) -> list[dict[str, str]]:
    """Conditions of the row; "Completed" makes `kubectl get --watch` and old clients show it as done."""
    phase = part(pod, "status").get("phase")
    messages = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
    if phase not in messages:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": messages[phase]}]


def _summary(pod: Object) -> _Summary:
    spec, status = part(pod, "spec"), part(pod, "status")
    phase = status.get("phase") or ""
    summary = _Summary(status.get("reason") or phase, len(items(spec, "containers")))
    scheduled = condition(status, "PodScheduled")
    if scheduled is not None and scheduled.get("reason") == "SchedulingGated":
        summary.reason = "SchedulingGated"
    sidecars = {one.get("name") for one in items(spec, "initContainers") if one.get("restartPolicy") == "Always"}
    summary.total += len(sidecars)
    of_sidecars = _Summary("", 0)
    initializing = _look_at_init_containers(pod, summary, of_sidecars, sidecars)
    if not initializing or is_true(status, "Initialized"):
        summary.restarts, summary.last_restart = of_sidecars.restarts, of_sidecars.last_restart
        _look_at_containers(status, summary)
    if is_deleting(pod):
        if status.get("reason") == "NodeLost":
            summary.reason = "Unknown"
        elif phase not in ("Succeeded", "Failed"):
            summary.reason = "Terminating"
    return summary


def _look_at_init_containers(pod: Object, summary: _Summary, of_sidecars: _Summary, sidecars: set[Any]) -> bool:
    """True if one of them is not done yet; then the pod's reason is that container's.

    of_sidecars: gets the restarts of those that run beside the containers; they still count once all is initialized.
    """
    for index, container in enumerate(items(part(pod, "status"), "initContainerStatuses")):
        summary.count_restarts(container)
        is_sidecar = container.get("name") in sidecars
        if is_sidecar:
            of_sidecars.count_restarts(container)
        terminated = part(container, "state").get("terminated")
        waiting = part(container, "state", "waiting").get("reason")
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if is_sidecar and container.get("started"):
            summary.ready += 1 if container.get("ready") else 0
            continue
        if terminated is not None:
            summary.reason = f"Init:{_termination(terminated)}"
        elif waiting and waiting != "PodInitializing":
            summary.reason = f"Init:{waiting}"
        else:
            summary.reason = f"Init:{index}/{len(items(part(pod, 'spec'), 'initContainers'))}"
        return True
    return False


def _look_at_containers(status: Mapping[str, Any], summary: _Summary) -> None:
    has_running, failure = False, ""
    for container in reversed(items(status, "containerStatuses")):
        summary.count_restarts(container)
        state = part(container, "state")
        if part(state, "waiting").get("reason"):
            summary.reason = state["waiting"]["reason"]
        elif state.get("terminated") is not None:
            summary.reason = _termination(state["terminated"])
            if state["terminated"].get("exitCode"):
                failure = summary.reason
        elif container.get("ready") and state.get("running") is not None:
            has_running = True
            summary.ready += 1
    # Some of its containers are done while others run: the pod as a whole is not completed.
    if summary.reason == "Completed":
        if has_running and is_true(status, "Ready"):
            summary.reason = "Running"
        elif failure:
            summary.reason = failure
        elif has_running:
            summary.reason = "NotReady"


def _termination(terminated: Mapping[str, Any]) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode') or 0}"


def _readiness_gates(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    gates = items(spec, "readinessGates")
    if not gates:
        return NONE
    return f"{sum(is_true(status, gate.get('conditionType', '')) for gate in gates)}/{len(gates)}"


def pod_template_cells(template: Object, now: float) -> list[Any]:  # noqa: ARG001
    inner = part(template, "template")
    return [name_cell(template), *container_cells(part(inner, "spec")), label_cell(part(inner, "metadata", "labels"))]


POD = Printer(
    (
        NAME,
        Column("Ready"),
        Column("Status"),
        Column("Restarts"),
        AGE,
        wide("IP"),
        wide("Node"),
        wide("Nominated Node"),
        wide("Readiness Gates"),
    ),
    pod_cells,
)
POD_TEMPLATE = Printer((NAME, Column("Containers"), Column("Images"), Column("Pod Labels")), pod_template_cells)
