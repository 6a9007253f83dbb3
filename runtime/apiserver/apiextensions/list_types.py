"""Duplicates in lists with x-kubernetes-list-type set or map.

Source: apiextensions-apiserver pkg/apiserver/schema/listtype/validation.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import orjson

from kcm.runtime.apiserver.apiextensions.go_text import sorted_keys
from kcm.runtime.apiserver.apiextensions.schemas import (
    LIST_KEYS,
    LIST_TYPE,
    Schema,
    additional_of,
    items_of,
    properties_of,
)
from kcm.runtime.apiserver.errors.field_errors import FieldError, duplicate, invalid

# (value, path of its field) → errors
CheckLists = Callable[[Any, str], Iterator[FieldError]]


def list_checker(schema: Schema) -> CheckLists | None:
    """Compile a function that reports duplicates in the lists of a value of this schema.

    Return None if the schema has no lists of type set or map.
    """
    properties, additional, items = properties_of(schema), additional_of(schema), items_of(schema)
    fields = {
        name: of_field for name, property_ in properties.items() if (of_field := list_checker(property_)) is not None
    }
    of_other = None if additional is None else list_checker(additional)
    of_items = None if items is None else list_checker(items)
    list_type, keys = schema.get(LIST_TYPE) or "", tuple(schema.get(LIST_KEYS) or ())
    if list_type not in ("set", "map") and not fields and of_other is None and of_items is None:
        return None

    def check(value: Any, path: str) -> Iterator[FieldError]:
        if type(value) is list:
            if list_type == "set":
                yield from _repeated(value, path)
            elif list_type == "map":
                yield from _repeated_keys(value, keys, path)
            if of_items is not None:
                for i, item in enumerate(value):
                    yield from of_items(item, f"{path}[{i}]")
        elif type(value) is dict:
            for name, item in value.items():
                if name in fields:
                    yield from fields[name](item, f"{path}.{name}" if path else name)
                elif of_other is not None:
                    yield from of_other(item, f"{path}[{name}]")

    return check


def _repeated(values: list[Any], path: str) -> Iterator[FieldError]:
    """Yield each duplicate value once, at its first repetition."""
    times: dict[bytes, int] = {}
    for i, value in enumerate(values):
        known = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        times[known] = times.get(known, 0) + 1
        if times[known] == 2:
            yield duplicate(f"{path}[{i}]", sorted_keys(value))


def _repeated_keys(values: list[Any], keys: tuple[str, ...], path: str) -> Iterator[FieldError]:
    for i, value in enumerate(values):
        if value is not None and type(value) is not dict:
            yield invalid(f"{path}[{i}]", value, "must be an object for an array of list-type map")
            return
    yield from _repeated(
        [{key: element[key] for key in keys if key in element} for element in (each or {} for each in values)], path
    )
