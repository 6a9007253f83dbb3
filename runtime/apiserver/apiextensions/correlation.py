"""Correlation of parts of an updated object with the old object, so that unchanged invalid values are tolerated.

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
    """New value, the old value that it replaces, and the schema of both."""

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
        """Return the pair of a list item and the old item with the same map keys.

        Return None if there is no such item, or if the list is not of type map: only items of maps are correlated.
        """
        items, item = items_of(self.schema), self.new[index]
        if items is None or self.schema.get(LIST_TYPE) != "map" or not isinstance(self.old, list):
            return None
        key = _key(self.schema, item)
        found = next(
            (candidate for candidate in self.old if key is not None and _key(self.schema, candidate) == key), None
        )
        return None if found is None else Pair(item, found, items)


def _key(schema: Schema, item: Any) -> bytes | None:
    """Return the encoded list-map keys of an item, with their defaults; None if the item is not a JSON object."""
    if not isinstance(item, dict):
        return None
    properties = properties_of(items_of(schema) or {})
    keys = schema.get(LIST_KEYS) or ()
    return orjson.dumps([item.get(name, (properties.get(name) or {}).get("default")) for name in keys])


def _same_types(value: Any, other: Any) -> bool:
    """Report whether equal values also have equal types: 1, 1.0 and true are equal in Python."""
    if type(value) is not type(other):
        return False
    if type(value) is dict:
        return all(_same_types(field, other[name]) for name, field in value.items())
    return type(value) is not list or all(map(_same_types, value, other))
