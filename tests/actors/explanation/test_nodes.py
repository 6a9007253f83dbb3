"""Causes of nodes that do not work, and of pods that stay on them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kcm.actors.explanation.evidence import Evidence
from kcm.actors.explanation.explain import explain
from kcm.protocols.objects import Key, Object
from kcm.protocols.resources import NODES, Resource
from tests.support.objects import node, stored

ZONE = "topology.kubernetes.io/zone"
NO_EXECUTE = [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]


class Nodes:
    """Reader with nodes only."""

    def __init__(self, nodes: Sequence[Object]) -> None:
        self._nodes = {node["metadata"]["name"]: node for node in nodes}

    def get(self, resource: Resource, key: Key) -> Object | None:
        return self._nodes.get(key) if resource == NODES else None

    def list(self, resource: Resource, namespace: str, *, labels: str, most: int) -> Sequence[Object]:
        del namespace, labels
        return list(self._nodes.values())[:most] if resource == NODES else ()

    def events(self, namespace: str, uid: str, *, most: int) -> Sequence[Object]:
        del namespace, uid, most
        return ()

    def find(self, group: str, kind: str) -> Resource | None:
        del group, kind
        return None


def machine(name: str, zone: str, *, ready: str = "True", tainted: bool = False) -> Object:
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    spec = {"taints": NO_EXECUTE} if tainted else {}
    return stored(node(name, labels={ZONE: zone}, spec=spec, status={"conditions": [condition]}), 1)


def lost(number: int, zone: str = "a") -> list[Object]:
    return [machine(f"{zone}{index}", zone, ready="Unknown") for index in range(number)]


def working(number: int, zone: str = "b") -> list[Object]:
    return [machine(f"{zone}{index}", zone) for index in range(number)]


@pytest.mark.parametrize(
    ("nodes", "codes"),
    [
        ([*lost(1), *working(3, "a")[1:]], ["node-lost", "eviction-rate"]),
        ([*lost(2)], ["node-lost", "zone-disruption"]),
        ([*lost(3), machine("a9", "a"), *working(3)], ["node-lost", "zone-disruption"]),
        ([*lost(3), *working(3)], ["node-lost", "eviction-rate"]),
        ([machine("a0", "a", ready="Unknown", tainted=True), *working(3)], ["node-lost"]),
        ([machine("a0", "a", ready="False"), *working(3)], ["node-not-ready", "eviction-rate"]),
        ([machine("a0", "a"), *working(3)], []),
    ],
)
def test_node_that_does_not_work_has_its_zone_as_a_further_cause(nodes: list[Object], codes: list[str]) -> None:
    now = 1767225600.0 + 300.0
    found = explain(NODES, "a0", Evidence(Nodes(nodes), now=now))
    assert [cause.code for cause in found.causes] == codes
