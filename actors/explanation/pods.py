"""Causes of pods."""

from __future__ import annotations

from collections.abc import Iterator

from kcm.actors.explanation import containers, scheduling, storage
from kcm.actors.explanation.case import Case, condition_line
from kcm.actors.explanation.cause import Cause
from kcm.actors.explanation.evidence import time_of
from kcm.actors.explanation.nodes import node_trouble
from kcm.protocols.objects import Object, metadata
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
    if not case.spec.get("nodeName"):
        yield from storage.claims_from_templates(case)
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
        yield from storage.attachments_of(case)
    yield from containers.causes(case)


def _failed(case: Case) -> Iterator[Cause]:
    reason, message = str(case.status.get("reason") or ""), str(case.status.get("message") or "")
    target = case.condition_is("DisruptionTarget", "True")
    line = f"status.reason {reason}: {message}".rstrip(": ") if reason else ""
    if reason == "Evicted" or (target is not None and not reason):
        why = message or (target or {}).get("message")
        yield case.cause("pod-evicted", f"the pod was evicted: {why}", line, condition_line(target))
    elif reason in REJECTED or reason.startswith("OutOf"):
        yield case.cause("pod-rejected", f"the kubelet rejected the pod: {reason} {message}", line)
    else:
        ends = [
            f"container {status.get('name')} ended with exit code {end.get('exitCode')} ({end.get('reason')})"
            for status in case.status.get("containerStatuses") or ()
            if (end := (status.get("state") or {}).get("terminated")) and end.get("exitCode")
        ]
        why = f"{reason} {message}".strip() or "; ".join(ends) or "its phase is Failed"
        yield case.cause("pod-failed", f"the pod has failed: {why}", line, *ends)


def stops_slowly(pod: Object, now: float) -> tuple[float, float | None]:
    """Return a pod's grace period in seconds, and when it ends; None unless it has been terminating for long."""
    seconds = float(metadata(pod).get("deletionGracePeriodSeconds") or 0)
    until = time_of(metadata(pod).get("deletionTimestamp"))
    is_slow = until is not None and now - (until - seconds) > STOPPING
    return seconds, until if is_slow else None
