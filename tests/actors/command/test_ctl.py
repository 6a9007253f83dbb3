"""Tests of run-kcm ctl on a simulated cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import orjson
import pytest
import yaml

from kcm.actors.app.system import ControllerSystem
from kcm.actors.command.control_tables import table
from kcm.actors.command.ctl import parser, run
from kcm.actors.command.manager_client import ManagerError
from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.simulation import SimulatedCluster
from kcm.runtime.process.termination import Ending
from kcm.runtime.serving.debug_pages import ChangeRefusedError

CHOSEN = ("replicaset-controller", "deployment-controller", "node-lifecycle-controller", "node-ipam-controller")
FEW = [spec for spec in BUILT_IN if spec.name in CHOSEN]


class SimulatedManager:
    """Client of the pages of a simulated manager."""

    def __init__(self, cluster: SimulatedCluster, system: ControllerSystem) -> None:
        self._cluster, self._system = cluster, system

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        del query
        collection, _, name = path.removeprefix("/").partition("/")
        try:
            return orjson.loads(msgspec.json.encode(self._system.shown(collection, name)))
        except LookupError as err:
            raise ManagerError(str(err.args[0]), status=404) from err

    def post(self, path: str, settings: Mapping[str, Any] | None = None, query: Mapping[str, str] | None = None) -> Any:
        *place, action = path.removeprefix("/").split("/")
        collection, name = [*place, ""][:2]
        timeout = float((query or {}).get("timeout", 10.0))
        try:
            change = self._system.change(collection, name, action, settings or {})
        except LookupError as err:
            raise ManagerError(str(err.args[0]), status=404) from err
        except (ChangeRefusedError, ValueError) as err:
            raise ManagerError(str(err), status=409) from err
        outcome = "Done" if change.is_needed else "Unchanged"
        if not change.is_done() and not (timeout and self._cluster.run_until(change.is_done, within=timeout)):
            outcome = "Pending"
        result = orjson.loads(msgspec.json.encode(change.result()))
        return {"target": "/".join(place), "action": action, "outcome": outcome, "result": result}


class Terminal:
    """Command line of a simulated manager. printed: its output."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.system = cluster.manager(controllers=FEW)
        self.manager: Any = SimulatedManager(cluster, self.system)
        self.printed: list[str] = []
        self.stopping = Ending()
        cluster.run_for(30.0)

    def run(self, *argv: str) -> str:
        self.code = run(parser().parse_args(argv), self.manager, stopping=self.stopping, show=self.printed.append)
        shown, self.printed = "\n".join(self.printed), []
        return shown


@pytest.fixture
def terminal(cluster: SimulatedCluster) -> Terminal:
    cluster.hollow_nodes()
    return Terminal(cluster)


def test_table_is_aligned_like_kubectl() -> None:
    assert table(("NAME", "AGE"), [("web", "5s"), ("database", "10m")]) == [
        "NAME       AGE",
        "web        5s",
        "database   10m",
    ]


def test_controllers_are_listed(terminal: Terminal) -> None:
    assert terminal.run("list").splitlines() == [
        "NAME                        STATE     QUEUED   DELAYED   IN WORK   OLDEST   FAILING   RESTARTS   AGE",
        "deployment-controller       Running   0        0         0         -        -         0          30s",
        "replicaset-controller       Running   0        0         0         -        -         0          30s",
        "node-ipam-controller        Skipped   0        0         0         -        -         0          -",
        "node-lifecycle-controller   Running   0        0         0         -        -         0          30s",
    ]
    assert terminal.run("list", "-o", "name").splitlines()[0] == "deployment-controller"
    assert "--allocate-node-cidrs" in terminal.run("list", "-o", "wide")
    assert len(orjson.loads(terminal.run("list", "-o", "json"))["controllers"]) == len(FEW)
    assert yaml.safe_load(terminal.run("list", "-o", "yaml"))["leading"] is True


