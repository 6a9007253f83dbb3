"""Semantic equality of objects and parts of objects.

Upstream compares decoded Go structs (apimachinery pkg/api/equality, Semantic.DeepEqual); we compare decoded JSON. A
zero value, which a Go encoder omits, equals a missing value:

    missing == null == []        in every field
    missing == "" == 0 == false  not in pointer fields, where zero is a value: runAsUser: 0
    missing == {}                only in maps, and in fields that are not pointers: resources: {}; not if presence has
                                 a meaning: emptyDir: {}, labelSelector: {}

In maps with keys of the user's choice (labels, annotations, …) an entry with the value "" is an entry. Quantities
compare by value, "1" == "1000m", and so do numbers; but no number equals a string or a boolean. The order of a list
is significant. semantic_facts.py lists which fields of workloads, and of the types within them, are pointers. Unlisted
fields, such as those of later releases, are compared as values, and maps in them as structs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from kcm.protocols.hashing import POD_TEMPLATE_HASH_LABEL
from kcm.protocols.objects import Object
from kcm.protocols.quantities import parse_quantity
from kcm.protocols.semantic_facts import FACTS

POD_TEMPLATE = "core.v1.PodTemplateSpec"

_UNKNOWN_TYPE = "?"


class _Field(NamedTuple):
    """Type of a field.

    form: "" for a single value, "[]" for a list, "{}" for a map.
    of: "" for a plain value, "quantity", "any", or the type of a struct.
    """

    pointer: bool
    form: str
    of: str


_UNKNOWN = _Field(pointer=False, form="", of=_UNKNOWN_TYPE)


def semantically_equal(a: Any, b: Any, type_: str) -> bool:
    """Compare two decoded values of this type (see semantic_facts); None equals a value without fields."""
    if type_ not in _types():
        raise ValueError(f"semantic_facts has no type {type_}")
    return _equal_values(a, b, type_)


def without_hash_label(template: Mapping[str, Any]) -> Object:
    """Return the template without the label pod-template-hash. The argument is not modified."""
    metadata = template.get("metadata") or {}
    labels = metadata.get("labels") or {}
    if POD_TEMPLATE_HASH_LABEL not in labels:
        return dict(template)
    rest = {key: value for key, value in labels.items() if key != POD_TEMPLATE_HASH_LABEL}
    return {**template, "metadata": {**metadata, "labels": rest}}


def _equal(a: Any, b: Any, field: _Field) -> bool:
    """Compare two values of a field; None is a missing value."""
    if a is b:
        return True
    match field.form:
        case "[]" if _are(list, a, b):
            ours, theirs = a or [], b or []
            return len(ours) == len(theirs) and all(
                _equal_values(our, their, field.of) for our, their in zip(ours, theirs, strict=True)
            )
        case "{}" if _are(dict, a, b):
            ours, theirs = a or {}, b or {}
            return ours.keys() == theirs.keys() and all(
                _equal_values(value, theirs[key], field.of) for key, value in ours.items()
            )
    if field.pointer and (a is None or b is None):
        return False
    return _equal_values(a, b, field.of)


def _are(type_: type, a: Any, b: Any) -> bool:
    return (a is None or type(a) is type_) and (b is None or type(b) is type_)


def _equal_values(a: Any, b: Any, of: str) -> bool:
    if of == "quantity":
        return _same_quantity(a, b)
    if of == "any":
        return bool(a == b)
    is_struct = bool(of) and of != _UNKNOWN_TYPE
    if type(a) is type(b) is dict or (is_struct and _are(dict, a, b)):
        return _equal_structs(a or {}, b or {}, of)
    if type(a) is type(b) is list:
        return len(a) == len(b) and all(_equal_values(in_a, in_b, of) for in_a, in_b in zip(a, b, strict=True))
    if a is None or b is None:
        other = a if b is None else b
        return not other and not isinstance(other, dict)
    if isinstance(a, bool) is not isinstance(b, bool):
        return False
    return bool(a == b)


def _equal_structs(a: Mapping[str, Any], b: Mapping[str, Any], type_: str) -> bool:
    fields = _fields(type_)
    return all(_equal(a.get(name), b.get(name), fields.get(name, _UNKNOWN)) for name in a.keys() | b.keys())


def _same_quantity(a: Any, b: Any) -> bool:
    """Compare by value. A missing quantity is 0, and an invalid one equals only itself."""
    try:
        return parse_quantity(a or 0) == parse_quantity(b or 0)
    except ValueError:
        return bool(a == b)


@cache
def _types() -> Mapping[str, str]:
    """Return the fields of each type, in the notation of semantic_facts."""
    lines = FACTS.strip().replace("\n  ", " ").splitlines()
    return {type_: fields for type_, _, fields in (line.partition(" ") for line in lines)}


@cache
def _fields(type_: str) -> Mapping[str, _Field]:
    fields = {}
    for word in _types().get(type_, "").split():
        name, _, held = word.partition(":")
        pointer, held = held.startswith("*"), held.removeprefix("*")
        form = held[:2] if held[:2] in ("[]", "{}") else ""
        fields[name] = _Field(pointer, form, held.removeprefix(form))
    return fields
