from __future__ import annotations

import io
from pathlib import Path

import pytest

from actors.command.greeting import LiveLine, greeting


class Screen(io.StringIO):
    """What a terminal shows of what was written to it, as far as carriage returns and `erase to the right` go."""

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


def test_what_is_logged_takes_the_place_of_the_live_line_which_comes_again_below() -> None:
    screen = Screen()
    line = LiveLine(screen)
    line.show("2 pods (0 ready)")
    screen.write('I1122 00:29:12.890041 kcm] "synced"\n')  # by whoever shares the terminal
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
def test_the_greeting_counts_nodes_and_the_zones_that_they_are_in(nodes: int, zones: int, says: str) -> None:
    text = greeting(url="https://x", kubeconfig=Path("k"), nodes=nodes, zones=zones, applied=[])
    assert text.splitlines()[0].endswith(says)
