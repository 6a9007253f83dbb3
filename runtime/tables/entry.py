"""One object as a table holds it."""

from __future__ import annotations

from typing import Any, NamedTuple

from kcm.protocols.objects import Key, Object, OwnerRef, controller_of, make_key, metadata
from kcm.protocols.versions import parse_version

OWNER = "owner"
FURTHER_OWNER = "further owner"  # uids of owners that are not the controller
UNBLOCKED_OWNER = "unblocked owner"  # uids of owners whose deletion in the foreground does not wait for the object
OWNERSHIP = frozenset({OWNER, FURTHER_OWNER, UNBLOCKED_OWNER})


class Entry:
    """Immutable but for the cached decoded form.

    resource_version: as a number, comparable within one resource (KEP-5504). facts: what the table's `derive` made of
    the object, None without one. values: (index, value) pairs under which it is found.
    """

    __slots__ = ("controller", "decoded", "facts", "finalizers", "key", "raw", "resource_version", "uid", "values")

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
        self.key, self.uid, self.resource_version, self.raw = key, uid, resource_version, raw
        self.controller, self.facts, self.values, self.finalizers = controller, facts, values, finalizers
        self.decoded: Object | None = None


class Unreadable(NamedTuple):
    """An object that is there, and of which no entry can be made.

    uid: "" if it cannot be read; version: 0 if it cannot. why: one line. owner: the uid of its controller, "" if it has
    none, None if that cannot be read. values: as Table.values_of_unreadable says.
    """

    key: Key
    uid: str
    version: int
    why: str
    owner: str | None
    values: tuple[tuple[str, str], ...] = ()

    def may_be_of(self, owner: str) -> bool:
        """Whether it may count for this owner: as its own, or as one that it may adopt."""
        return not self.owner or self.owner == owner


def unreadable(obj: Any, why: str, *, namespaced: bool, values: tuple[tuple[str, str], ...] = ()) -> Unreadable | None:
    """None if not even its name can be read: no API server sends that, and nothing is known of it."""
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
