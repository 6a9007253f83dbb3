"""Causes of pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kcm.actors.explanation import containers, devices, scheduling, volumes
from kcm.actors.explanation.case import Case, condition_line
from kcm.actors.explanation.cause import Cause
from kcm.actors.explanation.evidence import time_of
from kcm.actors.explanation.nodes import node_trouble
from kcm.protocols.objects import Object, metadata
from kcm.protocols.quantities import parse_quantity
from kcm.protocols.resources import NODES

# Reasons of the kubelet for a pod that it does not start. Source: kubernetes v1.36 pkg/kubelet/lifecycle.
REJECTED = (
    "NodeAffinity",
    "UnexpectedAdmissionError",
    "NodePorts",
    "PodOSNotSupported",
    "Preempting",
    "NodeShutdown",
    "Terminated",
)
STOPPING = 30.0  # seconds in which a pod usually stops


def pending(case: Case) -> str:
    return unready(case) or ("its resize is pending" if _resize(case) is not None else "")


def _resize(case: Case) -> Mapping[str, Any] | None:
    """Return the condition of a resize in place that the kubelet has not begun, or cannot complete."""
    waiting = case.condition_is("PodResizePending", "True")
    failing = case.condition_is("PodResizeInProgress", "True")
    return waiting or (failing if failing is not None and failing.get("reason") == "Error" else None)


def _resize_causes(case: Case) -> Iterator[Cause]:
    condition = _resize(case)
    if condition is None:
        return
    node = case.evidence.get(NODES, case.spec.get("nodeName") or "")
    room = ((node or {}).get("status") or {}).get("allocatable") or {}
    lines, too_large = [], []
    for container in case.spec.get("containers") or ():
        for resource, amount in ((container.get("resources") or {}).get("requests") or {}).items():
            line = f"container {container.get('name')} is to request {amount} of {resource}"
            if resource in room:
                line += f", the node {case.spec.get('nodeName')} has {room[resource]} in all"
                if parse_quantity(amount) > parse_quantity(room[resource]):
                    too_large.append(resource)
            lines.append(line)
    since = condition.get("lastTransitionTime")
    age = case.evidence.age(since)
    if condition.get("reason") == "Deferred" and not too_large and age is not None and age < STOPPING:
        return  # the kubelet tries again
    never = f", and never will, because its node has less {' and '.join(too_large)} in all" if too_large else ""
    yield case.cause(
        "resize-pending",
        f"its kubelet has not resized it ({condition.get('reason')}){never}: {condition.get('message')}",
        condition_line(condition),
        *lines,
        since=since,
    )


def unready(case: Case) -> str:
    """Return why a pod is not ready, in words; "" if it is, or has succeeded."""
    phase = case.status.get("phase")
    if phase == "Succeeded":
        return ""
    if phase == "Failed":
        return "the pod has failed"
    if case.condition_is("Ready", "True") is not None:
        return ""
    if not case.spec.get("nodeName"):
        return "it waits for a node"
    return "it is not ready"


def causes(case: Case) -> Iterator[Cause]:
    phase = case.status.get("phase")
    if phase == "Failed":
        yield from _failed(case)
        return
    if not pending(case):
        return
    yield from _resize_causes(case)
    if not unready(case):
        return
    if not case.spec.get("nodeName"):
        yield from devices.claims_from_templates(case)
        yield from scheduling.causes(case)
        return
    node = case.evidence.get(NODES, case.spec["nodeName"])
    trouble = node_trouble(node) if node is not None else None
    if trouble is not None:
        code, text, condition = trouble
        yield case.cause(
            code,
            f"its node {case.spec['nodeName']} {text}",
            f"{case.about} is on it",
            condition_line(condition),
            since=(condition or {}).get("lastTransitionTime"),
            about=f"node {case.spec['nodeName']}",
            commands=(f"kubectl describe node {case.spec['nodeName']}",),
        )
    elif case.evidence.is_missing(NODES, case.spec["nodeName"]):
        yield case.cause("node-lost", f"its node {case.spec['nodeName']} does not exist")
    if containers.none_started(case):
        yield from scheduling.waits_for_claims(case, f"its node is {case.spec['nodeName']}")
        yield from volumes.attachments_of(case)
    yield from containers.causes(case)


def _failed(case: Case) -> Iterator[Cause]:
    reason, message = str(case.status.get("reason") or ""), str(case.status.get("message") or "")
    target = case.condition_is("DisruptionTarget", "True")
    line = f"status.reason {reason}: {message}".rstrip(": ") if reason else ""
    if reason == "Evicted" or (target is not None and not reason):
        why = message or (target or {}).get("message")
        yield case.cause("pod-evicted", f"the pod was evicted: {why}", line, condition_line(target))
    elif reason in REJECTED or reason.startswith("OutOf"):
        node = case.spec.get("nodeName")
        yield case.cause("pod-rejected", f"the kubelet of node {node} rejected the pod: {reason} {message}", line)
    else:
        ends = [
            containers.end_in_words(case, status, end)
            for status in (
                *(case.status.get("initContainerStatuses") or ()),
                *(case.status.get("containerStatuses") or ()),
            )
            if (end := (status.get("state") or {}).get("terminated")) and end.get("exitCode")
        ]
        if reason == "DeadlineExceeded":
            message = f"{message} (activeDeadlineSeconds {case.spec.get('activeDeadlineSeconds')})"
        why = f"{reason} {message}".strip() or "; ".join(ends) or "its phase is Failed"
        yield case.cause("pod-failed", f"the pod has failed: {why}", line, *ends)


def stops_slowly(pod: Object, now: float) -> tuple[float, float | None]:
    """Return a pod's grace period in seconds, and when it ends; None unless it has been terminating for long."""
    seconds = float(metadata(pod).get("deletionGracePeriodSeconds") or 0)
    until = time_of(metadata(pod).get("deletionTimestamp"))
    is_slow = until is not None and now - (until - seconds) > STOPPING
    return seconds, until if is_slow else None
