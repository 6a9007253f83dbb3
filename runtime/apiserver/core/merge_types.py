"""Cache of the merge types of served resources, for server-side apply and managedFields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.schema.merge_types import MergeType, built_in, of_custom_kind
from kcm.runtime.schema.api_types import built_in_types

_MOST_KEPT = 1024

_built_in_types: dict[tuple[str, str], MergeType] = {}
_custom_types: dict[int, tuple[Mapping[str, Any], MergeType]] = {}  # by the schema's identity


def merge_type_of(definition: ResourceDefinition) -> MergeType:
    if definition.dynamic:
        return _custom_type(definition.schema)
    kind = definition.api_version, definition.kind
    found = _built_in_types.get(kind)
    if found is None:
        name = built_in_types().name_of(definition.group, definition.version, definition.kind)
        found = _built_in_types[kind] = _custom_type(definition.schema) if name is None else built_in(name)
    return found


def _custom_type(schema: Mapping[str, Any] | None) -> MergeType:
    if schema is None:
        return _WITHOUT_SCHEMA
    kept = _custom_types.get(id(schema))
    if kept is None or kept[0] is not schema:
        if len(_custom_types) >= _MOST_KEPT:
            _custom_types.clear()
        kept = _custom_types[id(schema)] = schema, of_custom_kind(schema)
    return kept[1]


_WITHOUT_SCHEMA = of_custom_kind(None)
