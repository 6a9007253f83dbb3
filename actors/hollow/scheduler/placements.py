"""Nodes of all scheduled pods, and the resources in use on each node, updated with each change of a pod.

A pod is counted from its binding on, before a table shows the binding (`assumed`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from kcm.actors.hollow.scheduler.demand import Demand
from kcm.actors.hollow.scheduler.node_fit import NodeUsage
from kcm.protocols.objects import Key

_NOBODY: Mapping[str, int] = {}
_SPARE = 1000  # shared Demands that are kept beyond those of twice the placed pods


class Placement(NamedTuple):
    """Placement of a pod. assumed: the scheduler has bound the pod, but the table does not show the binding yet."""

    uid: str
    node: str
    demand: Demand
    assumed: bool


class Placements:
    """Placements of all pods.

    usages: by node, also of nodes that no longer have pods.
    claims: number of pods by claim, on all nodes.
    releases: number of times that resources were released.
    with_terms: pods that scheduling must consider because of their affinity to other pods, or against them.
    """

    def __init__(self) -> None:
        self.usages: dict[str, NodeUsage] = {}
        self.claims: Counter[Key] = Counter()
        self.releases = 0
        self.with_terms: dict[Key, None] = {}
        self._placed: dict[Key, Placement] = {}
        self._owned: dict[str, dict[str, int]] = {}  # by owner's uid: pods by node
        self._demands: dict[Demand, Demand] = {}

    def get(self, pod: Key) -> Placement | None:
        return self._placed.get(pod)

    def all_keys(self) -> Iterable[Key]:
        return self._placed

    def siblings(self, owner: str) -> Mapping[str, int]:
        """Count the pods of this owner on each node."""
        return self._owned.get(owner, _NOBODY) if owner else _NOBODY

    def put(self, pod: Key, placement: Placement) -> None:
        """Record the placement of this pod, in place of an earlier one."""
        placement = placement._replace(demand=self.shared(placement.demand))
        if placement.demand.terms_about_pods.concern_pods:
            self.with_terms[pod] = None
        known = self._placed.get(pod)
        if known is not None:
            if known.node == placement.node and known.demand is placement.demand:
                self._placed[pod] = placement
                return
            self._count(known, -1)
            self.releases += 1
        self._placed[pod] = placement
        self._count(placement, 1)

    def remove(self, pod: Key) -> None:
        known = self._placed.pop(pod, None)
        if known is not None:
            self.with_terms.pop(pod, None)
            self._count(known, -1)
            self.releases += 1

    def below(self, priority: int, nodes: Collection[str]) -> dict[str, list[tuple[Key, Demand]]]:
        """Return the pods of lower priority on these nodes."""
        found: dict[str, list[tuple[Key, Demand]]] = {}
        for key, placement in self._placed.items():
            if placement.demand.priority < priority and placement.node in nodes:
                found.setdefault(placement.node, []).append((key, placement.demand))
        return found

    def shared(self, demand: Demand) -> Demand:
        """Return an equal Demand, the same object for equal arguments, to save memory."""
        if len(self._demands) > 2 * len(self._placed) + _SPARE:
            self._demands = {}  # most belong to deleted pods
        return self._demands.setdefault(demand, demand)

    def _count(self, placement: Placement, times: int) -> None:
        usage = self.usages.get(placement.node)
        if usage is None:
            usage = self.usages[placement.node] = NodeUsage()
        usage.add(placement.demand, times)
        for claim in placement.demand.claims:
            self.claims[claim] += times
            if not self.claims[claim]:
                del self.claims[claim]
        if owner := placement.demand.owner:
            nodes = self._owned.setdefault(owner, {})
            nodes[placement.node] = nodes.get(placement.node, 0) + times
            if not nodes[placement.node]:
                del nodes[placement.node]
                if not nodes:
                    del self._owned[owner]


class Nomination(NamedTuple):
    """Node that is reserved for an unassigned pod, because pods were preempted there for it."""

    uid: str
    node: str
    demand: Demand


class Nominations:
    """Nominations of all unassigned pods. A pod with a lower priority does not get the reserved resources."""

    def __init__(self) -> None:
        self._known: dict[Key, Nomination] = {}

    def __bool__(self) -> bool:
        return bool(self._known)

    def get(self, pod: Key, uid: str) -> Nomination | None:
        known = self._known.get(pod)
        return known if known is not None and known.uid == uid else None

    def put(self, pod: Key, nomination: Nomination) -> None:
        self._known[pod] = nomination

    def remove(self, pod: Key) -> None:
        self._known.pop(pod, None)

    def usage(self, node: str, usage: NodeUsage, pod: Key, demand: Demand) -> NodeUsage:
        """Return the usage of a node together with the nominated pods that take precedence over this pod."""
        if not self._known:
            return usage
        added: NodeUsage | None = None
        for key, nomination in self._known.items():
            if nomination.node == node and key != pod and nomination.demand.priority >= demand.priority:
                added = usage.copy() if added is None else added
                added.add(nomination.demand)
        return usage if added is None else added

    def below(self, priority: int, node: str) -> list[Key]:
        """Return the pods of lower priority that are nominated to a node."""
        return [
            key
            for key, nomination in self._known.items()
            if nomination.node == node and nomination.demand.priority < priority
        ]
