"""Mutants of the controllers of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from kcm.actors.controllers.nodes.node_ipam.reconciler import NodeIpamReconciler
from kcm.actors.controllers.nodes.node_lifecycle import health, zones
from kcm.actors.controllers.nodes.node_lifecycle.health import Liveness
from kcm.actors.controllers.nodes.pod_garbage_collector import PodGarbageCollector
from kcm.actors.controllers.nodes.taint_eviction import TaintEvictionReconciler
from kcm.actors.simulation.campaign.domain_settings import NODES_SETTING
from tests.faults.combined_actions import COMBINED_NODES
from tests.faults.mutants.mutant import Mutant
from tests.faults.mutants.oracles import OnlySilentNodesAreGivenUp
from tests.faults.mutants.plans import all_silent, away_when_a_node_comes, late_leases
from tests.faults.mutants.scenarios import a_node_comes_anew


@contextmanager
def all_down_is_like_any_other() -> Iterator[None]:
    """Each zone is evicted as if it alone were down, even if all nodes are silent."""
    assess = zones.assess

    def zone_by_zone(zones: Any, limits: Any, *, was_all_down: bool) -> Any:
        found = assess(zones, limits, was_all_down=was_all_down)
        if not found.all_down:
            return found
        rates = dict.fromkeys(zones, limits.full_disruption_rate)
        return replace(found, all_down=False, spared=frozenset(), rates=rates)

    with patch.object(zones, "assess", zone_by_zone):
        yield


@contextmanager
def late_leases_are_believed() -> Iterator[None]:
    """A node without a renewed Lease is marked as unknown even if the whole watch is late."""
    liveness = health.liveness

    def believing(*arguments: Any, **more: Any) -> Liveness:
        found = liveness(*arguments, **more)
        return Liveness.SILENT if found is Liveness.DOUBTFUL else found

    with patch.object(health, "liveness", believing):
        yield


@contextmanager
def evictions_are_not_cancelled() -> Iterator[None]:
    """A scheduled eviction is carried out even if the taint was removed."""

    def kept(self: TaintEvictionReconciler, key: str) -> Any:
        return
        yield

    judge = TaintEvictionReconciler._plan

    def sticky(self: TaintEvictionReconciler, key: str) -> Any:
        before = self._evictions.get(key)
        found = yield from judge(self, key)
        return before if found is None and before is not None and self._pods.entry(key) is not None else found

    with (
        patch.object(TaintEvictionReconciler, "_cancel", kept),
        patch.object(TaintEvictionReconciler, "_plan", sticky),
    ):
        yield


@contextmanager
def a_missing_node_is_gone() -> Iterator[None]:
    """Pods of nodes missing in the table are deleted at once."""

    def at_once(self: PodGarbageCollector, pods: Any, present: Any) -> Any:
        return {pod.facts.node for pod in pods if pod.facts.node and pod.facts.node not in present}
        yield

    with patch.object(PodGarbageCollector, "_deleted_nodes", at_once):
        yield


@contextmanager
def held_ranges_are_not_counted() -> Iterator[None]:
    """A new manager ignores CIDRs that its predecessors allocated."""
    with patch.object(NodeIpamReconciler, "_occupy", lambda self, entry: None):
        yield


LATE_LEASES = replace(
    COMBINED_NODES, draw=late_leases, invariants=lambda cluster, _scenario: (OnlySilentNodesAreGivenUp(cluster),)
)

NODES = (
    Mutant(
        name="all nodes silent, and evicted",
        source="kubernetes/kubernetes#28832",
        mutation=all_down_is_like_any_other,
        setting=replace(COMBINED_NODES, draw=all_silent),
    ),
    Mutant(
        name="nodes given up on a late lease watch",
        source="kubernetes/kubernetes#85221",
        mutation=late_leases_are_believed,
        setting=LATE_LEASES,
    ),
    Mutant(
        name="an eviction outlives its taint",
        source="kubernetes/kubernetes#90794",
        mutation=evictions_are_not_cancelled,
        setting=NODES_SETTING,
    ),
    Mutant(
        name="a node that is not shown is gone",
        source="kubernetes/kubernetes#68071",
        mutation=a_missing_node_is_gone,
        setting=NODES_SETTING,
    ),
    Mutant(
        name="a range is given twice after a restart",
        source="kubernetes/kubernetes#127792",
        mutation=held_ranges_are_not_counted,
        setting=replace(NODES_SETTING, draw=away_when_a_node_comes, actions=a_node_comes_anew),
    ),
)
