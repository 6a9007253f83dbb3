"""Which part of an old object a part of a new one comes from, so that what an update leaves alone may stay wrong.

Source: apiserver pkg/cel/common/equality.go, maplist.go (v1.36).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from kcm.runtime.apiserver.apiextensions.schemas import (
    LIST_KEYS,
    LIST_TYPE,
    Schema,
    additional_of,
    items_of,
    properties_of,
)


class Pair(NamedTuple):
    """A value, the old one that it comes from, and their schema."""

    new: Any
    old: Any
    schema: Schema

    @property
    def same(self) -> bool:
        return bool(self.new == self.old) and _same_types(self.new, self.old)

    def at_key(self, name: str) -> Pair | None:
        if not isinstance(self.old, dict) or name not in self.old:
            return None
        schema = properties_of(self.schema).get(name) or additional_of(self.schema)
        return None if schema is None else Pair(self.new[name], self.old[name], schema)

    def at_index(self, index: int) -> Pair | None:
        """Only items of a list with keys are found again."""
        items, item = items_of(self.schema), self.new[index]
        if items is None or self.schema.get(LIST_TYPE) != "map" or not isinstance(self.old, list):
            return None
        key = _key(self.schema, item)
        found = next((one for one in self.old if key is not None and _key(self.schema, one) == key), None)
        return None if found is None else Pair(item, found, items)


def _key(schema: Schema, item: Any) -> bytes | None:
    """The item's keys with their defaults; None of what is no map."""
    if not isinstance(item, dict):
        return None
    properties = properties_of(items_of(schema) or {})
    keys = schema.get(LIST_KEYS) or ()
    return orjson.dumps([item.get(name, (properties.get(name) or {}).get("default")) for name in keys])


def _same_types(one: Any, other: Any) -> bool:
    """Of equal values: 1, 1.0 and true are equal to Python."""
    if type(one) is not type(other):
        return False
    if type(one) is dict:
        return all(_same_types(value, other[name]) for name, value in one.items())
    return type(one) is not list or all(map(_same_types, one, other))
