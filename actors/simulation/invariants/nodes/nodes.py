"""Invariants of nodes: their pod CIDRs, their routes, and the deletion of nodes and of their pods."""

from __future__ import annotations

from ipaddress import ip_network

from kcm.actors.app.system import ControllerSystem
from kcm.actors.controllers.nodes.pod_garbage_collector import QUARANTINE, is_out_of_service
from kcm.actors.reconciliation.actor_names import controller_name
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.known_state import handling_delay
from kcm.actors.simulation.invariants.observer import Committed, Fail, Observation, Submitted, decoded, only
from kcm.protocols.messages.cloud import DeleteRoute
from kcm.protocols.messages.commands import Delete
from kcm.protocols.objects import Object, name_of, uid_of
from kcm.protocols.resources import NODES, PODS
from kcm.protocols.routes import decode_route
from kcm.runtime.apiserver.storage.store import DELETED, StoreChange
from kcm.runtime.cloud.fake import FakeCloud
from kcm.runtime.tables.table import Table

CLOUD_LIFECYCLE = controller_name("cloud-node-lifecycle-controller")
ROUTES = controller_name("node-route-controller")
POD_GC = controller_name("pod-garbage-collector-controller")
YOUNG = 5.0  # seconds after which a controller must have received a node's new CIDR
ROUNDING = 0.01  # seconds
TERMINATED = ("Succeeded", "Failed")


