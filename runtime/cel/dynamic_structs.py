"""Struct types that mutations construct: Object, its parts by path (Object.spec.template), and JSONPatch.

Source: k8s.io/apiserver/pkg/cel/mutation/typeresolver.go, jsonpatch.go (v1.36): an Object's fields may have any value,
but a struct within it must be named after its path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kcm.runtime.cel import types
from kcm.runtime.cel.types import Type

OBJECT, PATCH = "Object", "JSONPatch"
_PATCH_FIELDS = {"op": types.STRING, "path": types.STRING, "from": types.STRING, "value": types.DYN}


class _Fields(Mapping[str, Type]):
    """Mapping of field names to types that contains every name. other: the type of unknown fields."""

    def __init__(self, known: Mapping[str, Type], other: Type) -> None:
        self._known, self._other = known, other

    def __getitem__(self, field: str) -> Type:
        return self._known.get(field, self._other)

    def __contains__(self, field: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


class DynamicStructs(Mapping[str, Mapping[str, Type]]):
    def __init__(self, others: Mapping[str, Mapping[str, Type]]) -> None:
        self._others = others
        self._fields = _Fields({}, types.DYN)
        self._patch = _Fields(_PATCH_FIELDS, Type(""))  # a type without values, which has no name upstream

    def __getitem__(self, name: str) -> Mapping[str, Type]:
        if name == PATCH:
            return self._patch
        if name == OBJECT or name.startswith(f"{OBJECT}."):
            return self._fields
        return self._others[name]

    def __contains__(self, name: object) -> bool:
        return name in (PATCH, OBJECT) or str(name).startswith(f"{OBJECT}.") or name in self._others

    def __iter__(self) -> Iterator[str]:
        return iter(self._others)

    def __len__(self) -> int:
        return len(self._others)
