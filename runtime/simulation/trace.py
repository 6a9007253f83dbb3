"""Trace of a run: a digest of all its steps, and notes of user actions, faults and crashes."""

from __future__ import annotations

import hashlib
from typing import NamedTuple


class Note(NamedTuple):
    """Entry of a trace. at: virtual seconds. process, who: process and actor; "" for none."""

    at: float
    process: str
    who: str
    text: str


class Trace:
    """Digest of a run, and its notes in order. The same seed gives the same digest."""

    def __init__(self) -> None:
        self.notes: list[Note] = []
        self._hash = hashlib.blake2b(digest_size=16)

    def handled(self, at: float, process: str, actor: str, frame: bytes) -> None:
        """Add a message that an actor handles to the digest."""
        self._hash.update(f"{at!r}|{process}|{actor}|".encode())
        self._hash.update(frame)

    def passed(self, at: float, process: str, text: str) -> None:
        """Add a request or a response on the network to the digest."""
        self._hash.update(f"{at!r}|{process}|{text}\n".encode())

    def note(self, at: float, process: str, who: str, text: str) -> None:
        self.notes.append(Note(at, process, who, text))
        self._hash.update(f"{at!r}|{process}|{who}|{text}\n".encode())

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()
