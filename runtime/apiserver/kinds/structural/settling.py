"""What a schema makes of an object that is read: unknown fields and nulls go, defaults come.

Upstream takes a pass for each of pruning, nulls and defaults; here they are one, compiled once for a schema. A default
is settled when it is compiled.

Source: apiextensions-apiserver pkg/apiserver/schema/{pruning,defaulting}/*.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from runtime.apiserver.kinds.structural.schemas import (
    EMBEDDED,
    META_FIELDS,
    PRESERVE,
    Schema,
    additional_of,
    items_of,
    properties_of,
)

# (value, paths, path): changes a map or a list in place; adds to paths, unless it is None, where unknown fields were.
Settle = Callable[[Any, list[str] | None, str], None]

_NESTED = (dict, list)


def settler(schema: Schema | None, *, is_root: bool = False, defaults: bool = True) -> Settle:
    """is_root: of a whole object, whose apiVersion, kind and metadata are known. defaults: whether they are set."""
    if is_root:
        schema = {**(schema or {}), EMBEDDED: True}
    if schema is None:
        return _remove_all
    return _settle_known(schema, defaults) if schema.get(PRESERVE) else _settle_all(schema, defaults)


def _maker(default: Any) -> Callable[[], Any]:
    """A copy of a default each time."""
    if not isinstance(default, _NESTED):
        return lambda: default
    raw = orjson.dumps(default)
    return lambda: orjson.loads(raw)


class _Parts:
    """What is compiled of a schema: how each field is settled, which nulls go, and the defaults."""

    def __init__(self, schema: Schema, defaults: bool) -> None:
        properties, additional = properties_of(schema), additional_of(schema)
        self.fields: dict[str, Settle] = {name: settler(one, defaults=defaults) for name, one in properties.items()}
        self.null_goes = {
            name for name, one in properties.items() if not one.get("nullable") and one.get("default") is None
        }
        self.defaults: dict[str, Callable[[], Any]] = {}
        for name, one in properties.items():
            if defaults and one.get("default") is not None:
                self.defaults[name] = _maker(_settled_default(one, self.fields[name]))
        self.replaced = {name for name in self.defaults if not properties[name].get("nullable")}
        takes_any = schema.get("additionalProperties") is not None
        self.other: Settle | None = settler(additional, defaults=defaults) if takes_any else None
        self.other_null = _default_of_items(additional)
        self.known = META_FIELDS if schema.get(EMBEDDED) else ()


def _settled_default(schema: Schema, settle: Settle) -> Any:
    default = _maker(schema["default"])()
    if isinstance(default, _NESTED):
        settle(default, None, "")
    return default


def _settle_all(schema: Schema, defaults: bool) -> Settle:
    """All that the schema does not name goes."""
    of_items = settler(items_of(schema), defaults=defaults)
    return _of_parts(schema, keeps_unknown=False, of_items=of_items, defaults=defaults)


def _settle_known(schema: Schema, defaults: bool) -> Settle:
    """Of a schema that keeps what it does not name; what it names is settled all the same."""
    items = items_of(schema)
    of_items = _keep if items is None else _settle_known(items, defaults)
    return _of_parts(schema, keeps_unknown=True, of_items=of_items, defaults=defaults)


def _keep(_value: Any, _unknown: list[str] | None, _path: str) -> None:
    return None


def _remove_all(value: Any, unknown: list[str] | None, path: str) -> None:
    if type(value) is dict:
        if unknown is not None:
            unknown += [f"{path}.{name}" if path else name for name in value]
        value.clear()
    else:
        for i, item in enumerate(value):
            if type(item) in _NESTED:
                _remove_all(item, unknown, f"{path}[{i}]")


def _of_parts(schema: Schema, *, keeps_unknown: bool, of_items: Settle, defaults: bool) -> Settle:
    parts: _Parts | None = None  # compiled when an object first has it: most schemas are larger than their objects

    def settle(value: Any, unknown: list[str] | None, path: str) -> None:
        nonlocal parts
        if parts is None:
            parts = _Parts(schema, defaults)
        if type(value) is dict:
            _settle_map(parts, value, unknown, path, keeps_unknown)
        else:
            _settle_list(value, unknown, path, of_items, default)

    items = items_of(schema)
    default = _default_of_items(items)
    return settle


def _default_of_items(items: Schema | None) -> Callable[[], Any] | None:
    """For a null among the items of a list, or the values of a map; None where a null stays."""
    return None if items is None or items.get("nullable") else _maker(items.get("default"))


def _settle_list(
    value: list[Any], unknown: list[str] | None, path: str, of_items: Settle, default: Callable[[], Any] | None
) -> None:
    for i, item in enumerate(value):
        if item is None and default is not None:
            item = value[i] = default()
        if type(item) in _NESTED:
            of_items(item, unknown, "" if unknown is None else f"{path}[{i}]")


def _settle_map(parts: _Parts, value: Any, unknown: list[str] | None, path: str, keeps_unknown: bool) -> None:
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
        if unknown is not None and (path or name not in META_FIELDS):
            unknown.append(f"{path}.{name}" if path else name)
    for name in gone:
        del value[name]
    for name, default in parts.defaults.items():
        if name not in value or (value[name] is None and name in parts.replaced):
            value[name] = default()
