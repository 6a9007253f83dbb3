"""Page /graph of the garbage collector: the owner graph.

Source of the cases: kubernetes v1.36 pkg/controller/garbagecollector/dump_test.go. Its cases of single nodes without
references ("drop-no-ref") and of owners that are not in the graph ("missing") are tested with a simulated cluster.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from structlog.typing import FilteringBoundLogger

from kcm.actors.controllers.apimachinery.garbage_collector.graph import (
    CONTENT_TYPE,
    Graph,
    GraphNode,
    connected_subgraph,
    dot,
)
from kcm.actors.reconciliation.actor_names import controller_name
from kcm.protocols.messages.debug_pages import PageShown, ShowPage
from kcm.protocols.objects import Object, uid_of
from kcm.protocols.resources import PODS
from tests.actors.controllers.apimachinery.garbage_collector.test_in_a_cluster import CONFIGMAPS, NAME, NODES, Family

TWO_CHAINS = Graph(
    [GraphNode(uid) for uid in ("alpha", "bravo", "charlie", "delta", "foxtrot", "golf")],
    [("alpha", "bravo"), ("alpha", "charlie"), ("delta", "foxtrot"), ("foxtrot", "golf")],
)
FIRST, SECOND = ["alpha", "bravo", "charlie"], ["delta", "foxtrot", "golf"]


@pytest.mark.parametrize(
    ("uids", "nodes", "edges"),
    [
        (["bravo"], FIRST, TWO_CHAINS.edges[:2]),
        (["golf"], SECOND, TWO_CHAINS.edges[2:]),
        (["delta"], SECOND, TWO_CHAINS.edges[2:]),
        (["delta", "foxtrot", "delta"], SECOND, TWO_CHAINS.edges[2:]),
        (["delta", "charlie"], FIRST + SECOND, TWO_CHAINS.edges),
        (["echo"], [], []),
        (["echo", "alpha"], FIRST, TWO_CHAINS.edges[:2]),
    ],
)
def test_graph_around_uids_contains_the_connected_objects(
    uids: list[str], nodes: list[str], edges: list[tuple[str, str]]
) -> None:
    around = connected_subgraph(TWO_CHAINS, uids)
    assert ([node.uid for node in around.nodes], around.edges) == (nodes, edges)


def test_cycle_is_visited_once() -> None:
    circle = Graph([GraphNode("a"), GraphNode("b")], [("a", "b"), ("b", "a")])
    assert connected_subgraph(circle, ["a"]) == circle


def test_graph_without_objects() -> None:
    assert dot(Graph([], [])) == "strict digraph full {\n}\n"


def test_text_is_quoted_as_in_go() -> None:
    uid = 'ref1-[]"\\Iñtërnâtiônàlizætiøn,🐹'
    odd = GraphNode(uid, "ref1group", "version", "ref1kind", "ref1ns", "ref1name\n\x01")
    other = GraphNode("ref2-", "", "v1", "ref2kind", missing=True, being_deleted=True, deleting_dependents=True)
    quoted = r'"ref1-[]\"\\Iñtërnâtiônàlizætiøn,🐹"'
    assert dot(Graph([odd, other], [(uid, "ref2-")])).split("\n") == [
        "strict digraph full {",
        "  // Node definitions.",
        f"  {quoted} [",
        f'    label="uid={quoted[1:-1]}\\nnamespace=ref1ns\\nref1kind.version.ref1group/ref1name\\n\\x01\\n"',
        '    group="ref1group"',
        '    version="version"',
        '    kind="ref1kind"',
        '    namespace="ref1ns"',
        '    name="ref1name\\n\\x01"',
        f"    uid={quoted}",
        '    missing="false"',
        '    beingDeleted="false"',
        '    deletingDependents="false"',
        '    virtual="false"',
        "  ];",
        '  "ref2-" [',
        '    label="uid=ref2-\\nnamespace=\\nref2kind.v1/\\nbeingDeleted,deletingDependents,missingFromGraph\\n"',
        '    group=""',
        '    version="v1"',
        '    kind="ref2kind"',
        '    namespace=""',
        '    name=""',
        '    uid="ref2-"',
        '    missing="true"',
        '    beingDeleted="true"',
        '    deletingDependents="true"',
        '    virtual="false"',
        "  ];",
        "  // Edge definitions.",
        f'  {quoted} -> "ref2-";',
        "}",
        "",
    ]


@pytest.fixture
def family(log: FilteringBoundLogger) -> Family:
    return Family(log)


def shown(family: Family, path: str = "/graph", **query: list[str]) -> PageShown:
    page: PageShown = family.cluster.world.ask(family.system.actors, controller_name(NAME), ShowPage(path, dict(query)))
    return page


def graph(page: PageShown) -> tuple[dict[str, dict[str, str]], list[tuple[str, str]]]:
    """Return the nodes by name, without label and uid, and the edges as pairs of names."""
    assert (page.found, page.content_type) == (True, CONTENT_TYPE)
    text = page.body.decode()
    blocks = re.findall(r"\[\n(.*?)\n  \];", text, re.DOTALL)
    nodes = [dict(re.findall(r'^    (\w+)="(.*)"$', block, re.MULTILINE)) for block in blocks]
    names = {node["uid"]: node["name"] for node in nodes}
    arrows = re.findall(r'^  "(.*)" -> "(.*)";$', text, re.MULTILINE)
    edges = sorted((names[tail], names[other]) for tail, other in arrows)
    left_out = ("label", "uid", "name")
    return {node["name"]: {k: v for k, v in node.items() if k not in left_out} for node in nodes}, edges


def node(kind: str, group: str = "", namespace: str = "default", **states: bool) -> dict[str, str]:
    found = {"group": group, "version": "v1", "kind": kind, "namespace": namespace}
    for state in ("missing", "beingDeleted", "deletingDependents", "virtual"):
        found[state] = "true" if states.get(state) else "false"
    return found


def test_only_owners_and_dependents_are_shown(family: Family) -> None:
    family.generations()
    nodes, edges = graph(shown(family))
    assert nodes == {
        "d": node("Deployment", "apps"),
        "rs": node("ReplicaSet", "apps"),
        "p": node("Pod"),
        "q": node("Pod"),
    }
    assert edges == [("p", "rs"), ("q", "rs"), ("rs", "d")]


def test_only_objects_connected_with_the_uids_are_shown(family: Family) -> None:
    family.generations()
    owner = family.make(CONFIGMAPS, "owner")
    child = family.make(CONFIGMAPS, "child", owner)
    family.settle()
    assert graph(shown(family, uid=[uid_of(child)]))[1] == [("child", "owner")]
    nobodys = family.meta(PODS, "nobodys")["uid"]
    assert graph(shown(family, uid=["nothing", nobodys])) == ({}, [])
    both = [uid_of(owner), family.meta(PODS, "p")["uid"]]
    assert len(graph(shown(family, uid=both))[0]) == 6


def test_foreground_deletion_is_shown(family: Family) -> None:
    owner = family.make(CONFIGMAPS, "owner")
    family.make(CONFIGMAPS, "child", owner, finalizers=["example.com/hold"])
    family.settle()
    family.delete(CONFIGMAPS, "owner", "Foreground")
    nodes, _ = graph(shown(family))
    assert nodes == {
        "owner": node("ConfigMap", beingDeleted=True, deletingDependents=True),
        "child": node("ConfigMap", beingDeleted=True),
    }


def test_owners_outside_of_the_tables(family: Family) -> None:
    """An owner of a kind that is not served may exist; an owner that the server does not find is absent."""
    ghost = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ghost", "uid": "ghost-uid"}}
    odd: Object = {"apiVersion": "odd.io/v1", "kind": "Odd", "metadata": {"name": "odd", "uid": "odd-uid"}}
    family.make(CONFIGMAPS, "child", ghost, odd)
    family.settle()
    nodes, edges = graph(shown(family))
    assert edges == [("child", "ghost"), ("child", "odd")]
    assert nodes["odd"] == node("Odd", "odd.io", virtual=True)
    assert nodes["ghost"] in (node("ConfigMap", virtual=True), node("ConfigMap", namespace="", missing=True))


def test_cluster_scoped_owner_is_shown(family: Family) -> None:
    owner = family.make(NODES, "n")
    family.make(CONFIGMAPS, "child", owner)
    family.settle()
    assert graph(shown(family))[0]["n"] == node("Node", namespace="")


@pytest.mark.parametrize("path", ["", "/", "/graph/", "/other"])
def test_unknown_debug_path_returns_no_page(family: Family, path: str) -> None:
    assert shown(family, path) == PageShown(False)


def test_labels_are_upstreams(family: Family) -> None:
    """Labels of nodes are upstream's, because scripts may depend on them."""
    family.generations()
    found: Any = family.meta(PODS, "p")
    text = shown(family).body.decode()
    assert f'    label="uid={found["uid"]}\\nnamespace=default\\nPod.v1/p\\n"' in text
