"""Representations of Structs."""

from __future__ import annotations

from msgspec import Struct


def repr_without(value: Struct, *hidden: str) -> str:
    """Return the repr() of a Struct without the hidden fields, such as secrets."""
    names = [name for name in value.__struct_fields__ if name not in hidden]
    return f"{type(value).__qualname__}({', '.join([f'{name}={getattr(value, name)!r}' for name in names])})"
