"""Filtering and scoring of nodes for a pod.

Images are not considered. Other pods, volumes, devices and preemption have modules of their own.

Source: kubernetes v1.36 pkg/scheduler/framework/plugins/{nodeunschedulable,tainttoleration,nodeaffinity,nodeports,
noderesources}; the spreading is that of the older selectorspread.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from kcm.actors.hollow.scheduler.demand import Demand, Port, Taint, amount_of
from kcm.protocols.objects import Key, Object, labels_of, name_of

ZONE_LABEL = "topology.kubernetes.io/zone"
UNSCHEDULABLE = "node(s) were unschedulable"
UNTOLERATED = "node(s) had untolerated taint(s)"
UNMATCHED = "node(s) didn't match Pod's node affinity/selector"
NOT_NAMED = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
NO_PORTS = "node(s) didn't have free ports for the requested pod ports"
TOO_MANY_PODS = "Too many pods"
INSUFFICIENT = "Insufficient "  # followed by the name of a resource
UNSCHEDULABLE_TAINT = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
ZONE_WEIGHT = 2 / 3
NODE_AFFINITY_WEIGHT, TAINT_WEIGHT = 2.0, 3.0  # the weight of free resources is 1


class NodeView(Struct, frozen=True, kw_only=True):
    """Node as the scheduler sees it.

    taints: the taints that prevent scheduling.
    soft_taints: the taints with the effect PreferNoSchedule.
    allocatable: amounts as in Demand.requests.
    """

    name: str
    zone: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    soft_taints: tuple[Taint, ...] = ()
    unschedulable: bool
    allocatable: Mapping[str, int]


def node_view(node: Object) -> NodeView:
    spec, labels = node.get("spec") or {}, labels_of(node)
    taints = [
        Taint(taint.get("key", ""), taint.get("value") or "", taint.get("effect", ""))
        for taint in spec.get("taints") or ()
    ]
    return NodeView(
        name=name_of(node),
        zone=labels.get(ZONE_LABEL, ""),
        labels=labels,
        taints=tuple(taint for taint in taints if taint.effect in ("NoSchedule", "NoExecute")),
        soft_taints=tuple(taint for taint in taints if taint.effect == "PreferNoSchedule"),
        unschedulable=bool(spec.get("unschedulable")),
        allocatable=_allocatable(node),
    )


def _allocatable(node: Object) -> Mapping[str, int]:
    """Return the allocatable amounts. Malformed quantities are omitted."""
    amounts = {}
    for name, quantity in ((node.get("status") or {}).get("allocatable") or {}).items():
        with contextlib.suppress(ValueError):
            amounts[name] = amount_of(name, quantity)
    return amounts


class NodeUsage(Struct):
    """Resources that the pods of one node use: amounts as in Demand, and numbers of pods, by host port and claim."""

    requests: Counter[str] = field(default_factory=Counter)
    cpu: int = 0
    memory: int = 0
    pods: int = 0
    ports: Counter[Port] = field(default_factory=Counter)
    claims: Counter[Key] = field(default_factory=Counter)

    def add(self, demand: Demand, times: int = 1) -> None:
        """Add a pod's demand. times: -1 removes it."""
        for name, amount in demand.requests:
            self.requests[name] += times * amount
        self.cpu += times * demand.cpu
        self.memory += times * demand.memory
        self.pods += times
        for port in demand.ports:
            self.ports[port] += times
        for claim in demand.claims:
            self.claims[claim] += times
            if not self.claims[claim]:
                del self.claims[claim]

    def copy(self) -> NodeUsage:
        return NodeUsage(
            Counter(self.requests), self.cpu, self.memory, self.pods, Counter(self.ports), Counter(self.claims)
        )


UNUSED = NodeUsage()


def misfits(demand: Demand, node: NodeView, usage: NodeUsage) -> Sequence[str]:
    """Return the reasons why the pod does not fit the node, in kube-scheduler's words; empty if it fits."""
    if demand.names is not None and node.name not in demand.names:
        return (NOT_NAMED,)
    if node.unschedulable and not demand.tolerates(UNSCHEDULABLE_TAINT):
        return (UNSCHEDULABLE,)
    if node.taints and not all(demand.tolerates(taint) for taint in node.taints):
        return (UNTOLERATED,)
    if not matches_node(demand, node):
        return (UNMATCHED,)
    if demand.ports and any(is_taken(port, usage.ports) for port in demand.ports):
        return (NO_PORTS,)
    return _insufficient(demand, node.allocatable, usage)


def matches_node(demand: Demand, node: NodeView) -> bool:
    """Report whether the pod's nodeSelector and required node affinity select the node."""
    labels = node.labels
    if any(labels.get(key) != value for key, value in demand.selector):
        return False
    return demand.terms is None or any(term.matches(node.name, labels) for term in demand.terms)


