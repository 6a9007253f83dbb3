"""The setting of seeded runs in which nodes fail: all built-in controllers but those of Services, and a cloud."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from actors.app.arguments import read_options
from actors.controllers.built_in import BUILT_IN
from actors.options import Options
from actors.simulation.campaign.service_setting import OF_SERVICES
from actors.simulation.campaign.setting import Setting
from actors.simulation.trials.nodes.taints import SOON, tolerations
from actors.simulation.trials.scenario import Fleet
from runtime.faults.vocabulary import OF_CALLS, Fault, FaultKind
from runtime.simulation.plan import ON_REQUEST, draw_plan

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
    return read_options([*FLAGS, large])


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
    controllers=tuple(spec for spec in BUILT_IN if spec not in OF_SERVICES),
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
