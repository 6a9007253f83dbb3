"""Causes of nodes: silence, what the kubelet reports, taints, and zones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kcm.actors.controllers.nodes.node_lifecycle.zones import EvictionLimits, ZoneHealth, ZoneState, zone_state
from kcm.actors.explanation.case import Case, condition_line
from kcm.actors.explanation.cause import Cause
from kcm.actors.explanation.manager_state import ZoneReport
from kcm.protocols.conditions import find_condition
from kcm.protocols.nodes import zone_of
from kcm.protocols.objects import Object, labels_of
from kcm.protocols.resources import NODES

GRACE = 20.0  # seconds that the eviction queue of a zone may take with one node
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
        yield from _not_evicted(case)
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
        written = case.written("f:spec", "f:unschedulable")
        yield case.cause(
            "node-cordoned",
            "the node is cordoned: no new pods are scheduled to it",
            f"spec.unschedulable was written by {written[0]} at {written[1]}" if written else "",
            since=written[1] if written else None,
        )


def _not_evicted(case: Case) -> Iterator[Cause]:
    """Yield why a node that does not work has no taint NoExecute, so that its pods stay.

    The rates are set by flags of the manager; the state of the zone follows from the nodes, with the default threshold.
    """
    effects = {taint.get("effect") for taint in case.spec.get("taints") or ()}
    if "NoExecute" in effects:
        return
    zone = zone_of(case.labels)
    known = case.evidence.manager.zone(zone) if case.evidence.manager is not None else None
    if known is not None:
        yield from _in_queue(case, zone, known)
        return
    health: dict[str, list[int]] = {}
    for node in case.evidence.list(NODES):
        counts = health.setdefault(zone_of(labels_of(node)), [0, 0])
        counts[node_trouble(node) is not None] += 1
    states = {
        name: zone_state(ZoneHealth(*counts), unhealthy_threshold=EvictionLimits().unhealthy_threshold)
        for name, counts in health.items()
    }
    ready, failed = health.get(zone, [0, 0])
    line = f"zone {zone or 'without a name'}: {failed} of {ready + failed} nodes do not work"
    controller = "node-lifecycle-controller"
    if all(state is ZoneState.FULL_DISRUPTION for state in states.values()):
        summary = "no node of the cluster works, so no pod is evicted: the manager may be cut off from the nodes"
        yield case.cause("zone-disruption", summary, line, controller=controller)
    elif states.get(zone) is ZoneState.PARTIAL_DISRUPTION:
        summary = "too many nodes of its zone fail, so pods are evicted slowly, in a small zone not at all"
        yield case.cause("zone-disruption", summary, line, controller=controller)
    elif (age := case.evidence.age((case.condition("Ready") or {}).get("lastTransitionTime"))) and age > GRACE:
        summary = "its pods are not evicted yet: the nodes of a zone are tainted one after the other, at a limited rate"
        yield case.cause("eviction-rate", summary, line, controller=controller)


def _in_queue(case: Case, zone: str, known: ZoneReport) -> Iterator[Cause]:
    """Yield why a node has not been tainted yet, from the eviction queue of its zone."""
    shown = zone or "-"
    line = f"zone {shown} is in state {known.state}; {known.waiting} nodes wait, at {known.qps} per second"
    if case.name in known.next_nodes:
        line += f"; this node is number {known.next_nodes.index(case.name) + 1}"
    controller, commands = "node-lifecycle-controller", (f"run-kcm ctl rate zone {shown} 1",)
    if known.paused:
        summary = "its pods are not evicted: an operator paused the evictions of its zone"
        yield case.cause("eviction-rate", summary, line, controller=controller, commands=("run-kcm ctl zones",))
    elif known.spared:
        summary = "its pods are not evicted: as all zones are disrupted, the manager may be cut off from the nodes"
        yield case.cause("zone-disruption", summary, line, controller=controller, commands=commands)
    elif known.state == ZoneState.PARTIAL_DISRUPTION:
        summary = "too many nodes of its zone fail, so pods are evicted slowly, in a small zone not at all"
        yield case.cause("zone-disruption", summary, line, controller=controller, commands=commands)
    elif known.waiting:
        summary = "its pods are not evicted yet: the nodes of a zone are tainted one after the other, at a limited rate"
        yield case.cause(
            "eviction-rate", summary, line, controller=controller, next_attempt=known.due, commands=commands
        )
