"""Tests of run-kcm top on a simulated cluster."""

from __future__ import annotations

import os
import pty
import re
import termios
from collections.abc import Iterator

import pytest

from kcm.actors.command.manager_client import ManagerError
from kcm.actors.command.top import TopView, drawing, live, parser, press, sample
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.resources import REPLICASETS
from kcm.runtime.process.full_screen import CLOSE, OPEN, FullScreen
from kcm.runtime.process.termination import Ending
from tests.actors.command.test_ctl import Terminal
from tests.support.objects import replica_set

COLOURS = re.compile(r"\x1b\[\d*m")


@pytest.fixture
def terminal(cluster: SimulatedCluster) -> Terminal:
    cluster.hollow_nodes()
    return Terminal(cluster)


def screen_of(
    terminal: Terminal, view: TopView, *, columns: int = 80, lines: int = 24, colour: bool = False
) -> list[str]:
    """Return the screen two seconds after the first sample."""
    first = sample(terminal.manager, None, terminal.cluster.clock)
    terminal.cluster.run_for(2.0)
    second = sample(terminal.manager, first, terminal.cluster.clock)
    return drawing(second, view, columns=columns, lines=lines, colour=colour)


def test_screen_shows_controllers_and_zones_at_80_columns(terminal: Terminal) -> None:
    terminal.run("pause", "replicaset-controller")
    terminal.cluster.create(REPLICASETS, replica_set("web", replicas=2))
    lines = screen_of(terminal, TopView())
    assert max(map(len, lines)) <= 80
    assert lines[0].endswith("leading  2 Running, 1 Paused, 1 Skipped")
    assert lines[3] == "NAME             STATE     QUEUE   DELAY   WORK   OLDEST   FAIL   RATE/S"
    assert lines[4].split()[:5] == ["replicaset", "Paused", "1", "0", "0"]
    assert [line.split()[0] for line in lines[5:7]] == ["deployment", "node-lifecycle"]
    zone = next(line for line in lines if line.startswith("hollow:"))
    assert zone.split() == ["hollow:zone-a", "Normal", "2/2", "0", "0.1/s"]


def test_screen_is_cut_to_the_terminal(terminal: Terminal) -> None:
    view = TopView(shows_all=True, scrolled=99)
    lines = screen_of(terminal, view, columns=40, lines=8, colour=True)
    assert len(lines) <= 8
    assert max(len(COLOURS.sub("", line)) for line in lines) <= 40
    assert view.scrolled < 4, "not beyond the last controller"


def test_colours_mark_what_needs_attention_on_a_terminal_only(terminal: Terminal) -> None:
    terminal.run("pause", "deployment-controller")
    terminal.run("brake", "engage")
    plain = screen_of(terminal, TopView())
    assert not any("\x1b" in line for line in plain)
    coloured = screen_of(terminal, TopView(), colour=True)
    assert coloured[1].startswith("\x1b[31mSTORM BRAKE engaged ")
    assert any(line.startswith("\x1b[33mdeployment ") for line in coloured)


def test_keys_change_the_view() -> None:
    view = TopView()
    for key, sort in (("s", "delayed"), ("n", "name"), ("f", "failing"), ("x", "failing")):
        press(view, key)
        assert view.sort == sort
    press(view, "down")
    press(view, "a")
    assert (view.scrolled, view.shows_all) == (1, True)
    press(view, "up")
    press(view, "up")
    assert view.scrolled == 0


class Keyboard(FullScreen):
    """Screen with prepared keys, in virtual time."""

    def __init__(self, terminal: Terminal, keys: Iterator[str]) -> None:
        self._terminal, self._keys = terminal, keys
        self.shown: list[list[str]] = []

    def draw(self, lines: object) -> None:
        assert isinstance(lines, list)
        self.shown.append(lines)

    def key(self, within: float) -> str:
        self._terminal.cluster.run_for(within)
        return next(self._keys)


def test_live_screen_follows_the_manager_until_q(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = ["", "n", *[""] * 6, "q"]
    screen = Keyboard(terminal, iter(keys))
    live(terminal.manager, screen, TopView(), clock=terminal.cluster.clock, stopping=Ending(), every=1.0)
    assert len(screen.shown) == 3
    assert screen.shown[1][1].endswith("sorted by name")

    def broken(*_: object) -> None:
        raise ManagerError("connection refused")

    screen = Keyboard(terminal, iter(["", "", "", "", "", "", "q"]))
    draw = screen.draw
    monkeypatch.setattr(
        screen, "draw", lambda lines: (draw(lines), monkeypatch.setattr(terminal.manager, "get", broken))
    )
    live(terminal.manager, screen, TopView(), clock=terminal.cluster.clock, stopping=Ending(), every=1.0)
    assert "no response: connection refused" in screen.shown[-1][0]


def test_screen_restores_the_terminal_after_an_error() -> None:
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)

    def fail() -> None:
        with FullScreen(keyboard, terminal) as screen:
            os.write(ours, b"\x1b[Bq")
            assert screen.key(5.0) == "down"
            screen.draw(["one", "two"])
            raise RuntimeError("planted")

    with open(theirs) as keyboard, open(theirs, "w", closefd=False) as terminal:
        with pytest.raises(RuntimeError, match="planted"):
            fail()
        assert termios.tcgetattr(theirs) == before
        shown = ""
        while not shown.endswith(CLOSE):
            shown += os.read(ours, 4096).decode()
    os.close(ours)
    assert shown.startswith(OPEN)


@pytest.mark.parametrize("argv", [["--interval=1ms"], ["--sort=size"], ["extra"]])
def test_malformed_arguments_are_refused(argv: list[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(argv)
