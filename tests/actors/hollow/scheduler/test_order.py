"""Unassigned pods are tried in the order of their priorities."""

from __future__ import annotations

import math

import pytest

from kcm.actors.hollow.scheduler import watches
from kcm.actors.hollow.scheduler.watches import scheduler_watches, scheduling_priority
from kcm.actors.reconciliation import Change
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.resources import NODES, PODS, Resource
from tests.actors.hollow.objects import bench, bound, hollow_node, nodes, unassigned

PRIORITY_CLASSES = Resource(
    group="scheduling.k8s.io", version="v1", plural="priorityclasses", kind="PriorityClass", namespaced=False
)
CPU = {"cpu": "20"}  # more than half of a node


def waiting(name: str, priority: int | None) -> Object:
    return unassigned(name, requests=CPU) if priority is None else unassigned(name, requests=CPU, priority=priority)


@pytest.mark.parametrize(
    ("pod", "priority"),
    [
        (waiting("web", 7), 7),
        (waiting("web", -1), -1),
        (waiting("web", None), 0),
        (bound("web", priority=7), math.inf),  # accounted before others are tried
        ({**waiting("web", 7), "status": {"phase": "Failed"}}, math.inf),
        (None, math.inf),
    ],
)
def test_priority_of_a_pod(pod: Object | None, priority: float) -> None:
    world = bench(pods=() if pod is None else [pod], nodes=nodes())
    assert scheduling_priority("default/web", world.tables) == priority


def test_highest_priorities_are_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "MOST_WOKEN", 2)
    pods = [waiting("low", 1), waiting("high", 9), waiting("none", None), waiting("mid", 5)]
    world = bench(pods=pods, nodes=nodes())
    change = Change(type="ADDED", key="n", raw=encode_object(hollow_node()), controller=None)
    (watch,) = [watch for watch in scheduler_watches() if watch.resource == NODES]
    assert list(watch.to(change, world.tables)) == ["default/high", "default/mid"]


@pytest.mark.parametrize("order", [("low", "mid", "high"), ("high", "low", "mid"), ("mid", "high", "low")])
def test_pods_are_bound_in_the_order_of_their_priorities(cluster: SimulatedCluster, order: tuple[str, ...]) -> None:
    cluster.hollow_nodes(nodes=1)
    cluster.run_for(5.0)
    for name, value in {"low": 1, "mid": 5, "high": 9, "first": 1000}.items():
        cluster.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
    for name in ("first", *order):
        cluster.create(PODS, unassigned(name, requests=CPU, priorityClassName=name))
        cluster.run_for(5.0)
    cluster.run_for(60.0)

    def running() -> str:
        names = [pod["metadata"]["name"] for pod in cluster.list(PODS) if pod["spec"].get("nodeName")]
        return names[0] if len(names) == 1 else ""

    for deleted, expected in (("first", "high"), ("high", "mid"), ("mid", "low")):
        cluster.delete(PODS, f"default/{deleted}")
        assert cluster.run_until(lambda: running() not in ("", deleted), within=60.0)  # noqa: B023
        assert running() == expected
        cluster.run_for(30.0)
