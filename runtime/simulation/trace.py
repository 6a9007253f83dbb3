"""Trace of a simulated run: a digest of all steps, and a log of user actions, faults and crashes.

Equal digests show that two runs were the same.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple


class Note(NamedTuple):
    """Entry in the log of a trace."""

    at: float  # virtual seconds since the start of the run
    process: str  # "" for none
    who: str  # name of the actor; "" for none
    text: str


class Trace:
    """Digest of a run, and its log. The same seed gives the same digest."""

    def __init__(self) -> None:
        self.notes: list[Note] = []
        self._hash = hashlib.blake2b(digest_size=16)

    def handled(self, at: float, process: str, actor: str, frame: bytes) -> None:
        """Add a message to the digest, when an actor handles it."""
        self._hash.update(f"{at!r}|{process}|{actor}|".encode())
        self._hash.update(frame)

    def passed(self, at: float, process: str, text: str) -> None:
        """Add a request or response to the digest, when it arrives."""
        self._hash.update(f"{at!r}|{process}|{text}\n".encode())

    def note(self, at: float, process: str, who: str, text: str) -> None:
        self.notes.append(Note(at, process, who, text))
        self._hash.update(f"{at!r}|{process}|{who}|{text}\n".encode())

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()
