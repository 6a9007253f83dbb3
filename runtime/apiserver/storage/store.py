"""The interface between the server's core and a store that makes writes durable.

The core keeps the newest version of every object in memory and stages each write there first. A store makes writes
durable in their order and calls back when they are durable. A store may therefore combine the writes of many requests
into one commit, and the core needs no thread of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from kcm.protocols.objects import Key

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"


class StoreUnusableError(Exception):
    """The store cannot be opened or read.

    Another process has it open, its format is not supported, or it is corrupt.
    """


class StoreLostError(Exception):
    """The file of the store was deleted, moved or replaced while it was open."""


class StoreChange(NamedTuple):
    """One write, as stores save it and watches deliver it.

    type: "ADDED", "MODIFIED" or "DELETED".
    storage: the resource as "pods" or "deployments.apps"; in simulations of several clusters "edge:pods".
    revision: of the whole server; grows by one with each change.
    raw: the object's JSON after the change; for DELETED its last state, with the resourceVersion of the deletion.
    previous: the object's JSON before the change; b"" for ADDED.
    """

    type: str
    storage: str
    key: Key
    revision: int
    raw: bytes
    previous: bytes


class Stored(NamedTuple):
    """One object, as it was when the store was opened."""

    storage: str
    key: Key
    revision: int
    raw: bytes


class Store(Protocol):
    """Interface for the durable storage of one server. All methods are called on the server's thread."""

    def revision(self) -> int:
        """Return the revision of the last durable change, including deletions; 0 for a new store."""

    def load(self) -> Iterator[Stored]:
        """Yield every stored object. Called once, before the first commit."""

    def commit(self, changes: Sequence[StoreChange], on_durable: Callable[[], None]) -> None:
        """Make all of these changes durable, or none of them, after the changes of earlier calls; then call on_durable.

        on_durable runs on the server's thread, in the order of the commits, at once or later. It is never called for
        changes that could not be made durable. In that case the store reports the failure to its owner, and the server
        must end, or revert all changes that are not durable (ApiServer.discard_pending) before it commits others.
        """

    def close(self) -> None:
        """Write the pending commits, then close the file."""


class MemoryStore:
    """Store in memory only: every write counts as durable at once."""

    def revision(self) -> int:
        return 0

    def load(self) -> Iterator[Stored]:
        return iter(())

    def commit(self, changes: Sequence[StoreChange], on_durable: Callable[[], None]) -> None:  # noqa: ARG002
        on_durable()

    def close(self) -> None:
        return None
