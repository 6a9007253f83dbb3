"""Inter-pod affinity and topology spread as filters and scores: cases of upstream's tables.

Source: kubernetes v1.36 pkg/scheduler/framework/plugins/{interpodaffinity,podtopologyspread}/*_test.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kcm.actors.hollow.scheduler.demand import demand_of
from kcm.actors.hollow.scheduler.neighbours import (
    NO_DOMAIN,
    NOT_ATTRACTED,
    NOT_SPREAD,
    REPELLED,
    REPELLED_BY_OTHERS,
    Neighbours,
)
from kcm.actors.hollow.scheduler.node_fit import NodeView, node_view, preferences
from kcm.actors.hollow.scheduler.placements import Placement, Placements
from kcm.protocols.objects import Object, key_of
from kcm.protocols.pods import pod_facts
from tests.actors.hollow.objects import deleted

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NAMESPACES = {"default": {}, "other": {"team": "blue"}}
# Two zones; node-a and node-b are in zone-1, node-x in zone-2. node-z has no zone.
PLACES = {"node-a": "zone-1", "node-b": "zone-1", "node-x": "zone-2", "node-z": ""}


def node(name: str, **spec: Any) -> NodeView:
    labels = {"kubernetes.io/hostname": name}
    if PLACES.get(name):
        labels["zone"] = PLACES[name]
    return node_view({"metadata": {"name": name, "labels": labels}, "spec": spec})


NODES = {name: node(name) for name in PLACES}


def pod(name: str = "new", *, namespace: str = "default", on: str = "", app: str = "web", **spec: Any) -> Object:
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": app}},
        "spec": {"containers": [], "nodeName": on, **spec},
    }


def neighbours(new: Object, *others: Object, nodes: Mapping[str, NodeView] = NODES) -> Neighbours:
    placements, facts = Placements(), {key_of(other): pod_facts(other) for other in others}
    for other in others:
        demand = demand_of(other, controller=None)
        placements.put(key_of(other), Placement("", other["spec"]["nodeName"], demand, assumed=False))
    return Neighbours(
        new,
        demand_of(new, controller=None),
        placements,
        facts=facts.get,
        nodes=nodes.get,
        all_nodes=list(nodes.values()),
        namespace_labels=lambda name: NAMESPACES[name],
    )


def term(app: str = "web", topology: str = "zone", **fields: Any) -> Object:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": topology, **fields}


def near(*terms: Object) -> Object:
    return {"affinity": {"podAffinity": {REQUIRED: list(terms)}}}


def away(*terms: Object) -> Object:
    return {"affinity": {"podAntiAffinity": {REQUIRED: list(terms)}}}


def spread(*, skew: int = 1, topology: str = "zone", app: str = "web", **fields: Any) -> Object:
    return {
        "maxSkew": skew,
        "topologyKey": topology,
        "labelSelector": {"matchLabels": {"app": app}},
        "whenUnsatisfiable": "DoNotSchedule",
        **fields,
    }


def spreading(*constraints: Object, **spec: Any) -> Object:
    return pod(topologySpreadConstraints=list(constraints), **spec)


# Affinity: the new pod, the pods on nodes, and the reasons of node-a, node-b, node-x and node-z.
FITS = ""
AFFINITY = {
    "pods of the same zone attract": (
        pod(app="new", **near(term())),
        [pod("p", on="node-a")],
        (FITS, FITS, NOT_ATTRACTED, NOT_ATTRACTED),
    ),
    "pods of another namespace do not": (
        pod(app="new", **near(term())),
        [pod("p", on="node-a", namespace="other")],
        (NOT_ATTRACTED,) * 4,
    ),
    "unless the term names it": (
        pod(app="new", **near(term(namespaces=["other"]))),
        [pod("p", on="node-x", namespace="other")],
        (NOT_ATTRACTED, NOT_ATTRACTED, FITS, NOT_ATTRACTED),
    ),
    "or selects it by its labels": (
        pod(app="new", **near(term(namespaceSelector={"matchLabels": {"team": "blue"}}))),
        [pod("p", on="node-x", namespace="other"), pod("q", on="node-a")],
        (NOT_ATTRACTED, NOT_ATTRACTED, FITS, NOT_ATTRACTED),
    ),
    "one pod must match all terms": (
        pod(app="new", **near(term("web"), term("db", "kubernetes.io/hostname"))),
        [pod("p", on="node-a"), pod("q", on="node-b", app="db")],
        (NOT_ATTRACTED,) * 4,
    ),
    "the first pod with an affinity to itself may be placed where the topology exists": (
        pod(**near(term())),
        [],
        (FITS, FITS, FITS, NOT_ATTRACTED),
    ),
    "but not a later one": (
        pod(**near(term())),
        [pod("p", on="node-x")],
        (NOT_ATTRACTED, NOT_ATTRACTED, FITS, NOT_ATTRACTED),
    ),
    "anti-affinity excludes the zone": (
        pod(**away(term())),
        [pod("p", on="node-a")],
        (REPELLED, REPELLED, FITS, FITS),
    ),
    "anti-affinity excludes the node": (
        pod(**away(term(topology="kubernetes.io/hostname"))),
        [pod("p", on="node-a")],
        (REPELLED, FITS, FITS, FITS),
    ),
    "each term of an anti-affinity excludes": (
        pod(**away(term("db"), term("web", "kubernetes.io/hostname"))),
        [pod("p", on="node-a", app="db"), pod("q", on="node-x")],
        (REPELLED, REPELLED, REPELLED, FITS),
    ),
    "the anti-affinity of a pod on a node excludes others": (
        pod(),
        [pod("p", on="node-a", app="db", **away(term()))],
        (REPELLED_BY_OTHERS, REPELLED_BY_OTHERS, FITS, FITS),
    ),
    "but not those that it does not select": (
        pod(app="new"),
        [pod("p", on="node-a", **away(term()))],
        (FITS,) * 4,
    ),
    "a term without a selector matches nothing": (
        pod(**away({"topologyKey": "zone"})),
        [pod("p", on="node-a")],
        (FITS,) * 4,
    ),
}


def reasons(around: Neighbours, nodes: Mapping[str, NodeView] = NODES) -> tuple[str, ...]:
    return tuple("".join(around.misfits(view)) for view in nodes.values())


@pytest.mark.parametrize("case", AFFINITY)
def test_affinity_between_pods_restricts_nodes(case: str) -> None:
    new, others, expected = AFFINITY[case]
    assert reasons(neighbours(new, *others)) == expected


PER_NODE = spread(topology="kubernetes.io/hostname")
SPREAD: Mapping[str, tuple[Object, Sequence[Object], tuple[str, ...]]] = {
    "the fuller zone is excluded": (
        spreading(spread()),
        [pod("p", on="node-a")],
        (NOT_SPREAD, NOT_SPREAD, FITS, NO_DOMAIN),
    ),
    "a larger skew is allowed": (
        spreading(spread(skew=2)),
        [pod("p", on="node-a")],
        (FITS, FITS, FITS, NO_DOMAIN),
    ),
    "pods of another namespace and deleted pods do not count": (
        spreading(spread()),
        [pod("p", on="node-a", namespace="other"), deleted(pod("q", on="node-b"))],
        (FITS, FITS, FITS, NO_DOMAIN),
    ),
    "a pod that does not select itself does not raise the skew": (
        spreading(spread(app="db"), app="web"),
        [pod("p", on="node-a", app="db")],
        (FITS, FITS, FITS, NO_DOMAIN),
    ),
    "with too few domains the least number is 0": (
        spreading(spread(minDomains=3)),
        [pod("p", on="node-a"), pod("q", on="node-x")],
        (NOT_SPREAD, NOT_SPREAD, NOT_SPREAD, NO_DOMAIN),
    ),
    "all constraints must be satisfied": (
        spreading(spread(), PER_NODE),
        [pod("p", on="node-a"), pod("q", on="node-x"), pod("r", on="node-x")],
        (NOT_SPREAD, FITS, NOT_SPREAD, NO_DOMAIN),
    ),
    "nodes that the node selector excludes do not count": (
        spreading(spread(), nodeSelector={"zone": "zone-1"}),
        [pod("p", on="node-a")],
        (FITS, FITS, FITS, NO_DOMAIN),
    ),
    "unless the constraint ignores it": (
        spreading(spread(nodeAffinityPolicy="Ignore"), nodeSelector={"zone": "zone-1"}),
        [pod("p", on="node-a")],
        (NOT_SPREAD, NOT_SPREAD, FITS, NO_DOMAIN),
    ),
    "a constraint that need not be satisfied excludes nothing": (
        spreading(spread(whenUnsatisfiable="ScheduleAnyway")),
        [pod("p", on="node-a")],
        (FITS,) * 4,
    ),
}


@pytest.mark.parametrize("case", SPREAD)
def test_topology_spread_constraints_restrict_nodes(case: str) -> None:
    new, others, expected = SPREAD[case]
    assert reasons(neighbours(new, *others)) == expected


def test_taints_exclude_nodes_from_the_count_only_if_the_constraint_honors_them() -> None:
    tainted = {**NODES, "node-x": node("node-x", taints=[{"key": "k", "effect": "NoSchedule"}])}
    others = [pod("p", on="node-a")]
    ignored = reasons(neighbours(spreading(spread()), *others, nodes=tainted), tainted)
    assert ignored[:2] == (NOT_SPREAD, NOT_SPREAD)
    honored = reasons(neighbours(spreading(spread(nodeTaintsPolicy="Honor")), *others, nodes=tainted), tainted)
    assert honored[:2] == (FITS, FITS)


def test_removed_pods_are_not_counted() -> None:
    others = [pod("p", on="node-a"), pod("q", on="node-a", app="db", **away(term()))]
    for new in (pod(**away(term())), spreading(spread())):
        around = neighbours(new, *others)
        assert around.misfits(NODES["node-a"])
        assert around.misfits(NODES["node-a"], ["default/q"])[0] in (REPELLED, NOT_SPREAD)
        assert around.misfits(NODES["node-a"], ["default/p", "default/q"]) == ()
        assert around.misfits(NODES["node-a"])


def weighted(kind: str, weight: int, **fields: Any) -> Object:
    return {"affinity": {kind: {PREFERRED: [{"weight": weight, "podAffinityTerm": term(**fields)}]}}}


FIRST = [NODES["node-a"], NODES["node-b"], NODES["node-x"]]


@pytest.mark.parametrize(
    ("new", "other", "expected"),
    [
        (pod(**weighted("podAffinity", 5)), pod("p", on="node-a"), [1, 1, 0]),
        (pod(**weighted("podAntiAffinity", 5)), pod("p", on="node-a"), [0, 0, 1]),
        (pod(), pod("p", on="node-a", **weighted("podAntiAffinity", 5)), [0, 0, 1]),
        (pod(), pod("p", on="node-a", **near(term())), [1, 1, 0]),
        (pod(app="new"), pod("p", on="node-a", **near(term())), None),
        (pod(**weighted("podAffinity", 5)), pod("p", on="node-a", app="db"), None),
    ],
)
def test_preferred_affinity_between_pods_scores_nodes(new: Object, other: Object, expected: list[int] | None) -> None:
    assert neighbours(new, other).affinity_scores(FIRST) == expected


@pytest.mark.parametrize(
    ("constraint", "pods", "expected"),
    [
        (spread(), ["node-a"], None),
        (spread(whenUnsatisfiable="ScheduleAnyway"), [], [1, 1, 1]),
        (spread(whenUnsatisfiable="ScheduleAnyway"), ["node-a"], [0, 0, 1]),
        (spread(whenUnsatisfiable="ScheduleAnyway"), ["node-a", "node-b", "node-x"], [1 / 3, 1 / 3, 1]),
        (spread(whenUnsatisfiable="ScheduleAnyway", topology="kubernetes.io/hostname"), ["node-a"], [0, 1, 1]),
    ],
)
def test_spread_scores_prefer_domains_with_fewer_pods(
    constraint: Object, pods: Sequence[str], expected: list[float] | None
) -> None:
    others = [pod(f"p{number}", on=place) for number, place in enumerate(pods)]
    scores = neighbours(spreading(constraint), *others).spread_scores(FIRST)
    assert scores == (None if expected is None else pytest.approx(expected, abs=0.01))


def test_preferred_nodes_and_untainted_nodes_have_higher_scores() -> None:
    soft = {"key": "k", "effect": "PreferNoSchedule"}
    nodes = [node("node-a", taints=[soft]), node("node-b"), node("node-x")]
    preference = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["zone-2"]}]}
    chosen = {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 10, "preference": preference}]}}}
    assert preferences(demand_of(pod(**chosen), controller=None), nodes) == [0.0, 3.0, 5.0]
    tolerant = pod(tolerations=[{"operator": "Exists"}])
    assert preferences(demand_of(tolerant, controller=None), nodes) == [3.0, 3.0, 3.0]
    assert preferences(demand_of(pod(), controller=None), nodes[1:]) is None
