"""The setting of seeded runs in which nodes fail: workloads, garbage, all controllers of nodes, and a cloud."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from kcm.actors.controllers.apimachinery import garbage_collector
from kcm.actors.controllers.cloud import cloud_node_lifecycle, node_route
from kcm.actors.controllers.nodes import node_ipam, node_lifecycle, pod_garbage_collector, taint_eviction, ttl
from kcm.actors.options import Options
from kcm.actors.simulation.campaign.flags import given
from kcm.actors.simulation.campaign.setting import WORKLOADS, Setting
from kcm.actors.simulation.trials.nodes.taints import SOON, tolerations
from kcm.actors.simulation.trials.scenario import Fleet
from kcm.runtime.faults.vocabulary import OF_CALLS, Fault, FaultKind
from kcm.runtime.simulation.plan import ON_REQUEST, draw_plan

OF_NODES = (
    pod_garbage_collector.SPEC,
    ttl.SPEC,
    node_ipam.SPEC,
    node_lifecycle.SPEC,
    taint_eviction.SPEC,
    node_route.SPEC,
    cloud_node_lifecycle.SPEC,
)
ACTING = 50.0  # seconds within which users begin to act
FAULTS = 100.0
SETTLED = 400.0  # seconds; a call to the cloud that has no outcome is given up after 120
NODES, ZONES = (7, 8, 9), (2, 2, 3)  # of zones of three and more a part can be disrupted
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
KINDS = (*(kind for kind in FaultKind if kind not in ON_REQUEST), *ABOUT_NODES, *OF_CALLS)


def fleet_of(scenario: int) -> Fleet:
    chance = random.Random(f"fleet {scenario}")
    return Fleet(nodes=chance.choice(NODES), zones=chance.choice(ZONES))


def options_of(scenario: int) -> Options:
    large = LARGE_ZONES[scenario // 2 % len(LARGE_ZONES)]
    return given(*FLAGS, large)


def pod_of(scenario: int) -> Mapping[str, Any]:
    """Pods of workloads tolerate nodes that are not ready, and maintenance, for a while."""
    chance = random.Random(f"tolerations {scenario}")
    return {"tolerations": tolerations(chance.choice(SOON), maintenance=chance.choice(SOON))}


def draw_node_plan(seed: int, *, seconds: float, process: str, actors: Sequence[str]) -> tuple[Fault, ...]:
    """Faults of nodes and of the cloud are twice as likely as others. Sometimes all zones are silent together."""
    return draw_plan(
        seed,
        seconds=seconds,
        process=process,
        actors=actors,
        nodes=[f"hollow-node-{number}" for number in range(8)],
        zones=("zone-a", "zone-b", "zone-*"),
        kinds=KINDS,
    )


NODES_TOO = Setting(
    name="nodes",
    controllers=(*WORKLOADS, garbage_collector.SPEC, *OF_NODES),
    options=options_of,
    fleet=fleet_of,
    pod=pod_of,
    cloud=True,
    steady=False,
    acting=ACTING,
    faults=FAULTS,
    settled=SETTLED,
    draw=draw_node_plan,
)
