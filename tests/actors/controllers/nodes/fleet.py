"""Simulated cluster with three zones of ten nodes, whose kubelets the test controls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kcm.actors.app.arguments import read_options
from kcm.actors.app.system import ControllerSystem
from kcm.actors.controllers.nodes import node_lifecycle
from kcm.actors.options import Options
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.conditions import find_condition
from kcm.protocols.nodes import LEASE_NAMESPACE, NO_EXECUTE, UNREACHABLE
from kcm.protocols.objects import Object, make_key, name_of
from kcm.protocols.resources import EVENTS, LEASES, NODES, PODS
from kcm.protocols.times import format_micro_time, format_time, parse_time
from kcm.runtime.simulation.clock import START

BEAT, FIRST_BEAT = 10.0, 2.5  # seconds between heartbeats; the monitor's passes are at 0, 5, 10, …
LEADER, LEADER_BEAT = "some-leader", 2.0  # every real cluster has a Lease that is renewed every few seconds
CONDITIONS = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")


def options_of(*flags: str) -> Options:
    """Parse these flags, with rate limits for requests disabled, so that only eviction rates affect times."""
    return read_options(["--kube-api-qps=-1", *flags])


class Fleet:
    """Simulated cluster with nodes, their kubelets and Leases.

    Kubelets that the test has not silenced send a heartbeat every 10 s, at 2.5 s, 12.5 s, …

    A heartbeat renews the Lease, and posts the status Ready if the condition is Unknown. Another Lease is renewed every
    2 s. Zones are "eu:a", "eu:b", "eu:c"; nodes are "a0" to "a9" and so on. Node 0 of each zone runs a pod.
    """

    def __init__(self, cluster: SimulatedCluster, *, zones: str = "abc", size: int = 10) -> None:
        self.cluster = cluster
        self.names = {zone: [f"{zone}{i}" for i in range(size)] for zone in zones}
        self.silent: set[str] = set()
        cluster.run_for(0.1)
        cluster.create(LEASES, {"metadata": {"name": LEADER, "namespace": "kube-system"}, "spec": {}})
        for zone, names in self.names.items():
            for name in names:
                self.register(name, zone)
            self.run_pod(f"pod-on-{names[0]}", names[0])
        cluster.clock.call_at("kubelets", FIRST_BEAT, self._beat)
        cluster.clock.call_at("leader", LEADER_BEAT, self._lead)

    def register(self, name: str, zone: str, *, conditions: bool = True) -> None:
        labels = {"topology.kubernetes.io/region": "eu", "topology.kubernetes.io/zone": zone}
        node: Object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        if conditions:
            node["status"] = self._status("True")
        self.cluster.create(NODES, node)
        if conditions and self.cluster.get(LEASES, make_key(LEASE_NAMESPACE, name)) is None:
            lease = {"metadata": {"name": name, "namespace": LEASE_NAMESPACE}, "spec": {"renewTime": self._micro()}}
            self.cluster.create(LEASES, lease)

    def run_pod(self, name: str, node: str, **meta: object) -> None:
        """Create a running, ready pod on a node; "" creates an unscheduled pod."""
        containers = [{"name": "c", "image": "i"}]
        spec: Object = {"terminationGracePeriodSeconds": 600, "containers": containers}
        if node:
            spec["nodeName"] = node
        self.cluster.create(PODS, {"metadata": {"name": name, "namespace": "default", **meta}, "spec": spec})
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": self._time()}
        status = {"phase": "Running", "conditions": [ready]}
        self.cluster.merge(PODS, f"default/{name}", {"status": status}, subresource="status")

    def manager(self, *flags: str) -> ControllerSystem:
        """Start a manager that runs only the node lifecycle controller."""
        return self.cluster.manager(controllers=[node_lifecycle.SPEC], options=options_of(*flags))

    def silence(self, *zones_or_names: str) -> None:
        self.silent |= set(self._nodes(zones_or_names))

    def recover(self, *zones_or_names: str) -> None:
        """Let silenced kubelets send heartbeats again, beginning with their next regular heartbeat."""
        self.silent -= set(self._nodes(zones_or_names))

    def post_status(self, name: str, ready: str) -> None:
        """Post the status of a node now, as its kubelet does."""
        self.cluster.merge(NODES, name, {"status": self._status(ready)}, subresource="status")

    def run_until(self, second: float) -> None:
        """Run the simulation until this virtual second after its start."""
        self.cluster.run_for(second - self.cluster.clock.monotonic())

    # Observations.

    def node(self, name: str) -> Object:
        node = self.cluster.get(NODES, name)
        assert node is not None
        return node

    def ready(self, name: str) -> Mapping[str, str]:
        """Return the status of a node's condition Ready."""
        condition = find_condition(self.node(name)["status"]["conditions"], "Ready")
        assert condition is not None
        return condition

    def statuses(self, zone: str) -> set[str]:
        return {self.ready(name)["status"] for name in self.names[zone]}

    def taints(self, name: str) -> set[tuple[str, str]]:
        """Return the taints of a node as (last part of the key, effect)."""
        taints = self.node(name)["spec"].get("taints") or ()
        return {(taint["key"].rpartition("/")[2], taint["effect"]) for taint in taints}

    def tainted(self, zone: str = "", key: str = UNREACHABLE) -> dict[str, int]:
        """Return the times at which nodes were tainted NoExecute, sorted, in whole virtual seconds since the start."""
        found = {}
        for node in self.cluster.list(NODES):
            for taint in node["spec"].get("taints") or ():
                if taint["effect"] == NO_EXECUTE and taint["key"] == key and name_of(node).startswith(zone):
                    found[name_of(node)] = round(parse_time(taint["timeAdded"]) - START)
        return dict(sorted(found.items(), key=lambda item: item[1]))

    def pod_ready(self, name: str) -> str:
        pod = self.cluster.get(PODS, f"default/{name}")
        assert pod is not None
        condition = find_condition(pod["status"]["conditions"], "Ready")
        assert condition is not None
        return str(condition["status"])

    def events(self, reason: str) -> list[tuple[str, str, str]]:
        """Return the events with this reason as (type, name of the object, message)."""
        return [
            (event["type"], event["involvedObject"]["name"], event["message"])
            for event in self.cluster.list(EVENTS)
            if event["reason"] == reason
        ]

    # The kubelets.

    def _nodes(self, zones_or_names: Sequence[str]) -> Iterable[str]:
        for each in zones_or_names:
            yield from self.names.get(each, [each])

    def _beat(self) -> None:
        for names in self.names.values():
            for name in names:
                if name in self.silent:
                    continue
                lease = make_key(LEASE_NAMESPACE, name)
                self.cluster.merge(LEASES, lease, {"spec": {"renewTime": self._micro()}})
                if self.ready(name)["status"] == "Unknown":
                    self.post_status(name, "True")
        self.cluster.clock.call_at("kubelets", self.cluster.clock.monotonic() + BEAT, self._beat)

    def _lead(self) -> None:
        self.cluster.merge(LEASES, f"kube-system/{LEADER}", {"spec": {"renewTime": self._micro()}})
        self.cluster.clock.call_at("leader", self.cluster.clock.monotonic() + LEADER_BEAT, self._lead)

    def _status(self, ready: str) -> Object:
        stamp = {"lastHeartbeatTime": self._time(), "lastTransitionTime": self._time()}
        conditions = [
            {"type": type, "status": ready if type == "Ready" else "False", "reason": "R", "message": "m", **stamp}
            for type in CONDITIONS
        ]
        return {"conditions": conditions, "nodeInfo": {"kubeletVersion": "v1.36.0"}}

    def _time(self) -> str:
        return format_time(self.cluster.clock.now())

    def _micro(self) -> str:
        return format_micro_time(self.cluster.clock.now())
