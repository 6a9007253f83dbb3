"""Objects embedded in other objects (x-kubernetes-embedded-resource), which have apiVersion, kind and metadata.

Source: apiextensions-apiserver pkg/apiserver/schema/objectmeta/{algorithm,coerce,validation}.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kcm.runtime.apiserver.apiextensions.schemas import (
    EMBEDDED,
    Schema,
    additional_of,
    items_of,
    properties_of,
)
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, required
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.rules.names import dns1035_label
from kcm.runtime.apiserver.rules.object_meta import validate_metadata
from kcm.runtime.apiserver.schema.kind_checks import built_in_type_checks
from kcm.runtime.apiserver.schema.scalars import UnmarshalTypeError

# Yields (object, path of its field) for each embedded object.
FindEmbedded = Callable[[Any, str], Iterator[tuple[dict[str, Any], str]]]


# Stand-in definition of embedded objects, whose names and namespace are validated as for any object.
_OF_CLUSTER, _OF_NAMESPACE = (
    ResourceDefinition(plural="", kind="", namespaced=namespaced, dynamic=True) for namespaced in (False, True)
)


def embedded_finder(schema: Schema) -> FindEmbedded | None:
    """Compile a function that finds embedded objects in a value of this schema.

    Return None if the schema has no embedded resources.
    """
    properties, additional, items = properties_of(schema), additional_of(schema), items_of(schema)
    fields = {
        name: in_field for name, property_ in properties.items() if (in_field := embedded_finder(property_)) is not None
    }
    in_other = None if additional is None else embedded_finder(additional)
    in_items = None if items is None else embedded_finder(items)
    is_embedded = bool(schema.get(EMBEDDED))
    if not is_embedded and not fields and in_other is None and in_items is None:
        return None

    def find(value: Any, path: str) -> Iterator[tuple[dict[str, Any], str]]:
        if type(value) is list and in_items is not None:
            for i, item in enumerate(value):
                yield from in_items(item, f"{path}[{i}]")
        elif type(value) is dict:
            if is_embedded:
                yield value, path
            for name, item in value.items():
                if name in fields:
                    yield from fields[name](item, f"{path}.{name}" if path else name)
                elif in_other is not None and name not in properties:
                    yield from in_other(item, f"{path}[{name}]")

    return find


def settle_embedded(obj: dict[str, Any], path: str) -> None:
    """Remove unknown fields and nulls from the metadata of an embedded object, in place.

    path: field path of the embedded object, for errors.
    Raises UnmarshalTypeError for a field of a wrong type.
    """
    for field in ("apiVersion", "kind"):
        if field in obj and not isinstance(obj[field], str):
            raise UnmarshalTypeError("", "", why=str(invalid(_inside(path, field), obj[field], "must be a string")))
    if obj.get("metadata") is None:
        return
    try:
        built_in_type_checks().check(_OF_CLUSTER, obj)
    except UnmarshalTypeError as err:
        wrong = invalid(_inside(path, "metadata"), obj["metadata"], str(err))
        raise UnmarshalTypeError("", "", why=str(wrong)) from err


def problems(obj: Mapping[str, Any], path: str) -> list[FieldError]:
    errors = [required(_inside(path, field)) for field in ("apiVersion", "kind") if field not in obj]
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    if api_version == "":
        errors.append(invalid(_inside(path, "apiVersion"), "", "must not be empty"))
    elif isinstance(api_version, str) and api_version.count("/") > 1:
        text = f"unexpected GroupVersion string: {api_version}"
        errors.append(invalid(_inside(path, "apiVersion"), api_version, text))
    if kind == "":
        errors.append(invalid(_inside(path, "kind"), "", "must not be empty"))
    elif isinstance(kind, str) and (wrong := dns1035_label(kind.lower())):
        text = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
        errors.append(invalid(_inside(path, "kind"), kind, text))
    meta = obj.get("metadata")
    if isinstance(meta, dict):
        named = meta if meta.get("name") else {**meta, "name": "any"}
        of_metadata = validate_metadata(_OF_NAMESPACE if meta.get("namespace") else _OF_CLUSTER, named)
        errors += [error._replace(field=_inside(path, error.field)) for error in of_metadata]
    return errors


def _inside(path: str, field: str) -> str:
    return f"{path}.{field}" if path else field
