"""Pruning, removal of nulls and defaulting of an object by its schema, together called settling.

Upstream makes one pass for each step. Here they are one pass, compiled once per schema. The defaults themselves are
pruned and defaulted when the schema is compiled.

Defaults of list items can multiply a small request body, so the size of all added defaults is bounded (Meter), and so
are the reported paths of unknown fields (UnknownFields).

Source: apiextensions-apiserver pkg/apiserver/schema/{pruning,defaulting}/*.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from kcm.runtime.apiserver.apiextensions.schemas import (
    EMBEDDED,
    META_FIELDS,
    PRESERVE,
    Schema,
    additional_of,
    items_of,
    properties_of,
)
from kcm.runtime.apiserver.schema.field_validation import MOST_REPORTED
from kcm.runtime.apiserver.storage.sizes import MOST_SENT, TooLargeError

MOST_MADE = MOST_SENT  # bytes of JSON that defaults may add to an object; a larger object could not be stored
LONGEST_PATHS = 64 * 1024  # characters of all reported paths of unknown fields


class UnknownFields:
    """Paths of unknown fields in an object. Their number is limited, since the message that lists them is truncated."""

    __slots__ = ("_left", "paths")

    def __init__(self) -> None:
        self.paths: list[str] = []
        self._left = LONGEST_PATHS

    def add(self, path: str) -> None:
        self._left -= len(path)
        self.paths.append(path)

    @property
    def is_full(self) -> bool:
        return len(self.paths) >= MOST_REPORTED or self._left <= 0


# (value, found, path): settles a map or list in place; adds unknown fields to found if given.
Settle = Callable[[Any, UnknownFields | None, str], None]

_NESTED = (dict, list)


class Meter:
    """Budget for the defaults added to an object, in bytes of JSON."""

    __slots__ = ("left",)

    def __init__(self, most: int = MOST_MADE) -> None:
        self.left = most

    def spend(self, size: int) -> None:
        """Reduce the budget. Raises TooLargeError if the budget is exceeded; the client receives it as the response."""
        self.left -= size
        if self.left < 0:
            raise TooLargeError


def settler(schema: Schema | None, meter: Meter, *, is_root: bool = False, defaults: bool = True) -> Settle:
    """Compile a schema into a function that prunes, removes nulls and sets defaults.

    meter: budget that the added defaults reduce.
    is_root: whether the schema is that of a whole object, so that apiVersion, kind and metadata are known fields.
    defaults: whether defaults are set.
    """
    if is_root:
        schema = {**(schema or {}), EMBEDDED: True}
    if schema is None:
        return _remove_all
    return _settle_known(schema, meter, defaults) if schema.get(PRESERVE) else _settle_all(schema, meter, defaults)


def _maker(default: Any, meter: Meter, name: str = "") -> Callable[[], Any]:
    """Return a function that returns a copy of the default and charges its size to the meter.

    name: name of the field with this default, whose size is charged too.
    """
    raw = orjson.dumps(default)
    spend, size = meter.spend, len(raw) + len(name)
    if not isinstance(default, _NESTED):

        def make_scalar() -> Any:
            spend(size)
            return default

        return make_scalar

    def make() -> Any:
        spend(size)
        return orjson.loads(raw)

    return make


class _Parts:
    """Compiled parts of a schema: a function for each field, the fields whose nulls are removed, and the defaults."""

    def __init__(self, schema: Schema, meter: Meter, defaults: bool) -> None:
        properties, additional = properties_of(schema), additional_of(schema)
        self.fields: dict[str, Settle] = {
            name: settler(field, meter, defaults=defaults) for name, field in properties.items()
        }
        self.null_goes = {
            name
            for name, property_ in properties.items()
            if not property_.get("nullable") and property_.get("default") is None
        }
        self.defaults: dict[str, Callable[[], Any]] = {}
        for name, property_ in properties.items():
            if defaults and property_.get("default") is not None:
                self.defaults[name] = _maker(_settled_default(property_, self.fields[name], meter), meter, name)
        self.replaced = {name for name in self.defaults if not properties[name].get("nullable")}
        takes_any = schema.get("additionalProperties") is not None
        self.other: Settle | None = settler(additional, meter, defaults=defaults) if takes_any else None
        self.other_null = _default_of_items(additional, meter)
        self.known = META_FIELDS if schema.get(EMBEDDED) else ()


def _settled_default(schema: Schema, settle: Settle, meter: Meter) -> Any:
    default = _maker(schema["default"], meter)()
    if isinstance(default, _NESTED):
        settle(default, None, "")
    return default


def _settle_all(schema: Schema, meter: Meter, defaults: bool) -> Settle:
    """Compile a schema whose unknown fields are removed."""
    of_items = settler(items_of(schema), meter, defaults=defaults)
    return _of_parts(schema, meter, keeps_unknown=False, of_items=of_items, defaults=defaults)


def _settle_known(schema: Schema, meter: Meter, defaults: bool) -> Settle:
    """Compile a schema whose unknown fields are preserved. Known fields are still pruned and defaulted inside."""
    items = items_of(schema)
    of_items = _keep if items is None else _settle_known(items, meter, defaults)
    return _of_parts(schema, meter, keeps_unknown=True, of_items=of_items, defaults=defaults)


def _keep(_value: Any, _unknown: UnknownFields | None, _path: str) -> None:
    return None


def _remove_all(value: Any, unknown: UnknownFields | None, path: str) -> None:
    if type(value) is dict:
        for name in value if unknown is not None else ():
            if unknown is None or unknown.is_full:
                break
            unknown.add(f"{path}.{name}" if path else name)
        value.clear()
    else:
        for i, item in enumerate(value):
            if type(item) in _NESTED:
                _remove_all(item, unknown, "" if unknown is None else f"{path}[{i}]")


def _of_parts(schema: Schema, meter: Meter, *, keeps_unknown: bool, of_items: Settle, defaults: bool) -> Settle:
    parts: _Parts | None = None  # compiled on first use: most schemas are larger than their objects

    def settle(value: Any, unknown: UnknownFields | None, path: str) -> None:
        nonlocal parts
        if parts is None:
            parts = _Parts(schema, meter, defaults)
        if unknown is not None and unknown.is_full:
            unknown = None
        if type(value) is dict:
            _settle_map(parts, value, unknown, path, keeps_unknown)
        else:
            _settle_list(value, unknown, path, of_items, default)

    items = items_of(schema)
    default = _default_of_items(items, meter)
    return settle


def _default_of_items(items: Schema | None, meter: Meter) -> Callable[[], Any] | None:
    """Return a function that makes the default which replaces null in a list or map; None if null is kept."""
    return None if items is None or items.get("nullable") else _maker(items.get("default"), meter)


def _settle_list(
    value: list[Any], unknown: UnknownFields | None, path: str, of_items: Settle, default: Callable[[], Any] | None
) -> None:
    for i, item in enumerate(value):
        if item is None and default is not None:
            item = value[i] = default()
        if type(item) in _NESTED:
            of_items(item, unknown, "" if unknown is None else f"{path}[{i}]")


def _settle_map(parts: _Parts, value: Any, unknown: UnknownFields | None, path: str, keeps_unknown: bool) -> None:
    fields, gone = parts.fields, []
    for name, item in value.items():
        if type(item) in _NESTED:
            if name in parts.known:
                continue
            settle = fields.get(name) or parts.other
            if settle is not None:
                settle(item, unknown, "" if unknown is None else f"{path}.{name}" if path else name)
                continue
        elif name in fields:
            if item is None and name in parts.null_goes:
                gone.append(name)
            continue
        elif parts.other is not None:
            if item is None and parts.other_null is not None:
                value[name] = parts.other_null()
                if value[name] is None:
                    gone.append(name)
            continue
        if keeps_unknown or name in parts.known:
            continue
        gone.append(name)
        if unknown is not None and not unknown.is_full and (path or name not in META_FIELDS):
            unknown.add(f"{path}.{name}" if path else name)
    for name in gone:
        del value[name]
    for name, default in parts.defaults.items():
        if name not in value or (value[name] is None and name in parts.replaced):
            value[name] = default()
