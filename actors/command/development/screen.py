"""Output of the development loop: plain lines, or on a terminal a live table of keys above the last lines."""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TextIO

from kcm.actors.command.development.observed import KeyRow

KEPT_LINES = 200
CLEAR = "\x1b[H\x1b[2J"
HEAD = ("controller", "key", "state", "times", "ago", "last")


class Screen:
    """Writer of lines. Any thread may call `write`; `show` is called by one.

    stream: a terminal shows the live table, anything else the lines as they come.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream, self.is_live = stream, stream.isatty()
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)

    def write(self, text: str) -> None:
        if self.is_live:
            self._lines.extend(text.splitlines())
        else:
            self._stream.write(f"{text}\n")
            self._stream.flush()

    def show(self, title: str, rows: Sequence[KeyRow], now: float) -> None:
        """Draw the table and the last lines, if this is a terminal."""
        if self.is_live:
            columns, lines = shutil.get_terminal_size()
            drawn = drawing(title, rows, list(self._lines), now, columns=columns, lines=lines)
            self._stream.write(CLEAR + "\n".join(drawn))
            self._stream.flush()


def drawing(
    title: str, rows: Sequence[KeyRow], output: Sequence[str], now: float, *, columns: int, lines: int
) -> list[str]:
    """Return the lines of the screen: the latest keys, at most half of it, then the latest lines of output."""
    newest = sorted(rows, key=lambda row: (row.state != "failed", -row.at))[: max(1, lines // 2 - 3)]
    cells = [HEAD, *(_cells(row, now) for row in newest)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEAD) - 1)]
    table = [_line(row, widths)[:columns] for row in cells]
    rest = max(0, lines - len(table) - 3)
    last = [line[:columns] for line in output[-rest:]] if rest else []
    return [title[:columns], "", *table, "", *last]


def _cells(row: KeyRow, now: float) -> tuple[str, ...]:
    state = f"{row.state} {row.failures}x" if row.failures > 1 else row.state
    return row.controller, row.key, state, str(row.times), f"{max(0.0, now - row.at):.0f} s", row.last


def _line(row: Sequence[str], widths: Iterable[int]) -> str:
    return "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
