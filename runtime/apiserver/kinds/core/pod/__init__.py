"""Pods (core/v1): defaults, validation and table columns.

Source: kubernetes pkg/registry/core/pod/strategy.go, pkg/apis/core/v1/defaults.go,
pkg/apis/core/validation/validation.go, pkg/printers/internalversion/printers.go (printPod) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from kcm.protocols.objects import Object, is_deleting
from kcm.protocols.quality_of_service import quality_of_service
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden
from kcm.runtime.apiserver.kinds.core.pod import ephemeral_containers
from kcm.runtime.apiserver.kinds.core.pod import resize as pod_resize
from kcm.runtime.apiserver.kinds.core.pod.status import wrong_pod_status
from kcm.runtime.apiserver.kinds.core.pod.updates import wrong_pod_update
from kcm.runtime.apiserver.kinds.pod_spec.annotations import wrong_annotations, wrong_apparmor_profiles
from kcm.runtime.apiserver.kinds.pod_spec.defaults import default_pod_spec
from kcm.runtime.apiserver.kinds.pod_spec.preparation import apply_apparmor_annotations, merge_label_keys
from kcm.runtime.apiserver.kinds.pod_spec.resources import default_pod_resources
from kcm.runtime.apiserver.kinds.pod_spec.usage import usage_problems
from kcm.runtime.apiserver.kinds.pod_spec.validation import validate_pod_spec
from kcm.runtime.apiserver.kinds.pod_spec.warnings import warnings_of_pod
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer, wide
from kcm.runtime.apiserver.registry.strategy import Strategy, SubresourceUpdate
from kcm.runtime.apiserver.rules.cells import (
    NONE,
    age_cell,
    condition,
    first_of,
    is_true,
    items,
    name_cell,
    part,
    since,
)
from kcm.runtime.apiserver.rules.names import dns_subdomain
from kcm.runtime.apiserver.rules.selectable_fields import FIELD_LABEL_NOT_SUPPORTED, boolean_at, fields_at, text_at
from kcm.runtime.apiserver.rules.warnings import of_hostname

_LONGEST_LABEL = 63


def set_defaults(pod: Object) -> None:
    """Set the defaults of a pod, including those that pod templates do not get.

    Requests default to limits; in pods on the host network, hostPort is set to containerPort.
    """
    spec = pod.setdefault("spec", {})
    default_pod_spec(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        limits = container["resources"].get("limits")
        if limits:
            requests = container["resources"].setdefault("requests", {})
            for name, amount in limits.items():
                requests.setdefault(name, amount)
        if spec.get("hostNetwork"):
            for port in container.get("ports") or ():
                port["hostPort"] = port.get("hostPort") or port.get("containerPort", 0)
    if "resources" in spec:
        default_pod_resources(spec)
    if spec.get("schedulingGates") == []:
        del spec["schedulingGates"]
    spec.setdefault("enableServiceLinks", True)


def grace_period(pod: Object, requested: int | None) -> int:
    """Return the grace period of a pod's deletion in seconds; 0 if the pod has no node or has ended.

    requested: period in the request; None for the pod's own
    """
    if not pod["spec"].get("nodeName") or (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
        return 0
    grace: int = pod["spec"].get("terminationGracePeriodSeconds") or 0 if requested is None else requested
    return max(grace, 1) if grace < 0 else grace


def prepare_for_create(pod: Object) -> list[str]:
    """Set the first status of a new pod, merge its label keys, and return warnings about AppArmor annotations.

    The phase is Pending. A pod with scheduling gates gets the condition PodScheduled=False.
    """
    status: Object = {"phase": "Pending", "qosClass": quality_of_service(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": pod["metadata"]["creationTimestamp"],
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    pod["status"] = status
    if not pod["spec"].keys().isdisjoint(("affinity", "topologySpreadConstraints")):
        merge_label_keys(pod)
    detail = 'deprecated since v1.30; use the "appArmorProfile" field instead'
    return [f"metadata.annotations[{key}]: {detail}" for key in apply_apparmor_annotations(pod)]


def warn(pod: Object, old: Object | None) -> Iterator[str]:
    """Yield the warnings about a new pod. For an update, only annotations of simulated usage are checked."""
    if old is not None:
        annotations = pod["metadata"].get("annotations") or {}
        if annotations and annotations != old["metadata"].get("annotations"):
            yield from usage_problems(annotations, "metadata.annotations")
        return
    name = pod["metadata"]["name"]
    if len(name) > _LONGEST_LABEL or "." in name:
        yield from of_hostname(pod, "the Pod's hostname")
    yield from warnings_of_pod(pod)


def validate(pod: Object) -> list[FieldError]:
    errors = validate_pod_spec(pod["spec"], "spec")
    if annotations := pod["metadata"].get("annotations"):
        errors += wrong_annotations(annotations, pod["spec"], "metadata.annotations")
    return errors


def validate_create(pod: Object) -> list[FieldError]:
    spec, errors = pod["spec"], list(wrong_apparmor_profiles(pod))
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("schedulingGates") and spec.get("nodeName"):
        errors.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return errors


def validate_update(new: Object, old: Object) -> list[FieldError]:
    return wrong_pod_update(new, old)


def prepare_for_status_update(new: Object, old: Object) -> None:
    """Set missing fields of a pod's status.

    podIPs is set from podIP, or podIP from the first of podIPs. qosClass and observedGeneration are taken from the old
    status if missing, as older kubelets omit them.
    """
    status = new.setdefault("status", {})
    first = (status.get("podIPs") or [{}])[0].get("ip")
    if status.get("podIP") and status["podIP"] != first:
        status["podIPs"] = [{"ip": status["podIP"]}]
    elif first and not status.get("podIP"):
        status["podIP"] = first
    for pod_condition in status.get("conditions") or ():
        for time in ("lastProbeTime", "lastTransitionTime"):
            pod_condition.setdefault(time, None)  # upstream always encodes these fields
    for part_ in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for container in status.get(part_) or ():
            for state in (container.setdefault("state", {}), container.setdefault("lastState", {})):
                _fill_times(state)
    for field in ("qosClass", "observedGeneration"):
        if not status.get(field) and field in old.get("status", {}):
            status[field] = old["status"][field]


def _fill_times(state: Object) -> None:
    if "running" in state:
        state["running"].setdefault("startedAt", None)
    if "terminated" in state:
        for time in ("startedAt", "finishedAt"):
            state["terminated"].setdefault(time, None)


def _prepare_for_resize(new: Object, old: Object, now: str) -> None:
    set_defaults(new)
    pod_resize.prepare(new, old, now)


def _prepare_for_ephemeral_containers(new: Object, old: Object, now: str) -> None:
    set_defaults(new)
    ephemeral_containers.prepare(new, old, now)


def validate_status_update(new: Object, old: Object) -> list[FieldError]:
    return list(wrong_pod_status(new, old))


class _Summary(Struct):
    """Counts and status text of a pod for its table row, accumulated over its containers."""

    reason: str
    total: int
    ready: int = 0
    restarts: int = 0
    last_restart: str = ""

    def count_restarts(self, container: Mapping[str, Any]) -> None:
        self.restarts += container.get("restartCount") or 0
        finished = part(container, "lastState", "terminated").get("finishedAt") or ""
        self.last_restart = max(self.last_restart, finished)  # RFC 3339 in UTC sorts as text


def cells(pod: Object, now: float) -> list[Any]:
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
        first_of((*(address.get("ip") for address in items(status, "podIPs")[:1]), status.get("podIP")), NONE),
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _readiness_gates(spec, status),
    ]


def completion(pod: Object) -> list[dict[str, str]]:
    """Return the table row condition "Completed" of a pod in phase Succeeded or Failed; [] for other pods.

    Source: kubernetes pkg/printers/internalversion/printers.go, podSuccessConditions, podFailedConditions (v1.36).
    """
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
    sidecars = {
        container.get("name")
        for container in items(spec, "initContainers")
        if container.get("restartPolicy") == "Always"
    }
    summary.total += len(sidecars)
    sidecar_summary = _Summary("", 0)
    initializing = _summarize_init_containers(pod, summary, sidecar_summary, sidecars)
    if not initializing or is_true(status, "Initialized"):
        summary.restarts, summary.last_restart = sidecar_summary.restarts, sidecar_summary.last_restart
        _summarize_containers(status, summary)
    if is_deleting(pod):
        if status.get("reason") == "NodeLost":
            summary.reason = "Unknown"
        elif phase not in ("Succeeded", "Failed"):
            summary.reason = "Terminating"
    return summary


def _summarize_init_containers(pod: Object, summary: _Summary, sidecar_summary: _Summary, sidecars: set[Any]) -> bool:
    """Add the init containers to the summary; report whether one of them has not finished yet.

    If so, the status text describes this container, for example "Init:0/2".

    sidecar_summary: summary that receives the restarts of sidecars only; it replaces all init restarts once the pod is
    initialized
    """
    for index, container in enumerate(items(part(pod, "status"), "initContainerStatuses")):
        summary.count_restarts(container)
        is_sidecar = container.get("name") in sidecars
        if is_sidecar:
            sidecar_summary.count_restarts(container)
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


def _summarize_containers(status: Mapping[str, Any], summary: _Summary) -> None:
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
    # Some containers have completed while others run, so the pod as a whole has not completed.
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


RESOURCE = ResourceDefinition(
    version="v1",
    plural="pods",
    kind="Pod",
    short_names=("po",),
    categories=("all",),
    subresources=("status", "binding", "eviction", "ephemeralcontainers", "resize"),
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
        set_defaults=set_defaults,
        prepare_for_create=prepare_for_create,
        validate=validate,
        validate_update=validate_update,
        has_status=True,
        status_update_keeps=("ownerReferences",),
        prepare_for_status_update=prepare_for_status_update,
        validate_status_update=validate_status_update,
        validate_create=validate_create,
        warn=warn,
        subresource_updates={
            "resize": SubresourceUpdate(prepare=_prepare_for_resize, validate=pod_resize.validate),
            "ephemeralcontainers": SubresourceUpdate(
                prepare=_prepare_for_ephemeral_containers, validate=ephemeral_containers.validate
            ),
        },
        grace_period=grace_period,
        return_deleted_object=True,
        selectable_fields={
            **fields_at(
                "spec.nodeName",
                "spec.restartPolicy",
                "spec.schedulerName",
                "spec.serviceAccountName",
                "status.phase",
                "status.podIP",
                "status.nominatedNodeName",
            ),
            "spec.hostNetwork": boolean_at("spec.hostNetwork"),
            "spec.host": text_at("spec.nodeName"),
        },
        unsupported_field=FIELD_LABEL_NOT_SUPPORTED,
    ),
    printer=Printer(
        columns=(
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
        cells=cells,
        conditions=completion,
    ),
)
