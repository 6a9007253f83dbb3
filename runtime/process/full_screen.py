"""Full screen of a terminal: drawn text, and keys that are read as they are pressed."""

from __future__ import annotations

import os
import select
import termios
import tty
from collections.abc import Sequence
from types import TracebackType
from typing import Self, TextIO

OPEN, CLOSE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # alternate screen without cursor, and back
HOME, REST_OF_LINE, REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
ARROWS = {"\x1b[A": "up", "\x1b[B": "down", "\x1bOA": "up", "\x1bOB": "down"}


class FullScreen:
    """Context manager that takes the whole terminal, and restores it at the end, also after an error."""

    def __init__(self, keyboard: TextIO, screen: TextIO) -> None:
        self._keyboard, self._screen = keyboard, screen
        self._before: list[object] | None = None
        self._pressed = ""  # keys that were read and not returned yet

    def __enter__(self) -> Self:
        if self._keyboard.isatty():
            descriptor = self._keyboard.fileno()
            self._before = termios.tcgetattr(descriptor)
            tty.setcbreak(descriptor)  # keys at once and without echo; Ctrl-C remains a signal
        self._write(OPEN)
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._write(CLOSE)
        if self._before is not None:
            termios.tcsetattr(self._keyboard.fileno(), termios.TCSADRAIN, self._before)  # type: ignore[arg-type]

    def draw(self, lines: Sequence[str]) -> None:
        """Replace what is shown. Lines must not be longer than the terminal is wide."""
        self._write(HOME + "\n".join(f"{line}{REST_OF_LINE}" for line in lines) + REST_OF_SCREEN)

    def key(self, within: float) -> str:
        """Return the next key, "up" and "down" for arrows; "" if none is pressed within these seconds."""
        if self._before is None:
            select.select([], [], [], within)
            return ""
        descriptor = self._keyboard.fileno()
        if not self._pressed and select.select([descriptor], [], [], within)[0]:
            self._pressed = os.read(descriptor, 64).decode(errors="replace")
        arrow = next((arrow for arrow in ARROWS if self._pressed.startswith(arrow)), "")
        length = len(arrow) or 1
        key, self._pressed = self._pressed[:length], self._pressed[length:]
        return ARROWS.get(key, key)

    def _write(self, text: str) -> None:
        self._screen.write(text)
        self._screen.flush()
