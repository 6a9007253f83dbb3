"""Options of the managers of a simulated cluster, and values that follow from them."""

from __future__ import annotations

from collections.abc import Mapping

from kcm.actors.controllers.nodes.node_lifecycle.options import lifecycle_settings
from kcm.actors.options import Options
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.nodes.zone_rates import eviction_rates
from kcm.protocols.nodes import node_facts
from kcm.protocols.resources import NODES
from kcm.runtime.cloud.fake import FakeCloud


def options_of(cluster: SimulatedCluster) -> Options:
    """Return the options of the cluster's first manager."""
    return cluster.processes["manager"].options or Options()


def rates_of(cluster: SimulatedCluster) -> Mapping[str, float]:
    """Return the current eviction rate of each zone: nodes per second that may be tainted NoExecute."""
    limits = lifecycle_settings(options_of(cluster)).limits
    return eviction_rates(map(node_facts, cluster.shown(NODES)), limits)


def fake_cloud(cluster: SimulatedCluster) -> FakeCloud:
    """Return the fake cloud of a run. Raises TypeError if the cluster has another cloud, or none."""
    if not isinstance(cluster.cloud, FakeCloud):
        raise TypeError(f"expected a fake cloud, got {cluster.cloud!r}")
    return cluster.cloud
