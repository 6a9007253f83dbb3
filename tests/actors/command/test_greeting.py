from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from kcm.actors.command.greeting import LiveLine, Welcome, greeting, node_summary, standing_by
from kcm.actors.engine.vitals import ElectorVitals
from kcm.protocols.nodes import node_facts
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.resources import NODES
from kcm.runtime.client.api import Request, Response
from kcm.runtime.tables.table import Table


class Screen(io.StringIO):
    """Terminal that interprets carriage returns and "erase to the right"."""

    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        shown, column = [""], 0
        for part in self.getvalue().replace("\x1b[K", "\0"):
            if part == "\n":
                shown, column = [*shown, ""], 0
            elif part == "\r":
                column = 0
            elif part == "\0":
                shown[-1] = shown[-1][:column]
            else:
                shown[-1] = shown[-1][:column] + part + shown[-1][column + 1 :]
                column += 1
        return shown


@pytest.fixture(autouse=True)
def a_good_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


def test_log_line_overwrites_live_line_which_is_redrawn_below() -> None:
    screen = Screen()
    line = LiveLine(screen)
    line.show("2 pods (0 ready)")
    screen.write('I1122 00:29:12.890041 kcm] "synced"\n')  # another writer to the same terminal
    line.show("2 pods (0 ready)")
    assert screen.lines() == ['I1122 00:29:12.890041 kcm] "synced"', "2 pods (0 ready)"]
    line.show("1 pod")
    assert screen.lines()[-1] == "1 pod"
    line.end()
    assert screen.lines()[-1] == ""


def test_a_live_line_fits_into_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    screen = Screen()
    LiveLine(screen).show("1000 pods (1000 ready)")
    assert screen.lines() == ["1000 pods"]


@pytest.mark.parametrize(
    "nodes, zones, says",
    [
        (0, 2, "without nodes."),
        (1, 2, "with 1 hollow node in 1 zone."),
        (3, 2, "with 3 hollow nodes in 2 zones."),
    ],
)
def test_greeting_counts_nodes_and_zones(nodes: int, zones: int, says: str) -> None:
    text = greeting(url="https://x", kubeconfig=Path("k"), nodes=nodes, zones=zones, applied=[])
    assert text.splitlines()[0].endswith(says)


def test_greeting_shows_the_link_to_the_console_on_a_line_of_its_own() -> None:
    text = greeting(url="https://x", kubeconfig=Path("k"), nodes=0, zones=1, applied=[], console="http://y/#key=z")
    assert "    http://y/#key=z" in text.splitlines()
    assert "browser" not in greeting(url="https://x", kubeconfig=Path("k"), nodes=0, zones=1, applied=[])


@pytest.mark.parametrize("is_kept, end", [(True, "is kept for the next run."), (False, "is deleted then.")])
def test_greeting_ends_with_what_happens_to_the_cluster(is_kept: bool, end: str) -> None:
    text = greeting(url="https://x", kubeconfig=Path("k"), nodes=3, zones=2, applied=[], is_kept=is_kept)
    assert text.endswith(end)


@pytest.mark.parametrize(
    "statuses, text",
    [
        ([], ""),
        (["True"], "1 node (1 ready)"),
        (["True", "False", "Unknown", None], "4 nodes (1 ready)"),
    ],
)
def test_status_line_counts_nodes_and_ready_nodes(statuses: list[str | None], text: str) -> None:
    table = Table(NODES, derive=node_facts)
    writer = table.claim()
    nodes = [node_object(f"n{number}", status) for number, status in enumerate(statuses)]
    writer.replace([table.make_entry(node, encode_object(node)) for node in nodes], 7)
    assert node_summary({NODES.id: table}) == text
    assert node_summary({}) == node_summary({NODES.id: Table(NODES)}) == ""


def node_object(name: str, ready: str | None) -> Object:
    conditions = [] if ready is None else [{"type": "Ready", "status": ready}]
    meta = {"name": name, "uid": name, "resourceVersion": "1"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"conditions": conditions}}


def test_live_line_is_shown_on_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.StringIO()
    line = LiveLine(log)
    line.show("2 pods")
    line.say("hello")
    line.end()
    assert log.getvalue() == "hello\n"
    monkeypatch.setenv("TERM", "dumb")
    screen = Screen()
    LiveLine(screen).show("2 pods")
    assert screen.getvalue() == ""


def test_lasting_line_erases_the_live_line() -> None:
    screen = Screen()
    line = LiveLine(screen)
    line.show("standing by for long, and for longer")
    line.say("hello")
    assert screen.lines() == ["hello", ""]


class Nodes:
    """Server with a node for each given status of the condition Ready."""

    def __init__(self, *ready: str) -> None:
        self.ready, self.asked = ready, 0

    def __call__(self, request: Request) -> Response:
        assert request.path == "/api/v1/nodes"
        self.asked += 1
        conditions = [[{"type": "Ready", "status": ready}] if ready else [] for ready in self.ready]
        items = [{"metadata": {"name": "n"}, "status": {"conditions": of_node}} for of_node in conditions]
        return Response(status=200, body=json.dumps({"items": items}).encode())


def test_greeting_is_printed_once_when_the_nodes_are_ready() -> None:
    printed: list[str] = []
    nodes = Nodes()
    welcome = Welcome("hello", nodes=2, ask=nodes, say=printed.append)
    assert welcome.look(100.0) == "0 of 2 nodes ready"
    nodes.ready = ("True", "Unknown", "")
    assert welcome.look(100.2) == "0 of 2 nodes ready"
    assert nodes.asked == 1, "not at every look"
    assert welcome.look(100.6) == "1 of 2 nodes ready"
    assert printed == []
    nodes.ready = ("True", "True", "False")
    assert [welcome.look(100.0 + more) for more in (1.2, 2.0, 3.0)] == ["", "", ""]
    assert (printed, nodes.asked) == (["hello"], 3)


def test_greeting_waits_for_a_limited_time_and_only_for_requested_nodes() -> None:
    printed: list[str] = []
    Welcome("none", nodes=0, ask=Nodes(), say=printed.append).look(5.0)
    late = Welcome("late", nodes=1, ask=lambda _: Response(status=0, error="refused"), say=printed.append)
    late.look(5.0)
    assert printed == ["none"]
    assert late.look(5.0 + Welcome.PATIENCE) == "0 of 1 node ready", "run-kcm wait still waits for it"
    assert printed == ["none", "late"]


@pytest.mark.parametrize(
    "elector, says",
    [
        (None, ""),
        (ElectorVitals(leading=True, renewed_at=9.0, holder="me", free_at=24.0), ""),
        (ElectorVitals(leading=False, renewed_at=0.0), "waiting for the Lease"),
        (
            ElectorVitals(leading=False, renewed_at=0.0, failure="cannot get leases d/lease: forbidden"),
            "waiting for the Lease: cannot get leases d/lease: forbidden",
        ),
        (
            ElectorVitals(leading=False, renewed_at=0.0, holder="host_1", free_at=22.4),
            "standing by: the Lease expires in 12 s unless renewed; held by host_1",
        ),
        (
            ElectorVitals(leading=False, renewed_at=0.0, holder="host_1", free_at=9.0),
            "standing by: the Lease expires in 0 s unless renewed; held by host_1",
        ),
    ],
)
def test_live_line_shows_lease_holder_and_time(elector: ElectorVitals | None, says: str) -> None:
    assert standing_by(elector, now=10.0) == says
