"""How fast the simulator is: python tests/bench/simulator.py [ROUNDS]. 3 nodes, a Deployment rolls all the time."""

from __future__ import annotations

import sys
import time

from actors.scenarios import workload
from actors.simulate import quiet_log
from actors.simulation import SimulatedCluster
from protocols.resources import DEPLOYMENTS

ROLL_EVERY = 60.0  # virtual seconds


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    cluster = SimulatedCluster(log=quiet_log())
    cluster.hollow_nodes()
    cluster.manager()
    cluster.create(DEPLOYMENTS, workload(DEPLOYMENTS, "web", 3, "v0"))
    cluster.run_for(ROLL_EVERY)
    began = time.process_time()
    for number in range(rounds):
        template = {"spec": {"containers": [{"name": "c", "image": f"v{number + 1}"}]}}
        cluster.merge(DEPLOYMENTS, "default/web", {"spec": {"template": template}})
        cluster.run_for(ROLL_EVERY)
    spent = time.process_time() - began
    print(f"{rounds} rollouts, {rounds * ROLL_EVERY / spent:.0f} simulated seconds in a second of CPU")


if __name__ == "__main__":
    main()
