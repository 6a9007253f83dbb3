from __future__ import annotations

import json
from typing import Any

import pytest

from kcm.actors.console.faults import FaultBoard
from kcm.protocols.nodes import node_facts
from kcm.protocols.resources import NODES
from kcm.runtime.client.api import Request, Response
from kcm.runtime.faults.switches import SwitchedTransport
from kcm.runtime.serving.console.pages import RefusedError
from tests.actors.console.test_cluster import table_of
from tests.runtime.faults.test_switches import PODS, Server, SoonClock


def node(name: str, zone: str, *, silent: bool = False) -> dict[str, Any]:
    labels = {"topology.kubernetes.io/zone": zone}
    annotations = {"hollow.kcm.dev/silent": "true"} if silent else {}
    meta = {"name": name, "uid": name, "resourceVersion": "5", "labels": labels, "annotations": annotations}
    return {"metadata": meta, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}


@pytest.fixture
def asked() -> list[Request]:
    return []


@pytest.fixture
def board(asked: list[Request]) -> FaultBoard:
    def ask(request: Request) -> Response:
        asked.append(request)
        return Response(status=500 if request.path.endswith("/broken") else 200)

    nodes = [node("a", "east"), node("b", "east", silent=True), node("c", "west"), node("broken", "north")]
    clock: Any = SoonClock()
    switches = SwitchedTransport(Server(), clock=clock)
    switches.watch(PODS, client="x", on_lines=lambda _: None, on_end=lambda _: None)
    return FaultBoard({NODES.id: table_of(NODES, *nodes, derive=node_facts)}, ask, switches)


def annotated(asked: list[Request]) -> dict[str, str | None]:
    """Return the value of the annotation for silence that each node got."""
    return {
        request.path.rpartition("/")[2]: json.loads(request.body)["metadata"]["annotations"]["hollow.kcm.dev/silent"]
        for request in asked
    }


def test_rows_show_what_is_on(board: FaultBoard) -> None:
    board.act({"fault": "watch", "name": "pods", "on": True})
    board.act({"fault": "writes", "on": True})
    rows = board.sample()
    assert {row for row, value in rows.items() if value["on"]} == {"writes", "watch/pods", "node/b"}
    assert rows["zone/east"] == {"kind": "zone", "name": "east", "nodes": 2, "silent": 1, "on": False}


def test_zone_is_silenced_node_by_node(board: FaultBoard, asked: list[Request]) -> None:
    assert board.act({"fault": "zone", "name": "east", "on": True}) == {"message": "2 nodes silenced."}
    assert annotated(asked) == {"a": "true", "b": "true"}


def test_all_faults_are_undone(board: FaultBoard, asked: list[Request]) -> None:
    board.act({"fault": "watch", "name": "pods", "on": True})
    board.act({"fault": "writes", "on": True})
    board.act({"fault": "all", "on": False})
    assert annotated(asked) == {"b": None}
    assert [row for row, value in board.sample().items() if value["on"]] == ["node/b"]  # until the watch shows it


@pytest.mark.parametrize(
    "body, error",
    [
        ({"fault": "node", "name": "x", "on": True}, LookupError),
        ({"fault": "zone", "name": "", "on": True}, LookupError),
        ({"fault": "watch", "name": "secrets", "on": True}, LookupError),
        ({"fault": "node", "name": "broken", "on": True}, RefusedError),
        ({"fault": "all", "on": True}, ValueError),
        ({"fault": "fire", "on": True}, ValueError),
        ({"fault": "node", "name": 1, "on": True}, ValueError),
        ({"fault": "node", "name": "a", "on": "yes"}, ValueError),
        ({}, ValueError),
    ],
)
def test_impossible_faults_are_errors(board: FaultBoard, body: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        board.act(body)
