from __future__ import annotations

import json
from typing import Any

import pytest

from kcm.actors.console.cluster import MOST_POINT_ROWS, POINTS_OF_ROW, PodsTopic, pod_counts, rollout_row
from kcm.protocols.pods import pod_facts
from kcm.protocols.resources import DEPLOYMENTS, PODS
from kcm.runtime.tables.table import Table
from tests.runtime.serving.conftest import FixedClock


def table_of(resource: Any, *objects: dict[str, Any], derive: Any = None) -> Table:
    table = Table(resource, derive=derive)
    writer = table.claim()
    writer.replace([table.make_entry(obj, json.dumps(obj, separators=(",", ":")).encode()) for obj in objects], 10)
    return table


def pod(name: str, *, phase: str = "Running", ready: str = "True", deleting: bool = False) -> dict[str, Any]:
    meta = {"namespace": "shop", "name": name, "uid": name, "resourceVersion": "5"}
    if deleting:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": meta, "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}}


def deployment(*, replicas: int | None, generation: int = 2, **status: int) -> dict[str, Any]:
    spec = {} if replicas is None else {"replicas": replicas}
    meta = {"namespace": "shop", "name": "web", "uid": "u", "resourceVersion": "7", "generation": generation}
    return {"metadata": meta, "spec": spec, "status": status}


def test_each_pod_is_counted_in_one_state() -> None:
    pods = [
        pod("a"),
        pod("b", phase="Pending", ready="False"),
        pod("c", deleting=True),
        pod("d", phase="Failed", ready="False"),
        pod("e", ready="False"),
    ]
    assert pod_counts(table_of(PODS, *pods, derive=pod_facts).entries()) == [5, 1, 1, 1, 1]


@pytest.mark.parametrize(
    "obj, done",
    [
        (deployment(replicas=2, observedGeneration=2, updatedReplicas=2, availableReplicas=2), True),
        (deployment(replicas=2, observedGeneration=1, updatedReplicas=2, availableReplicas=2), False),
        (deployment(replicas=2, observedGeneration=2, updatedReplicas=1, availableReplicas=2), False),
        (deployment(replicas=None, observedGeneration=2, updatedReplicas=1, availableReplicas=1), True),
        (deployment(replicas=0, observedGeneration=2), True),
    ],
)
def test_rollout_is_done_when_all_replicas_are_new_and_available(obj: dict[str, Any], *, done: bool) -> None:
    (entry,) = table_of(DEPLOYMENTS, obj).entries()
    assert rollout_row("Deployment", entry)["done"] is done


def test_samples_are_kept_in_rows_of_which_one_changes() -> None:
    tables = {PODS.id: table_of(PODS, pod("a"), derive=pod_facts)}
    topic = PodsTopic(tables, load=lambda: (3, 40), clock=FixedClock())
    rows = [dict(topic.sample()) for _ in range(POINTS_OF_ROW + 2)]
    assert list(rows[-1]) == ["points/000000000", "points/000000001"]
    assert len(rows[-1]["points/000000000"]) == POINTS_OF_ROW
    assert rows[-1]["points/000000001"][-1][1:] == [1, 1, 0, 0, 0, 3, 40]
    for _ in range((MOST_POINT_ROWS - 1) * POINTS_OF_ROW):
        last = topic.sample()
    assert (len(last), next(iter(last))) == (MOST_POINT_ROWS, "points/000000001")


def test_rollout_in_progress_comes_first() -> None:
    tables = {DEPLOYMENTS.id: table_of(DEPLOYMENTS, deployment(replicas=3, observedGeneration=2, updatedReplicas=1))}
    rows = PodsTopic(tables, load=lambda: (0, 0), clock=FixedClock()).sample()
    assert rows["rollout/Deployment/shop/web"] == {
        "kind": "Deployment",
        "namespace": "shop",
        "name": "web",
        "wanted": 3,
        "updated": 1,
        "ready": 0,
        "available": 0,
        "done": False,
    }
