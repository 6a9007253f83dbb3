"""Sets of fields of an object, as server-side apply records who manages what: trees in the form of FieldsV1.

    {"f:spec": {"f:replicas": {}, "f:containers": {'k:{"name":"web"}': {".": {}, "f:image": {}}}}}

A step into the tree is `f:<field>` of a map, `k:<keys as JSON>` of an element of a list that has keys, `v:<value as
JSON>` of one of a list that is a set, and "." the element itself. What is atomic is a leaf. Which lists have keys is a
fact about a built-in type; of anything else maps are looked into, and lists are atomic.

Source: kubernetes v1.36 structured-merge-diff, fieldpath and typed (ToFieldSet, RemoveItems).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from runtime.apiserver.schema.api_types import ApiTypes, Field, Type, built_in_types

Tree = dict[str, Any]
_ITSELF = "."


def field_set(value: Mapping[str, Any], type_name: str | None) -> Tree:
    """The fields that this part of an object names. type_name: in OpenAPI; None where the type is not known."""
    types = built_in_types()
    return _of_map(value, None if type_name is None else types.find(type_name), types)


def _of_map(value: Mapping[str, Any], type_: Type | None, types: ApiTypes) -> Tree:
    fields = {} if type_ is None else type_.fields
    return {f"f:{name}": _of_field(each, fields.get(name), types) for name, each in value.items() if each is not None}


def _of_field(value: Any, field: Field | None, types: ApiTypes) -> Tree:
    if isinstance(value, list):
        return {} if field is None else _of_list(value, field, types)
    if not isinstance(value, dict) or (field is not None and field.map_type == "atomic"):
        return {}
    if field is None or field.form == "map":
        return _of_map(value, None, types)
    type_ = types.find(field.struct) if field.struct else None
    if type_ is None or type_.extensions.get("mapType") == "atomic":
        return {}
    return _of_map(value, type_, types)


def _of_list(values: list[Any], field: Field, types: ApiTypes) -> Tree:
    if field.list_type == "set":
        return {f"v:{orjson.dumps(each).decode()}": {} for each in values}
    if field.list_type != "map":
        return {}
    type_ = types.find(field.struct)
    found: Tree = {}
    for each in values:
        if not isinstance(each, dict):
            continue  # refused later, with its place
        keys = {key: each.get(key, _default(type_, key)) for key in sorted(field.list_map_keys)}
        found[f"k:{orjson.dumps(keys).decode()}"] = {_ITSELF: {}, **_of_map(each, type_, types)}
    return found


def _default(type_: Type | None, key: str) -> Any:
    field = None if type_ is None else type_.fields.get(key)
    return None if field is None else field.default


def minus(one: Tree, other: Tree) -> Tree:
    """The leaves of one that are not in the other."""
    rest: Tree = {}
    for step, inner in one.items():
        if step not in other:
            rest[step] = inner
        elif inner and (left := minus(inner, other[step])):
            rest[step] = left
    return rest


def united(one: Tree, other: Tree) -> Tree:
    """The leaves of either."""
    found = dict(one)
    for step, inner in other.items():
        found[step] = united(found[step], inner) if step in found else inner
    return found


def common(one: Tree, other: Tree) -> Tree:
    """The leaves that both have."""
    found: Tree = {}
    for step, inner in one.items():
        if step in other:
            both = common(inner, other[step])
            if both or not (inner and other[step]):
                found[step] = both
    return found


def differing(fields: Tree, one: Any, other: Any) -> Tree:
    """Of these fields the ones whose values differ between two versions of an object; an absent value is one too."""
    found: Tree = {}
    for step, inner in fields.items():
        if step == _ITSELF:
            if (one is None) != (other is None):
                found[step] = {}
            continue
        ours, theirs = _at(one, step), _at(other, step)
        if not inner:
            if ours != theirs:
                found[step] = {}
        elif below := differing(inner, ours, theirs):
            found[step] = below
    return found


def without_fields(value: Any, fields: Tree) -> Any:
    """A copy without these fields; maps and lists that are empty then go too. None where nothing is left."""
    if isinstance(value, dict):
        rest = dict(value)
        for step, inner in fields.items():
            name = step[2:]
            if name in rest:
                kept = without_fields(rest[name], inner) if inner else None
                if kept is None:
                    del rest[name]
                else:
                    rest[name] = kept
        return rest or None
    if isinstance(value, list):
        steps = {id(found): inner for step, inner in fields.items() if (found := _at(value, step)) is not None}
        kept_items = []
        for each in value:
            inner = steps.get(id(each))
            if inner is None:
                kept_items.append(each)
            elif inner and _ITSELF not in inner and (left := without_fields(each, inner)) is not None:
                kept_items.append(left)
        return kept_items or None
    return value


def paths(fields: Tree, prefix: str = "") -> Iterator[str]:
    """The leaves in words: `.spec.containers[name="web"].image`."""
    for step, inner in sorted(fields.items()):
        if step == _ITSELF:
            yield prefix
            continue
        kind, _, rest = step.partition(":")
        if kind == "f":
            path = f"{prefix}.{rest}"
        elif kind == "k":
            keys = ",".join(f"{key}={orjson.dumps(value).decode()}" for key, value in orjson.loads(rest).items())
            path = f"{prefix}[{keys}]"
        else:
            path = f"{prefix}[={rest}]"
        if inner:
            yield from paths(inner, path)
        else:
            yield path


def _at(value: Any, step: str) -> Any:
    """What this step leads to; None if it is not there."""
    kind, rest = step[0], step[2:]
    if kind == "f":
        return value.get(rest) if isinstance(value, dict) else None
    if not isinstance(value, list):
        return None
    wanted = orjson.loads(rest)
    if kind == "v":
        return next((each for each in value if each == wanted), None)
    for each in value:
        # A key that is left out has its default, which is what the step says where it is absent here.
        if isinstance(each, dict) and all(each.get(key, part) == part for key, part in wanted.items()):
            return each
    return None
