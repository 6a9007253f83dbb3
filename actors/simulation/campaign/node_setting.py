"""The setting of seeded runs in which nodes fail: all built-in controllers, a cloud, two or three zones."""

from __future__ import annotations

from collections.abc import Sequence

from actors.app.arguments import read_options
from actors.controllers.built_in import BUILT_IN
from actors.controllers.nodes.node_lifecycle.settings import lifecycle_settings
from actors.controllers.nodes.pod_garbage_collector import PodGarbageCollectorOptions
from actors.options import Options
from actors.simulation import SimulatedCluster
from actors.simulation.campaign.node_outcome import node_end_state, node_unsettled
from actors.simulation.campaign.node_scenarios import draw_node_wishes, fake_cloud
from actors.simulation.campaign.setting import Fleet, Setting
from actors.simulation.invariants.evictions import EvictionsHaveACause, TaintsWithinTheRate
from actors.simulation.invariants.nodes import (
    NodesOfTheCloudStay,
    OnlyGarbageIsRemoved,
    RangesAreUnique,
    RoutesOfNodesStay,
)
from actors.simulation.invariants.observing import Invariant
from runtime.faults.vocabulary import IN_A_CLOUD, Fault, FaultKind
from runtime.simulation.plan import draw_plan

WISHES = 50.0  # seconds within which stories begin
FAULTS = 100.0
SETTLED = 400.0  # seconds; a call to the cloud of which nothing is heard is given up after 120
# Two zones of four nodes, of which a part can be disrupted, or three of three.
FLEETS = (Fleet(nodes=8, zones=2), Fleet(nodes=9, zones=3))
# Nodes are given up, and zones evicted, sooner than by default: so that a run need not take an hour.
FLAGS = (
    "--cloud-provider=fake",
    "--allocate-node-cidrs=true",
    "--cluster-cidr=10.244.0.0/20",
    "--node-monitor-grace-period=20s",
    "--node-startup-grace-period=30s",
    "--node-eviction-rate=0.2",
    "--secondary-node-eviction-rate=0.05",
    "--terminated-pod-gc-threshold=3",
)
LARGE_ZONES = ("--large-cluster-size-threshold=3", "--large-cluster-size-threshold=50")
ABOUT_NODES = (FaultKind.NODE_SILENT, FaultKind.NODE_FLAPPING, FaultKind.ZONE_SILENT)


def fleet_of(scenario: int) -> Fleet:
    return FLEETS[scenario % len(FLEETS)]


def options_of(scenario: int) -> Options:
    large = LARGE_ZONES[scenario // len(FLEETS) % len(LARGE_ZONES)]
    return read_options([*FLAGS, large])


def draw_node_plan(seed: int, *, seconds: float, process: str, actors: Sequence[str]) -> tuple[Fault, ...]:
    """Faults of nodes and of the cloud are twice as likely as others. Sometimes all zones are silent together."""
    return draw_plan(
        seed,
        seconds=seconds,
        process=process,
        actors=actors,
        nodes=[f"hollow-node-{number}" for number in range(8)],
        zones=("zone-a", "zone-b", "zone-*"),
        kinds=(*FaultKind, *ABOUT_NODES, *IN_A_CLOUD),
    )


def invariants_of(cluster: SimulatedCluster, seed: int) -> tuple[Invariant, ...]:
    options = options_of(seed)
    limits = lifecycle_settings(options).limits
    return (
        TaintsWithinTheRate(cluster, limits),
        EvictionsHaveACause(cluster, limits),
        RangesAreUnique(),
        NodesOfTheCloudStay(fake_cloud(cluster)),
        RoutesOfNodesStay(cluster),
        OnlyGarbageIsRemoved(cluster, threshold=options[PodGarbageCollectorOptions].terminated_pod_threshold),
    )


NODES_TOO = Setting(
    name="nodes",
    controllers=BUILT_IN,
    options=options_of,
    fleet=fleet_of,
    cloud=True,
    wishes=lambda scenario: draw_node_wishes(scenario, fleet=fleet_of(scenario), seconds=WISHES),
    invariants=invariants_of,
    end_state=node_end_state,
    unsettled=node_unsettled,
    faults=FAULTS,
    settled=SETTLED,
    draw=draw_node_plan,
)
