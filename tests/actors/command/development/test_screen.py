"""Screen of the development loop: plain lines, or the table of keys."""

from __future__ import annotations

import io

from kcm.actors.command.development.observed import KeyRow
from kcm.actors.command.development.screen import Screen, drawing


def test_without_a_terminal_lines_are_written_as_they_come() -> None:
    stream = io.StringIO()
    screen = Screen(stream)
    screen.write("first")
    screen.show("title", [KeyRow("greeter", "default/a")], 1.0)
    screen.write("second")
    assert stream.getvalue() == "first\nsecond\n"


def test_failed_keys_are_first_and_lines_end_at_the_edge() -> None:
    rows = [
        KeyRow("greeter", "default/a", "done", 3, 0, "patch greetings default/a status", 90.0),
        KeyRow("greeter", "default/b", "failed", 2, 2, "ValueError: no", 80.0),
    ]
    assert drawing("title", rows, ["one", "two", "three"], 100.0, columns=60, lines=9) == [
        "title",
        "",
        "controller  key        state      times  ago   last",
        "greeter     default/b  failed 2x  2      20 s  ValueError: n",
        "",
        "one",
        "two",
        "three",
    ]