def is_taken(wanted: Port, used: Mapping[Port, int]) -> bool:
    return any(
        count > 0
        and port.number == wanted.number
        and port.protocol == wanted.protocol
        and ("" in (port.address, wanted.address) or port.address == wanted.address)
        for port, count in used.items()
    )


def _insufficient(demand: Demand, allocatable: Mapping[str, int], usage: NodeUsage) -> Sequence[str]:
    reasons = []
    if usage.pods + 1 > allocatable.get("pods", 0):
        reasons.append(TOO_MANY_PODS)
    used = usage.requests
    for name, amount in demand.requests:
        if amount > allocatable.get(name, 0) - used[name]:
            reasons.append(f"{INSUFFICIENT}{name}")
    return reasons


def best(
    demand: Demand,
    nodes: Sequence[NodeView],
    usages: Mapping[str, NodeUsage],
    siblings: Mapping[str, int],
    preferences: Sequence[float] = (),
) -> NodeView:
    """Return the node with the highest score; of equal nodes, the first.

    nodes: feasible nodes, at least one.
    siblings: number of pods of the same owner, by node. In spreading them zones count twice as much as nodes, and
        spreading counts twice as much as free resources.
    preferences: further scores of the nodes; empty if all are 0.
    """
    if len(nodes) == 1:
        return nodes[0]
    in_zone: Counter[str] = Counter()
    if siblings:
        for node in nodes:
            in_zone[node.zone] += siblings.get(node.name, 0)
    most, most_in_zone = max(siblings.values(), default=0), max(in_zone.values(), default=0)
    chosen, highest = nodes[0], -1.0
    for place, node in enumerate(nodes):
        score = _room(demand, node.allocatable, usages.get(node.name, UNUSED))
        if most:
            spread = 1 - siblings.get(node.name, 0) / most
            if most_in_zone and node.zone:
                spread = (1 - ZONE_WEIGHT) * spread + ZONE_WEIGHT * (1 - in_zone[node.zone] / most_in_zone)
            score += 2 * spread
        if preferences:
            score += preferences[place]
        if score > highest:
            chosen, highest = node, score
    return chosen


def _room(demand: Demand, allocatable: Mapping[str, int], usage: NodeUsage) -> float:
    """Return the share of CPU and memory that remains free, from 0 to 1."""
    cpu, memory = allocatable.get("cpu", 0), allocatable.get("memory", 0)
    left = max(0.0, 1 - (usage.cpu + demand.cpu) / cpu) if cpu else 0.0
    return (left + (max(0.0, 1 - (usage.memory + demand.memory) / memory) if memory else 0.0)) / 2


def preferences(demand: Demand, nodes: Sequence[NodeView]) -> list[float] | None:
    """Return the scores of nodes by preferred node affinity and by taints, with upstream's weights; None if all are 0.

    Source: pkg/scheduler/apis/config/v1/default_plugins.go; plugins/{nodeaffinity,tainttoleration}.
    """
    preferred = demand.terms_about_pods.nodes
    if not preferred and not any(node.soft_taints for node in nodes):
        return None
    weights = [
        sum(preference.weight for preference in preferred if preference.term.matches(node.name, node.labels))
        for node in nodes
    ]
    untolerated = [sum(not demand.tolerates(taint) for taint in node.soft_taints) for node in nodes]
    most_weight, most_taints = max(weights), max(untolerated)
    return [
        NODE_AFFINITY_WEIGHT * (weight / most_weight if most_weight else 0.0)
        + TAINT_WEIGHT * (1 - taints / most_taints if most_taints else 1.0)
        for weight, taints in zip(weights, untolerated, strict=True)
    ]


def failure_message(nodes: int, reasons: Mapping[str, int]) -> str:
    """Return the message of an unschedulable pod. reasons: number of nodes by reason."""
    if nodes == 0:
        return "no nodes available to schedule pods"
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    return f"0/{nodes} nodes are available: {listed}."


def nodes_to_find(nodes: int) -> int:
    """Return the number of feasible nodes after which the search ends.

    Source: kubernetes v1.36 pkg/scheduler/schedule_one.go, numFeasibleNodesToFind.
    """
    if nodes < 100:
        return nodes
    percentage = max(5, 50 - nodes // 125)
    return max(100, nodes * percentage // 100)


def interleaved(nodes: Sequence[NodeView]) -> list[NodeView]:
    """Sort nodes by name and interleave their zones, so that any slice of the list covers all zones."""
    zones: dict[str, list[NodeView]] = {}
    for node in sorted(nodes, key=lambda view: (view.zone, view.name)):
        zones.setdefault(node.zone, []).append(node)
    longest = max((len(zone) for zone in zones.values()), default=0)
    return [zone[place] for place in range(longest) for zone in zones.values() if place < len(zone)]
