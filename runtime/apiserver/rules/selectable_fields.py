"""Getters for the fields that a field selector can select by.

Source: kubernetes pkg/apis/core/v1/conversion.go, pkg/registry/*/*/strategy.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.registry.strategy import FieldGetter

# The error of kinds whose fields upstream converts by hand; Strategy.unsupported_field is that of the others.
FIELD_LABEL_NOT_SUPPORTED = "field label not supported: {}"


def text_at(path: str) -> FieldGetter:
    """Return a getter of the text at a dotted path; it returns "" if the field is missing."""
    steps = path.split(".")

    def get(obj: Object) -> str:
        value = obj
        for step in steps:
            value = value.get(step) or {}
        return str(value) if value else ""

    return get


def boolean_at(path: str) -> FieldGetter:
    text = text_at(path)
    return lambda obj: "true" if text(obj) else "false"


def count_at(path: str) -> FieldGetter:
    text = text_at(path)
    return lambda obj: text(obj) or "0"


def fields_at(*paths: str) -> Mapping[str, FieldGetter]:
    """Getters for fields whose label is their path."""
    return {path: text_at(path) for path in paths}
