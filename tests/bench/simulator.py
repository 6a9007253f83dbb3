"""Number of virtual seconds that the simulator runs in one second of CPU time."""

from __future__ import annotations

import time
from collections.abc import Callable

from kcm.actors.controllers.cloud import cloud_node_lifecycle, node_route
from kcm.actors.controllers.nodes import node_ipam, node_lifecycle, pod_garbage_collector, taint_eviction, ttl
from kcm.actors.controllers.workloads import deployment, replicaset, replicationcontroller
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.workloads.actions import workload
from kcm.protocols.resources import DEPLOYMENTS
from kcm.runtime.logs.standard_log import quiet_log

# A fixed list, so that figures of different days can be compared.
CONTROLLERS = tuple(
    module.SPEC
    for module in (
        replicationcontroller,
        pod_garbage_collector,
        deployment,
        replicaset,
        ttl,
        node_ipam,
        node_lifecycle,
        taint_eviction,
        cloud_node_lifecycle,
        node_route,
    )
)
ROLL_EVERY = 60.0  # virtual seconds
ROLLS = 20


def simulated_seconds() -> dict[str, float]:
    """Return the figure of each scene: a cluster of 3 nodes with a rollout once a minute, and without."""
    cluster = SimulatedCluster(log=quiet_log())
    cluster.hollow_nodes()
    cluster.manager(controllers=CONTROLLERS)
    cluster.create(DEPLOYMENTS, workload(DEPLOYMENTS, "web", 3, "v0"))
    cluster.run_for(ROLL_EVERY)

    def roll() -> None:
        for number in range(ROLLS):
            template = {"spec": {"containers": [{"name": "c", "image": f"v{number + 1}"}]}}
            cluster.merge(DEPLOYMENTS, "default/web", {"spec": {"template": template}})
            cluster.run_for(ROLL_EVERY)

    return {
        "3 nodes, a rollout a minute": ROLLS * ROLL_EVERY / _cpu(roll),
        "3 nodes at rest": 3600.0 / _cpu(lambda: cluster.run_for(3600.0)),
    }


def _cpu(act: Callable[[], None]) -> float:
    began = time.process_time()
    act()
    return time.process_time() - began
