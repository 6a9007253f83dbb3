"""Indexes that specs declare."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from kcm.actors.reconciliation.derived import NODE, PODS_BY_NODE, indexes_of, node_of
from kcm.actors.reconciliation.specs import ControllerSpec, Index
from kcm.protocols.objects import Object
from kcm.protocols.resources import NODES, PODS


def spec(name: str, *indexes: Index) -> ControllerSpec:
    return ControllerSpec(name=name, build=lambda _context: None, indexes=indexes)


def nowhere(_pod: Object) -> Iterable[str]:
    return ()


def test_equal_indexes_are_merged() -> None:
    again = Index(PODS, NODE, node_of)
    assert indexes_of([spec("a", PODS_BY_NODE), spec("b", again), spec("c")]) == {PODS.id: {NODE: node_of}}


def test_resources_have_namespaces_of_their_own() -> None:
    of_nodes = Index(NODES, NODE, nowhere)
    assert indexes_of([spec("a", PODS_BY_NODE, of_nodes)]) == {PODS.id: {NODE: node_of}, NODES.id: {NODE: nowhere}}


@pytest.mark.parametrize("other", [nowhere, lambda _pod: ("n1",)])
def test_different_indexes_with_one_name_are_refused_with_both_controllers(
    other: Callable[[Object], Iterable[str]],
) -> None:
    with pytest.raises(ValueError, match="a-controller and b-controller declare different indexes 'node' of"):
        indexes_of([spec("a-controller", PODS_BY_NODE), spec("b-controller", Index(PODS, NODE, other))])


@pytest.mark.parametrize(("pod", "node"), [({"spec": {"nodeName": "n1"}}, "n1"), ({"spec": {}}, ""), ({}, "")])
def test_pods_are_found_by_node_and_the_unassigned_under_nothing(pod: Object, node: str) -> None:
    assert tuple(node_of(pod)) == (node,)
