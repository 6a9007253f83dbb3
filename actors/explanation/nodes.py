"""Causes of nodes: silence, what the kubelet reports, taints, and zones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kcm.actors.explanation.case import Case, condition_line
from kcm.actors.explanation.cause import Cause
from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import Object

PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")


def node_trouble(node: Object) -> tuple[str, str, Mapping[str, Any] | None] | None:
    """Return (code, text, condition) if a node does not work, else None."""
    ready = find_condition((node.get("status") or {}).get("conditions"), "Ready")
    if ready is None:
        return "node-not-ready", "has not reported that it is ready", None
    if ready.get("status") == "Unknown":
        return "node-lost", "does not respond", ready
    if ready.get("status") != "True":
        return "node-not-ready", f"is not ready: {ready.get('message') or ready.get('reason')}", ready
    return None


def pending(case: Case) -> str:
    trouble = node_trouble(case.obj)
    return "" if trouble is None else f"the node {trouble[1]}"


def causes(case: Case) -> Iterator[Cause]:
    trouble = node_trouble(case.obj)
    if trouble is not None:
        code, text, condition = trouble
        since = (condition or {}).get("lastTransitionTime")
        yield case.cause(code, f"the node {text}", condition_line(condition), since=since)
    for pressure in PRESSURES:
        condition = case.condition_is(pressure, "True")
        if condition is not None:
            yield case.cause(
                "node-pressure",
                f"the node is short of a resource: {condition.get('message') or pressure}",
                condition_line(condition),
                since=condition.get("lastTransitionTime"),
            )
    network = case.condition_is("NetworkUnavailable", "True")
    if network is not None:
        yield case.cause(
            "node-network", f"its network is not configured: {network.get('message')}", condition_line(network)
        )
    if case.spec.get("unschedulable"):
        yield case.cause("node-cordoned", "the node is cordoned: no new pods are scheduled to it")
