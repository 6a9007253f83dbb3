"""Faulty node controllers, and the invariant that each of them violates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from kcm.actors.controllers.cloud.cloud_node_lifecycle import CloudNodeLifecycleReconciler
from kcm.actors.controllers.cloud.node_route import reconciler as node_route
from kcm.actors.controllers.nodes import taint_eviction
from kcm.actors.controllers.nodes.node_ipam.node_cidrs import NodeCidrs
from kcm.actors.controllers.nodes.node_lifecycle import zones
from kcm.actors.controllers.nodes.node_lifecycle.zone_eviction_queue import ZoneEvictionQueue
from kcm.actors.controllers.nodes.pod_garbage_collector import PodGarbageCollector
from kcm.actors.controllers.nodes.taint_eviction import TaintEvictionReconciler, Tolerance
from kcm.actors.simulation.campaign.domain_settings import NODES_SETTING
from kcm.actors.simulation.campaign.runs import run
from kcm.protocols.messages.eviction import SetEvictionRate
from kcm.runtime.faults.vocabulary import parse_faults
from tests.faults.recorded_seeds import must_be_found_by

Spoil = Callable[[], Any]
OUTAGE = "zone-silent 10..90 object=zone-b"
BLACKOUT = "zone-silent 10..90 object=zone-*"
CRASH = "process-crashed 5..7 process=manager*"


def no_rate() -> Any:
    set_rate = ZoneEvictionQueue._set_rate

    def fast(self: ZoneEvictionQueue, wanted: SetEvictionRate, now: float) -> None:
        set_rate(self, replace(wanted, qps=wanted.qps * 10), now)

    return patch.object(ZoneEvictionQueue, "_set_rate", fast)


def no_disruption() -> Any:
    """Nodes are evicted even if all zones are down."""
    assess = zones.assess

    def calm(zones: Any, limits: Any, *, was_all_down: bool) -> Any:
        found = assess(zones, limits, was_all_down=was_all_down)
        if not found.all_down:
            return found
        rates = dict.fromkeys(zones, limits.eviction_rate)
        return type(found)(states=found.states, rates=rates, spared=frozenset(), all_down=True, mode=found.mode)

    return patch.object(zones, "assess", calm)


def no_patience() -> Any:
    """Pods are evicted after half of their tolerationSeconds."""
    right = taint_eviction.tolerance

    def half(tolerations: Any, taints: Any, **more: Any) -> Tolerance:
        found = right(tolerations, taints, **more)
        return Tolerance(tolerated=found.tolerated, seconds=found.seconds / 2)

    return patch.object(taint_eviction, "tolerance", half)


def no_second_look() -> Any:
    """An eviction that is due is carried out even if the taint was removed."""

    def judge(self: TaintEvictionReconciler, key: str) -> Any:
        known = self._evictions.get(key)
        return known if known is not None else (yield from right(self, key))

    right = TaintEvictionReconciler._plan
    return patch.object(TaintEvictionReconciler, "_plan", judge)


def no_account() -> Any:
    """CIDRs of nodes are not marked as allocated."""
    return patch.object(NodeCidrs, "occupy", lambda self, node, cidrs: [])


def no_question() -> Any:
    """Nodes that are not ready count as deleted from the cloud."""
    return patch.object(CloudNodeLifecycleReconciler, "_result_of", lambda self, outcome, asked, question: False)


def no_reading() -> Any:
    """Routes of nodes that are not ready are deleted."""
    plan = node_route.plan_routes

    def ready_only(nodes: Any, routes: Any, clusters: Any) -> Any:
        well = [node for node in nodes if "unreachable" not in str(node["spec"].get("taints"))]
        return plan(well, routes, clusters)

    return patch.object(node_route, "plan_routes", ready_only)


def no_quarantine() -> Any:
    return patch("kcm.actors.controllers.nodes.pod_garbage_collector.QUARANTINE", -1.0)


def no_threshold() -> Any:
    init = PodGarbageCollector.__init__

    def eager(self: PodGarbageCollector, **arguments: Any) -> None:
        init(self, **{**arguments, "threshold": 1})

    return patch.object(PodGarbageCollector, "__init__", eager)


@pytest.mark.parametrize(
    ("spoil", "invariant", "plan", "seed"),
    [
        (no_rate, "zones are evicted at their rate", OUTAGE, 0),
        (no_disruption, "zones are evicted at their rate", BLACKOUT, 0),
        (no_patience, "evictions have a cause", OUTAGE, 0),
        (no_second_look, "evictions have a cause", OUTAGE, 8),
        (no_account, "pod CIDRs of nodes do not overlap", CRASH, 3),
        (no_question, "no node with a machine is deleted", OUTAGE, 0),
        (no_reading, "routes of nodes are kept", OUTAGE, 0),
        (no_quarantine, "only garbage pods are removed", OUTAGE, 5),
        (no_threshold, "only garbage pods are removed", OUTAGE, 1),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_faulty_controller_violates_the_invariant(spoil: Spoil, invariant: str, plan: str, seed: int) -> None:
    def violates(seed: int) -> bool:
        with spoil():
            violations = run(seed, parse_faults(plan), setting=NODES_SETTING).violations
        return invariant in {violation.invariant for violation in violations}

    must_be_found_by(seed, violates)
