"""Cost of a change of one pod by the number of pods behind the same ReplicaSet, Service, PodDisruptionBudget and quota:
`python -m tests.bench.scale.behind 1000 10000`.

Everything runs in one thread on virtual time. Bytecodes and C calls do not depend on the load of the machine; those of
the API server and of the simulator are left out. CPU time includes them, but they are the same for each size.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kcm.runtime.apiserver
import kcm.runtime.simulation
from kcm.actors.controllers.apimachinery import resourcequota
from kcm.actors.controllers.network import endpoints, endpointslice
from kcm.actors.controllers.workloads import disruption, replicaset
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import Object, uid_of
from kcm.protocols.resources import (
    ENDPOINT_SLICES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICASETS,
    RESOURCE_QUOTAS,
    SERVICES,
)
from kcm.runtime.logs.standard_log import quiet_log
from tests.bench.costs import InterpreterCounter

CONTROLLERS = {
    module.SPEC.name: module.SPEC for module in (replicaset, endpointslice, endpoints, disruption, resourcequota)
}
APP = {"app": "web"}
LASTING = 12.0  # virtual seconds after each change: a quota is counted again after 10 s
CHANGES = 6
ROOMS = (kcm.runtime.apiserver, kcm.runtime.simulation)
LEFT_OUT = frozenset(str(path) for room in ROOMS for path in Path(str(room.__file__)).parent.rglob("*.py"))


class Crowd:
    """A cluster whose controllers have handled all pods of a ReplicaSet."""

    def __init__(self, pods: int, controllers: Mapping[str, Any] = CONTROLLERS) -> None:
        self.cluster = SimulatedCluster(log=quiet_log())
        self._changes = 0
        create = self.cluster.create
        create(NODES, {"metadata": {"name": "n"}})
        meta = {"name": "web", "namespace": "default"}
        selector = {"selector": {"matchLabels": APP}}
        template = {"metadata": {"labels": APP}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        owner = create(REPLICASETS, {"metadata": meta, "spec": {"replicas": pods, **selector, "template": template}})
        create(SERVICES, {"metadata": meta, "spec": {"selector": APP, "ports": [{"port": 80}]}})
        create(POD_DISRUPTION_BUDGETS, {"metadata": meta, "spec": {"minAvailable": "50%", **selector}})
        create(RESOURCE_QUOTAS, {"metadata": meta, "spec": {"hard": {"pods": "100000"}}})
        for number in range(pods):
            create(PODS, _pod(number, owner))
            self._set_ready(number, ready=True, address=f"10.0.{number >> 8}.{number & 255}")
        self.cluster.manager(controllers=list(controllers.values()))
        self.cluster.run_for(60.0)
        endpoints_of = [slice_["endpoints"] for slice_ in self.cluster.list(ENDPOINT_SLICES)]
        if endpointslice.SPEC.name in controllers and sum(map(len, endpoints_of)) != pods:
            raise RuntimeError(f"{sum(map(len, endpoints_of))} endpoints of {pods} pods")

    def rest(self) -> None:
        self.cluster.run_for(LASTING)

    def change(self) -> None:
        """Change the readiness of one pod, and let the controllers react."""
        self._set_ready(self._changes // 2, ready=self._changes % 2 == 1)
        self._changes += 1
        self.rest()

    def _set_ready(self, number: int, *, ready: bool, address: str = "") -> None:
        condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": "2026-01-01T00:00:00Z"}
        status: Object = {"phase": "Running", "conditions": [condition]}
        if address:
            status |= {"podIP": address, "podIPs": [{"ip": address}]}
        self.cluster.merge(PODS, f"default/web-{number:05}", {"status": status}, subresource="status")


def _pod(number: int, owner: Object) -> Object:
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid_of(owner), "controller": True}
    meta = {"name": f"web-{number:05}", "namespace": "default", "labels": APP, "ownerReferences": [reference]}
    return {"metadata": meta, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}}


def cost_of_change(crowd: Crowd) -> dict[str, float]:
    """Return the average cost of a change, without that of the same time at rest."""
    crowd.change()
    began = time.process_time()
    for _ in range(CHANGES):
        crowd.rest()
    resting = time.process_time() - began
    began = time.process_time()
    for _ in range(CHANGES):
        crowd.change()
    spent = time.process_time() - began - resting
    rest, changes = InterpreterCounter(leave_out=LEFT_OUT), InterpreterCounter(leave_out=LEFT_OUT)
    rest.run(crowd.rest)
    changes.run(crowd.change)
    return {
        "bytecodes": changes.bytecodes - rest.bytecodes,
        "c_calls": changes.c_calls - rest.c_calls,
        "cpu_ms": spent * 1000 / CHANGES,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pods", nargs="+", type=int)
    parser.add_argument("--each", action="store_true", help="measure each controller alone as well")
    arguments = parser.parse_args()
    sets = {"all": CONTROLLERS}
    if arguments.each:
        sets |= {name: {name: spec} for name, spec in CONTROLLERS.items()}
    for name, controllers in sets.items():
        for pods in arguments.pods:
            figures = cost_of_change(Crowd(pods, controllers))
            print(f"{name:32} {pods:6} pods: " + ", ".join(f"{key} {value:,.1f}" for key, value in figures.items()))


if __name__ == "__main__":
    main()