def test_one_controller_is_described(terminal: Terminal) -> None:
    shown = terminal.run("get", "node-lifecycle-controller")
    assert shown.startswith("Name:         node-lifecycle-controller\nState:        Running\n")
    assert "node_lifecycle_controller_zones" in shown
    assert "zone-eviction-queue:" in shown
    with pytest.raises(ManagerError, match='controllers "nobody" not found'):
        terminal.run("get", "nobody")


def test_controllers_are_changed_one_after_the_other(terminal: Terminal, capsys: pytest.CaptureFixture[str]) -> None:
    shown = terminal.run("pause", "deployment-controller", "nobody", "replicaset-controller")
    assert shown.splitlines() == [
        "controllers/deployment-controller paused (Paused)",
        "controllers/replicaset-controller paused (Paused)",
    ]
    assert terminal.code == 1
    assert capsys.readouterr().err == 'Error: controllers "nobody" not found\n'
    assert terminal.run("pause", "deployment-controller") == "controllers/deployment-controller unchanged (Paused)"
    assert terminal.run("resume", "deployment-controller") == "controllers/deployment-controller resumed (Running)"
    assert orjson.loads(terminal.run("restart", "deployment-controller", "-o", "json"))["outcome"] == "Done"


def test_change_that_is_not_visible_in_time_is_an_error(terminal: Terminal, capsys: pytest.CaptureFixture[str]) -> None:
    shown = terminal.run("disable", "deployment-controller", "--timeout=0s")
    assert shown == "controllers/deployment-controller requested (Running)"
    assert (terminal.code, capsys.readouterr().err) == (1, "Error: deployment-controller is still Running\n")


def test_watch_shows_rows_that_change(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = iter([lambda: None, lambda: terminal.system.pause("deployment-controller"), terminal.stopping.set])

    def wait(_seconds: float) -> bool:
        next(rounds)()
        terminal.cluster.run_for(1.0)
        return terminal.stopping.is_set()

    monkeypatch.setattr(terminal.stopping, "wait", wait)
    lines = terminal.run("list", "--watch").splitlines()
    assert len(lines) == 1 + len(FEW) + 1
    assert lines[-1].split()[:2] == ["deployment-controller", "Paused"]


@pytest.mark.parametrize(
    "argv", [["list", "-o", "xml"], ["pause"], ["pause", "a", "--timeout=2m"], ["rate", "zone", "a", "fast"], []]
)
def test_malformed_arguments_are_refused(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(argv)
    assert ended.value.code == 2
    assert "usage: run-kcm ctl" in capsys.readouterr().err


def test_rates_of_zones_and_clients_are_shown_and_set(terminal: Terminal) -> None:
    assert [line.split() for line in terminal.run("zones").splitlines()] == [
        ["NAME", "STATE", "NODES", "READY", "WAITING", "RATE", "PAUSED", "RELEASED", "NEXT"],
        ["hollow:zone-a", "Normal", "2", "2", "0", "0.1/s", "false", "0", "-"],
        ["hollow:zone-b", "Normal", "1", "1", "0", "0.1/s", "false", "0", "-"],
    ]
    assert "0.5/s (set)" in terminal.run("rate", "zone", "hollow:zone-a", "0.5")
    assert "(set)" not in terminal.run("rate", "zone", "hollow:zone-a", "auto")
    assert terminal.run("rate", "client", "deployment-controller", "5", "--burst=7").splitlines()[1].split() == [
        "deployment-controller",
        "5",
        "(set)",
        "7",
        "0%",
        "0",
        "0",
    ]
    assert "deployment-controller" in terminal.run("clients", "-o", "name")
    with pytest.raises(ManagerError, match="qps is a number above 0"):
        terminal.run("rate", "client", "deployment-controller", "0")


def test_storm_brake_is_engaged_and_released(terminal: Terminal) -> None:
    assert terminal.run("brake").splitlines()[1].split() == ["false", "-", "0", "0", "0/s", "off", "<none>"]
    assert terminal.run("brake", "engage", "--qps=2").splitlines()[1].split()[:5] == ["true", "0s", "0", "0", "2/s"]
    assert orjson.loads(terminal.run("brake", "-o", "json"))["reason"] == "requested by an operator"
    assert terminal.run("brake", "release").splitlines()[1].startswith("false")
