"""Entries of tables: one version of one object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kcm.protocols.objects import Key, Object, OwnerRef, controller_of, make_key, metadata
from kcm.protocols.versions import parse_version

if TYPE_CHECKING:
    from kcm.runtime.tables.compression import Compressed

OWNER = "owner"
FURTHER_OWNER = "further owner"  # uids of owners that are not the controller
UNBLOCKED_OWNER = "unblocked owner"  # uids of owners whose deletion in the foreground does not wait for the object
OWNERSHIP = frozenset({OWNER, FURTHER_OWNER, UNBLOCKED_OWNER})


class Entry:
    """One version of an object. Immutable, except for the cached decoded form and the compression of its JSON.

    resource_version: as a number, comparable within one resource (KEP-5504).
    raw: JSON of the object. Of a compressed entry it is decompressed on each access, which takes a few microseconds.
    facts: result of the table's `derive`, or None without it.
    values: the (index, value) pairs of the object.
    """

    __slots__ = ("_kept", "controller", "decoded", "facts", "finalizers", "key", "resource_version", "uid", "values")

    def __init__(
        self,
        *,
        key: Key,
        uid: str,
        resource_version: int,
        raw: bytes,
        controller: OwnerRef | None,
        facts: Any,
        values: tuple[tuple[str, str], ...],
        finalizers: tuple[str, ...] = (),
    ) -> None:
        self.key, self.uid, self.resource_version = key, uid, resource_version
        self.controller, self.facts, self.values, self.finalizers = controller, facts, values, finalizers
        self.decoded: Object | None = None
        self._kept: bytes | Compressed = raw

    @property
    def raw(self) -> bytes:
        kept = self._kept
        return kept if isinstance(kept, bytes) else kept.json()

    @property
    def size(self) -> int:
        """Return the number of bytes of `raw`."""
        kept = self._kept
        return len(kept) if isinstance(kept, bytes) else kept.size

    @property
    def is_compressed(self) -> bool:
        return not isinstance(self._kept, bytes)

    def compress(self, compressed: Compressed) -> None:
        """Replace the JSON by its compressed form. Any thread."""
        self._kept = compressed


class Unreadable(NamedTuple):
    """Existing object that cannot be read as an entry.

    uid: "" if unreadable.
    version: 0 if unreadable.
    why: the reason, in one line.
    owner: UID of its controller, "" without a controller, None if unreadable.
    values: see Table.values_of_unreadable.
    """

    key: Key
    uid: str
    version: int
    why: str
    owner: str | None
    values: tuple[tuple[str, str], ...] = ()

    def may_be_of(self, owner: str) -> bool:
        """Report whether the owner with this UID owns or may adopt the object."""
        return not self.owner or self.owner == owner


def unreadable(obj: Any, why: str, *, namespaced: bool, values: tuple[tuple[str, str], ...] = ()) -> Unreadable | None:
    """Describe an object that cannot be read. Return None if even its name is unreadable, which no API server sends."""
    meta = metadata(obj) if isinstance(obj, dict) else {}
    namespace, name, uid = meta.get("namespace") or "", meta.get("name"), meta.get("uid")
    if not isinstance(name, str) or not name or not isinstance(namespace, str) or bool(namespace) != namespaced:
        return None
    try:
        controller = controller_of(obj)
        owner = controller.uid if controller is not None else ""
    except (TypeError, ValueError, AttributeError):
        owner = None
    return Unreadable(
        make_key(namespace, name),
        uid if isinstance(uid, str) else "",
        parse_version(meta.get("resourceVersion")) or 0,
        why,
        owner if isinstance(owner, str) else None,
        values,
    )
