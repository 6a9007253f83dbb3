"""The trace of a run: its last steps, and a digest of all of them."""

from __future__ import annotations

import hashlib
from collections import deque
from typing import NamedTuple

from protocols.codec import DecodeError, decode

KEPT = 4000  # entries
WIDTH = 180  # characters of a line


class Entry(NamedTuple):
    """One step: an actor handles a message (frame), or another event (text). at: virtual seconds."""

    at: float
    process: str
    who: str
    frame: bytes
    text: str

    def __str__(self) -> str:
        return f"{self.at:10.4f}  {self.process:<10} {self.who:<34} {self.text or described(self.frame)}"[:WIDTH]


def described(frame: bytes) -> str:
    """A message as one line."""
    try:
        return repr(decode(frame))
    except DecodeError as err:
        return f"undecodable: {err}"


class Trace:
    """The same seed gives the same digest."""

    def __init__(self, *, kept: int = KEPT) -> None:
        self.entries: deque[Entry] = deque(maxlen=kept)
        self._hash = hashlib.blake2b(digest_size=16)

    def handled(self, at: float, process: str, actor: str, frame: bytes) -> None:
        self.entries.append(Entry(at, process, actor, frame, ""))
        self._hash.update(f"{at!r}|{process}|{actor}|".encode())
        self._hash.update(frame)

    def note(self, at: float, process: str, who: str, text: str) -> None:
        self.entries.append(Entry(at, process, who, b"", text))
        self._hash.update(f"{at!r}|{process}|{who}|{text}\n".encode())

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def last(self, count: int, *, but: tuple[str, ...] = ("Ping(", "Pong(", "Wake(")) -> list[str]:
        """The newest lines, oldest first, without messages of these kinds."""
        lines: list[str] = []
        for entry in reversed(self.entries):
            text = entry.text or described(entry.frame)
            if not text.startswith(but):
                lines.append(str(entry))
            if len(lines) == count:
                break
        lines.reverse()
        return lines
