"""Simulated cluster with a manager that runs only the taint eviction controller."""

from __future__ import annotations

from kcm.actors.app.system import ControllerSystem
from kcm.actors.controllers.nodes.taint_eviction import SPEC
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import Object
from kcm.protocols.resources import NODES, PODS
from tests.actors.controllers.nodes.objects import messages, set_taints, writes
from tests.support.objects import node

NAME = "controller:taint-eviction-controller"
MARKED, CANCELLED = "Marking for deletion Pod default/p1", "Cancelling deletion of Pod default/p1"


class Scene:
    """Simulated cluster whose manager runs only the taint eviction controller.

    Times are virtual seconds since the creation of the objects, or since the start of the controller if it was later.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.manager: ControllerSystem
        self.start()

    def start(self) -> None:
        self.manager = self.cluster.manager(controllers=[SPEC])
        self.cluster.run_for(3.0)
        self.began = self.cluster.clock.monotonic()

    def create(self, *pods: Object, on: Object | None = None) -> None:
        self.cluster.create(NODES, on or node())
        for pod in pods:
            self.cluster.create(PODS, pod)
        self.cluster.run_for(0.5)
        self.began = self.cluster.clock.monotonic()

    def taint(self, *taints: Object) -> None:
        set_taints(self.cluster, "n1", *taints)

    def run_for(self, seconds: float) -> None:
        self.cluster.run_for(seconds)

    def evictions(self) -> dict[str, float]:
        """Return the time at which each pod was deleted, by name, in virtual seconds."""
        sent = writes(self.cluster, client="node-controller", since=self.began)
        return {write.what.removeprefix("DELETE pods/"): write.at for write in sent if write.what.startswith("DELETE")}

    def sent(self) -> list[str]:
        return [write.what for write in writes(self.cluster, client="node-controller")]

    def events(self, about: str = "p1") -> list[str]:
        self.cluster.run_for(2.0)
        found = messages(self.cluster, about=about)
        assert {(type, reason) for type, reason, _ in found} <= {("Normal", "TaintManagerEviction")}
        return [message for _, _, message in found]
