"""Where writes become durable: the seam between the server's core and a disk.

The core keeps the newest version of every object in memory and stages each write there first. A store only makes
writes durable, in their order, and calls back when they are. So a store may gather the writes of many requests into
one commit, and the core needs no thread of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from kcm.protocols.objects import Key

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"


class StoreUnusableError(Exception):
    """The store cannot be opened or read: another process has it open, it is of another format, or it is corrupt."""


class StoreLostError(Exception):
    """What the store writes to is not where it was opened any more: it was deleted, moved or replaced."""


class Change(NamedTuple):
    """One write, as the store keeps it and watches deliver it.

    storage: ResourceDefinition.storage. revision: the whole server's, growing by one with each change.
    raw: the object's JSON after the change; for DELETED its last state, with the deletion's resourceVersion.
    previous: its JSON before; b"" for ADDED.
    """

    type: str
    storage: str
    key: Key
    revision: int
    raw: bytes
    previous: bytes


class Stored(NamedTuple):
    """One object as it was found on opening."""

    storage: str
    key: Key
    revision: int
    raw: bytes


class Store(Protocol):
    """All methods are called on the server's thread."""

    def revision(self) -> int:
        """The revision of the last durable change, deletions included; 0 for a new store."""

    def load(self) -> Iterator[Stored]:
        """Every object that is there; called once, before the first commit."""

    def commit(self, changes: Sequence[Change], on_durable: Callable[[], None]) -> None:
        """Make these changes durable, all or none, after those of earlier calls; then call on_durable.

        on_durable runs on the server's thread, in the order of the commits, at once or later. It is never called for
        changes that could not be made durable: the store then reports to its owner, and the server must end, or take
        back all changes that are not durable (ApiServer.take_back) before it commits others.
        """

    def close(self) -> None:
        """Finish the commits, then close the file."""


class MemoryStore:
    """Keeps nothing beyond the server's own memory; every write counts as durable at once."""

    def revision(self) -> int:
        return 0

    def load(self) -> Iterator[Stored]:
        return iter(())

    def commit(self, changes: Sequence[Change], on_durable: Callable[[], None]) -> None:  # noqa: ARG002
        on_durable()

    def close(self) -> None:
        return None
