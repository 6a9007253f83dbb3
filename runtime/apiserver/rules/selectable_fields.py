"""Functions that read the fields supported by field selectors.

Source: kubernetes pkg/apis/core/v1/conversion.go, pkg/registry/*/*/strategy.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.registry.strategy import FieldGetter

# Error text for kinds with a hand-written conversion of field labels upstream. Other kinds have
# Strategy.unsupported_field.
FIELD_LABEL_NOT_SUPPORTED = "field label not supported: {}"


def text_at(path: str) -> FieldGetter:
    """Return a function that reads the text at a dotted path of an object; "" if the field is missing."""
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
    """Return the functions that read fields whose selector label equals their path."""
    return {path: text_at(path) for path in paths}
