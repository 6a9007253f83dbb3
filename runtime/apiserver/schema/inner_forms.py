"""Values in the form of kube-apiserver's internal types, which its error messages show.

In this form a value has Go's field names and includes zero values: {"Replicas": 0} instead of {}. The internal types
(Kubernetes' pkg/apis) are in inner_types.json, which generate/inner_types.py writes. The file is read when an error
message first needs it.

Source: apimachinery pkg/util/diff/diff.go, pkg/util/validation/field/errors.go (v1.36).
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import orjson

FILE = Path(__file__).with_name("inner_types.json")
# Fields of a pod's spec in JSON that the internal type has in its security context.
_HOST_FIELDS = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")
_META_FIELDS = (
    *("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp"),
    *("deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers"),
)
_ZEROS: Mapping[str, Any] = {"string": "", "bool": False, "resource.Quantity": "0", "intstr.IntOrString": 0}
_MAP = re.compile(r"map\[[^]]*\](.+)")
_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


@cache
def _types() -> dict[str, Any]:
    types: dict[str, Any] = orjson.loads(FILE.read_bytes())
    return types


def inner_form(value: Any, type_: str) -> Any:
    """Convert a value from its JSON form to the fields of an internal type.

    type_: name of the internal type (`core.PodSpec`), or of a pointer, list or map of one (`[]core.Container`).
    """
    if type_.startswith("*"):
        return None if value is None else inner_form(value, type_[1:])
    if type_.startswith("[]"):
        return None if value is None else [inner_form(item, type_[2:]) for item in value]
    if found := _MAP.match(type_):
        return None if value is None else {name: inner_form(value[name], found[1]) for name in sorted(value)}
    known = _types().get(type_)
    if isinstance(known, str):
        return inner_form(value, known)
    if known is not None:
        return dict(_fields(_with_host_fields_moved(value or {}, type_), known))
    if value is not None:
        return _sorted(value)
    if type_.startswith(("metav1.", "runtime.")):
        return {} if type_ == "metav1.LabelSelector" else None
    return _ZEROS.get(type_, 0)


def difference(old: Any, new: Any, type_: str) -> str:
    """Return the unified diff of two values in internal form. type_: see `inner_form`."""
    before, after = (_lines(inner_form(value, type_)) for value in (old, new))
    return "".join(list(difflib.unified_diff(before, after))[2:])


def _lines(value: Any) -> list[str]:
    text = json.dumps(value, indent=1, ensure_ascii=False).translate(_HTML)
    return [f"{line}\n" for line in text.split("\n")]


def _fields(value: Mapping[str, Any], fields: list[list[str]]) -> Iterator[tuple[str, Any]]:
    """Yield (Go's field name, value) for each field of an internal type.

    A field of the value is found by its name in lower case, which is the same in Go and in JSON.
    fields: [name, type] of each field, as in inner_types.json.
    """
    given = {name.lower(): inner for name, inner in value.items()}
    for name, type_ in fields:
        if name:
            yield name, inner_form(given.get(name.lower()), type_)
        elif type_ == "metav1.ObjectMeta":
            meta = value.get("metadata") or {}
            yield from ((field, _sorted(meta[field])) for field in _META_FIELDS if field in meta)
        elif type_ != "metav1.TypeMeta":
            yield from _fields(value, _types()[type_.removeprefix("*")])


def _with_host_fields_moved(value: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    if type_ != "core.PodSpec":
        return value
    context = value.get("securityContext")
    moved = {name: value[name] for name in _HOST_FIELDS if name in value}
    return {**value, "securityContext": {**(context or {}), **moved} if moved or context is not None else None}


def _sorted(value: Any) -> Any:
    """Return a value with its keys in Go's order: sorted, except that matchLabels is before matchExpressions."""
    if isinstance(value, dict):
        selector = {"matchLabels", "matchExpressions"}
        names = sorted(value, reverse=bool(value) and value.keys() <= selector)
        return {name: _sorted(value[name]) for name in names}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