def is_terminated(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in TERMINATED


def pod_cidrs(node: Object) -> tuple[str, ...]:
    return tuple((node.get("spec") or {}).get("podCIDRs") or ())


class PodCIDRsAreUnique:
    """Invariant: the pod CIDRs of two nodes never overlap, and the pod CIDRs of a node never change."""

    name = "pod CIDRs of nodes do not overlap"
    observes = (only(Committed, NODES.plural),)

    def __init__(self) -> None:
        self._held: dict[str, tuple[str, tuple[str, ...]]] = {}  # by node: (uid, cidrs)

    def observe(self, observation: Observation, fail: Fail) -> None:
        if isinstance(observation, Committed):
            for change in observation.changes:
                if change.storage == NODES.plural:
                    self._check(change, fail)

    def _check(self, change: StoreChange, fail: Fail) -> None:
        node = decoded(change.raw)
        name, uid, cidrs = name_of(node), uid_of(node), pod_cidrs(node)
        held = self._held.pop(name, ("", ()))
        if change.type == DELETED:
            return
        if held[0] == uid and held[1] and cidrs != held[1]:
            fail(f"CIDRs of {name} changed from {held[1]} to {cidrs}")
        self._held[name] = uid, cidrs
        if cidrs == held[1]:
            return
        for other, (_, taken) in self._held.items():
            if other != name and any(ip_network(a).overlaps(ip_network(b)) for a in cidrs for b in taken):
                fail(f"{name} gets {cidrs}, but {other} has {taken}")


class NodesWithMachinesAreKept:
    """Invariant: a manager deletes a node only if the cloud has no machine for it and it is not ready in the cache."""

    name = "no node with a machine is deleted"
    observes = (Submitted,)

    def __init__(self, cloud: FakeCloud) -> None:
        self._cloud = cloud

    def observe(self, observation: Observation, fail: Fail) -> None:
        if not isinstance(observation, Submitted) or not observation.process.startswith("manager"):
            return
        for command in observation.submit.commands:
            if isinstance(command, Delete) and command.resource == NODES.id:
                entry = observation.system.tables[NODES.id].get(command.key)
                if observation.submit.sender != CLOUD_LIFECYCLE:
                    fail(f"{observation.submit.sender} deletes {command.key}")
                elif self._cloud.instances.exists({"metadata": {"name": command.key}}):
                    fail(f"{command.key} is deleted, but its machine exists")
                elif entry is not None and entry.uid == command.uid and entry.facts.ready == "True":
                    fail(f"{command.key} is deleted, but is ready")


class ServerNodes:
    """State of the nodes on the server. Times are virtual.

    nodes: existing nodes by name.
    gone: times at which former nodes were deleted, by name.
    cidrs_since: times at which existing nodes received their pod CIDRs, by name.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._clock = cluster.clock
        self.nodes: dict[str, Object] = {}
        self.gone: dict[str, float] = {}
        self.cidrs_since: dict[str, float] = {}

    def note(self, change: StoreChange) -> None:
        if change.storage != NODES.plural:
            return
        node, now = decoded(change.raw), self._clock.monotonic()
        name = name_of(node)
        if change.type == DELETED:
            self.nodes.pop(name, None)
            self.cidrs_since.pop(name, None)
            self.gone[name] = now
            return
        self.nodes[name] = node
        self.gone.pop(name, None)
        if pod_cidrs(node):
            self.cidrs_since.setdefault(name, now)


class RoutesOfNodesAreKept:
    """Invariant: a route is deleted only if its destination is no longer a pod CIDR of its node.

    A CIDR that the node has just received does not count.
    """

    name = "routes of nodes are kept"
    observes = (only(Submitted, ROUTES), only(Committed, NODES.plural))

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._clock, self._server_nodes = cluster.clock, ServerNodes(cluster)
        self._young = YOUNG + handling_delay(cluster.injector.faults)

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Committed(changes):
                for change in changes:
                    self._server_nodes.note(change)
            case Submitted(_, _, submit) if submit.sender == ROUTES:
                for command in submit.commands:
                    if isinstance(command, DeleteRoute):
                        self._check(command, fail)

    def _check(self, command: DeleteRoute, fail: Fail) -> None:
        route = decode_route(command.route)
        node = self._server_nodes.nodes.get(route.node)
        if node is None or route.destination not in pod_cidrs(node):
            return
        if self._clock.monotonic() - self._server_nodes.cidrs_since[route.node] > self._young:
            fail(f"the route to {route.destination} is deleted, but it is a CIDR of {route.node}")


class OnlyGarbageIsRemoved:
    """Invariant: pod garbage collection deletes only these pods:

    - terminated pods, if there are more than its threshold;
    - pods on a node that has been missing for the quarantine period;
    - terminating pods that are unscheduled, or on a node with the out-of-service taint.
    """

    name = "only garbage pods are removed"
    observes = (only(Submitted, POD_GC), only(Committed, NODES.plural, PODS.plural))

    def __init__(self, cluster: SimulatedCluster, *, threshold: int) -> None:
        self._clock, self._server_nodes, self._threshold = cluster.clock, ServerNodes(cluster), threshold
        self._terminated: set[str] = set()  # uids of the pods that were ever committed as terminated

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Committed(changes):
                for change in changes:
                    self._server_nodes.note(change)
                    if change.storage == PODS.plural and is_terminated(pod := decoded(change.raw)):
                        self._terminated.add(uid_of(pod))
            case Submitted(_, system, submit) if submit.sender == POD_GC:
                for command in submit.commands:
                    if isinstance(command, Delete) and command.resource == PODS.id:
                        self._check(system, command, fail)

    def _count_terminated(self, table: Table) -> int:
        """Return the highest number of terminated pods that the controller may have observed.

        It includes pods that are not terminated in its informer cache: before the controller deletes a pod, it sets the
        pod to Failed, and it sees its own writes before the cache contains them.
        """
        return sum(1 for pod in table.entries() if pod.facts.phase in TERMINATED or pod.uid in self._terminated)

    def _check(self, system: ControllerSystem, command: Delete, fail: Fail) -> None:
        table = system.tables[PODS.id]
        entry = table.get(command.key)
        if entry is None or entry.uid != command.uid:
            return
        facts = entry.facts
        node = self._server_nodes.nodes.get(facts.node)
        if facts.phase in TERMINATED and self._count_terminated(table) > self._threshold:
            return
        if facts.deleting and (not facts.node or (node is not None and is_out_of_service(node))):
            return
        if not facts.node or node is not None:
            fail(f"{command.key} is removed from node {facts.node!r}, which is not deleted")
        elif self._clock.monotonic() - self._server_nodes.gone.get(facts.node, float("-inf")) < QUARANTINE - ROUNDING:
            fail(f"{command.key} is removed too soon after the deletion of node {facts.node}")
