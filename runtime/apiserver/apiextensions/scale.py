"""Validation of the fields of a custom object that its scale subresource maps to.

Source: apiextensions-apiserver pkg/registry/customresource/validator.go (ValidateScaleSpec, …Status; v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.apiextensions.go_text import accessor_error
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid
from kcm.runtime.apiserver.registry.strategy import ScalePaths

_MOST = 2**31 - 1


def validate_scale(paths: ScalePaths | None, obj: Object, *, of_spec: bool = True) -> Iterator[FieldError]:
    """Validate status replicas and selector of a custom object, and its spec replicas if of_spec is true."""
    if paths is None:
        return
    if of_spec:
        yield from _replicas(paths.replicas, obj)
    yield from _replicas(paths.status_replicas, obj)
    if paths.selector:
        yield from _wrong(paths.selector, obj, str, "")


def _replicas(path: str, obj: Object) -> Iterator[FieldError]:
    wrong = list(_wrong(path, obj, int, 0))
    yield from wrong
    value = _at(path, obj)
    if wrong or value is None:
        return
    if value < 0:
        yield invalid(path, value, "should be a non-negative integer")
    elif value > _MOST:
        yield invalid(path, value, f"should be less than or equal to {_MOST}")


def _wrong(path: str, obj: Object, type_: type, zero: Any) -> Iterator[FieldError]:
    """Yield an error if the value at a path has another type than type_. zero: value that the error shows."""
    value = _at(path, obj)
    if value is not None and type(value) is not type_:
        yield invalid(path, zero, accessor_error(path, value, type_))


def _at(path: str, obj: Object) -> Any:
    value: Any = obj
    for step in path.removeprefix(".").split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value
