"""Tests of the TTL annotation of nodes, which depends on the size of the cluster."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm.actors.controllers.nodes.ttl import ANNOTATION, SPEC, TTL_BOUNDARIES, boundary_for
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import annotations_of, decode_object
from kcm.protocols.resources import NODES
from tests.actors.controllers.nodes.objects import writes
from tests.support.objects import node


@pytest.mark.parametrize(
    ("before", "seconds_before", "after", "seconds"),
    [
        (0, 0, 1, 0),
        (99, 0, 100, 0),
        (100, 0, 101, 15),
        (101, 15, 100, 15),
        (91, 15, 90, 15),
        (91, 15, 92, 15),
        (90, 15, 89, 0),
        (500, 15, 501, 30),
        (450, 30, 449, 15),
        (1000, 30, 1001, 60),
        (900, 60, 899, 30),
        (2000, 60, 2001, 300),
        (1800, 300, 1799, 60),
        (10000, 300, 9999, 300),
        (0, 0, 5000, 300),
        (5000, 300, 0, 0),
    ],
)
def test_boundary_changes_only_beyond_its_limits(before: int, seconds_before: int, after: int, seconds: int) -> None:
    current = [boundary.ttl_seconds for boundary in TTL_BOUNDARIES].index(seconds_before)
    assert TTL_BOUNDARIES[current].size_min <= before <= TTL_BOUNDARIES[current].size_max
    assert TTL_BOUNDARIES[boundary_for(after, current=current)].ttl_seconds == seconds


@given(st.integers(0, 20_000), st.integers(0, len(TTL_BOUNDARIES) - 1))
def test_boundary_always_includes_the_number_of_nodes(nodes: int, current: int) -> None:
    boundary = boundary_for(nodes, current=current)
    assert TTL_BOUNDARIES[boundary].size_min <= nodes <= TTL_BOUNDARIES[boundary].size_max
    assert boundary_for(nodes, current=boundary) == boundary


def annotate(cluster: SimulatedCluster, value: str | None) -> None:
    cluster.merge(NODES, "n1", {"metadata": {"annotations": {ANNOTATION: value}}})


def patches(cluster: SimulatedCluster) -> list[tuple[str, object]]:
    return [(write.what, write.body) for write in writes(cluster, client="ttl-controller")]


def wanted(seconds: int) -> object:
    return {"metadata": {"annotations": {ANNOTATION: str(seconds)}}}


@pytest.mark.parametrize(
    ("annotations", "patched"),
    [
        ({}, True),
        ({"mine": "x"}, True),
        ({ANNOTATION: "30"}, True),
        ({ANNOTATION: "soon"}, True),
        ({ANNOTATION: ""}, True),
        ({ANNOTATION: "7" * 4301}, True),
        ({ANNOTATION: "0"}, False),
        ({ANNOTATION: "000"}, False),
    ],
)
def test_node_is_patched_if_its_annotation_differs(
    cluster: SimulatedCluster, annotations: dict[str, str], patched: bool
) -> None:
    cluster.create(NODES, {"metadata": {"name": "n1", "annotations": annotations}})
    cluster.manager(controllers=[SPEC])
    cluster.run_for(10.0)
    assert patches(cluster) == ([("PATCH nodes/n1", wanted(0))] if patched else [])


def test_growth_of_the_cluster_patches_each_node_at_its_next_change(cluster: SimulatedCluster) -> None:
    cluster.manager(controllers=[SPEC])
    for number in range(100):
        cluster.create(NODES, node(f"n{number}"))
    cluster.run_for(30.0)
    assert len(patches(cluster)) == 100
    cluster.create(NODES, node("last"))
    cluster.run_for(30.0)
    assert patches(cluster)[100:] == [("PATCH nodes/last", wanted(15))], "other nodes are patched at their next change"
    cluster.merge(NODES, "n7", {"metadata": {"labels": {"changed": "yes"}}})
    cluster.run_for(5.0)
    assert patches(cluster)[101:] == [("PATCH nodes/n7", wanted(15))]

    for number in range(50, 61):
        cluster.delete(NODES, f"n{number}")
    cluster.run_for(5.0)
    cluster.merge(NODES, "n8", {"metadata": {"labels": {"changed": "yes"}}})
    cluster.run_for(5.0)
    assert patches(cluster)[102:] == [("PATCH nodes/n8", wanted(15))], "90 nodes are within the boundary"
    cluster.delete(NODES, "n70")
    cluster.merge(NODES, "n8", {"metadata": {"labels": {"changed": "again"}}})
    cluster.run_for(5.0)
    assert patches(cluster)[103:] == [("PATCH nodes/n8", wanted(0))]


def test_concurrently_deleted_node_is_ignored(cluster: SimulatedCluster) -> None:
    manager = cluster.manager(controllers=[SPEC])
    cluster.run_for(3.0)
    cluster.create(NODES, node())
    cluster.run_until(lambda: bool(patches(cluster)))
    annotate(cluster, "7")
    cluster.delete(NODES, "n1")
    cluster.run_for(30.0)
    assert cluster.describe(manager, "controller:ttl-controller")["failed"] == 0


def test_other_annotations_are_kept(cluster: SimulatedCluster) -> None:
    cluster.create(NODES, {"metadata": {"name": "n1", "annotations": {"mine": "x"}}})
    cluster.manager(controllers=[SPEC])
    cluster.run_for(5.0)
    found = cluster.get(NODES, "n1")
    assert found is not None
    assert annotations_of(found) == {"mine": "x", ANNOTATION: "0"}
    bodies = [request.body for _, _, request in cluster.transport.requests if request.method == "PATCH"]
    assert all("mine" not in str(decode_object(body)) for body in bodies)
