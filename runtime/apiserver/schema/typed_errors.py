"""Validation of applied objects against their merge type, before they are merged.

Source: structured-merge-diff typed/validate.go, typed/helpers.go (v1.36).
Differs from upstream: values of a wrong type are rejected later, by the decoder.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from kcm.runtime.apiserver.schema.field_sets import path_text, step_of
from kcm.runtime.apiserver.schema.merge_types import MergeType

MOST = 300  # number of errors that are reported; upstream reports all


class _Path(NamedTuple):
    """Path of a field, as a linked list. Its text is built only for errors, because list keys can be long."""

    outer: _Path | None
    step: str

    def __str__(self) -> str:
        steps: list[str] = []
        here: _Path | None = self
        while here is not None:
            steps.append(here.step)
            here = here.outer
        return "".join(reversed(steps))


def typed_errors(obj: Any, type_: MergeType) -> list[str]:
    """Return error texts for an applied object: unknown fields, duplicate list elements, elements without a key."""
    found = list(islice(_errors(obj, type_, None), MOST + 1))
    return found if len(found) <= MOST else [*found[:MOST], "and more"]


def _errors(value: Any, type_: MergeType, path: _Path | None) -> Iterator[str]:
    here = "" if path is None else path
    if isinstance(value, dict):
        closed = type_.is_closed
        for name, field in value.items():
            if closed and name not in type_.named:
                yield f"{here}.{name}: field not declared in schema"
            elif isinstance(field, dict | list):  # scalars are checked by the decoder
                yield from _errors(field, type_.field(name), _Path(path, f".{name}"))
    elif isinstance(value, list) and type_.is_associative:
        seen = set()
        for i, element in enumerate(value):
            step = step_of(element, type_)
            if step is None:
                yield f"{here}: element {i}: {_why_no_step(element, type_)}"
                continue
            if step in seen:
                yield f"{here}: duplicate entries for key {path_text(step)}"
            seen.add(step)
            if isinstance(element, dict | list):
                yield from _errors(element, type_.element, _Path(path, path_text(step)))


def _why_no_step(element: Any, type_: MergeType) -> str:
    if type_.is_set:
        if isinstance(element, dict):
            return "associative list without keys has an element that's a map type"
        if isinstance(element, list):
            return "not supported: associative list with lists as elements"
        return "associative list without keys has an element that's an explicit null"
    if element is None:
        return "associative list with keys may not have a null element"
    if not isinstance(element, dict):
        return "associative list with keys may not have non-map elements"
    keys = " ".join(f'"{key}"' for key in type_.keys)
    return (
        f"associative list with keys has an element that omits all key fields [{keys}] "
        "(and doesn't have default values for any key fields)"
    )
