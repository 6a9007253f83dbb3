"""One object as a table holds it."""

from __future__ import annotations

from typing import Any

from protocols.objects import Key, Object, OwnerRef


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
