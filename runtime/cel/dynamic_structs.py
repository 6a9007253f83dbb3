"""Struct types that mutations make: Object and what lies in it by its path (Object.spec.template), and JSONPatch.

Source: k8s.io/apiserver/pkg/cel/mutation/typeresolver.go, jsonpatch.go (v1.36): an Object's fields may hold anything,
but a struct in it must be named after its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kcm.runtime.cel import types
from kcm.runtime.cel.types import Type

OBJECT, PATCH = "Object", "JSONPatch"
_PATCH_FIELDS = {"op": types.STRING, "path": types.STRING, "from": types.STRING, "value": types.DYN}


class _Fields(Mapping[str, Type]):
    """Any name is a field. other: the type of those that are not known."""

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
        self._patch = _Fields(_PATCH_FIELDS, Type(""))  # a type that nothing has, and that has no name upstream

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
