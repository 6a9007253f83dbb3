"""Comparison of the fields of two versions of an object.

Source: structured-merge-diff typed/compare.go (v1.36).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kcm.runtime.apiserver.schema.field_sets import ITSELF, Tree, by_step, united
from kcm.runtime.apiserver.schema.merge_types import MergeType
from kcm.runtime.cel.effort import pass_time

_LEAF: Tree = {}
_ABSENT = object()


class Comparison(NamedTuple):
    """Differences between two versions of an object: sets of removed, modified and added fields.

    The sets are trees, see field_sets.py. A removed or added map or list is included with everything below it.
    """

    removed: Tree
    modified: Tree
    added: Tree


def compare(old: Any, new: Any, type_: MergeType) -> Comparison:
    """Return the fields that differ between two maps, such as two versions of an object.

    The work counts towards the allowance of the computation (cel/effort.py), because maps may be large.
    """
    found = Comparison({}, {}, {})
    if old != new:
        _compare_maps(old, new, type_, found)
    return found


def non_zero_fields(value: Any, zero: Any, type_: MergeType) -> Tree | None:
    """Return the field set in which a value differs from the zero value of its type; None if the two are equal."""
    if value == zero:
        return None
    found = Comparison({}, {}, {})
    _compare("", zero, value, type_, found)
    return united(found.modified, found.added).get("")


def all_fields(value: Any, type_: MergeType) -> Tree:
    """Return the field set with all fields of an added or removed value, including the value itself."""
    if not value or type_.atomic:
        return _LEAF
    if isinstance(value, dict):
        pass_time(len(value))
        found = {ITSELF: _LEAF}
        omitted = type_.omitted
        for name, inner in value.items():
            if inner or name not in omitted:
                found[f"f:{name}"] = all_fields(inner, type_.field(name))
        for name in type_.nulls:
            found.setdefault(f"f:{name}", _LEAF)
        return found
    if isinstance(value, list) and type_.is_associative:
        found, element = {ITSELF: _LEAF}, type_.element
        for step, elements in by_step(value, type_).items():
            found[step] = all_fields(elements[0], element) if len(elements) == 1 else _LEAF
        return found
    return _LEAF


def _compare(step: str, old: Any, new: Any, type_: MergeType, found: Comparison) -> None:
    """Add the differences between the old and the new value of a field to `found`. null counts as a value.

    step: key under which the field is added to the sets in `found`, such as "f:spec"; see field_sets.py.
    """
    if not type_.atomic and (old or new):
        if isinstance(old or new, dict) and isinstance(old or {}, dict) and isinstance(new or {}, dict):
            inner = Comparison({}, {}, {})
            _compare_maps(old or {}, new or {}, type_, inner)
            _add_below(step, inner, found)
            return
        if type_.is_associative and isinstance(old or [], list) and isinstance(new or [], list):
            inner = Comparison({}, {}, {})
            _compare_lists(old or [], new or [], type_, inner)
            _add_below(step, inner, found)
            return
    found.modified[step] = _LEAF


def _add_below(step: str, inner: Comparison, found: Comparison) -> None:
    for part, tree in zip(inner, found, strict=True):
        if part:
            tree[step] = part


def _compare_maps(old: dict[str, Any], new: dict[str, Any], type_: MergeType, found: Comparison) -> None:
    omitted = type_.omitted
    for name, value in new.items():
        before = old.get(name, _ABSENT)
        if before is _ABSENT or (not before and name in omitted):
            if value or name not in omitted:
                found.added[f"f:{name}"] = all_fields(value, type_.field(name))
        elif before != value:
            if value or name not in omitted:
                _compare(f"f:{name}", before, value, type_.field(name), found)
            else:
                found.removed[f"f:{name}"] = all_fields(before, type_.field(name))
    for name, value in old.items():
        if name not in new and (value or name not in omitted):
            found.removed[f"f:{name}"] = all_fields(value, type_.field(name))


def _compare_lists(old: list[Any], new: list[Any], type_: MergeType, found: Comparison) -> None:
    """Compare two associative lists. Several elements with the same key are compared as a single field."""
    before, after, element = by_step(old, type_), by_step(new, type_), type_.element
    for step, new_elements in after.items():
        pass_time(3)
        old_elements = before.get(step, [])
        if len(old_elements) <= 1 and len(new_elements) <= 1:
            if not old_elements:
                found.added[step] = all_fields(new_elements[0], element)
            elif old_elements[0] != new_elements[0]:
                _compare(step, old_elements[0], new_elements[0], element, found)
        elif len(old_elements) > 1 and len(new_elements) > 1:
            if old_elements != new_elements:
                found.modified[step] = _LEAF
        elif len(old_elements) > 1:
            found.added[step] = all_fields(new_elements[0], element)
            found.removed[step] = _LEAF
        else:
            if old_elements:
                found.removed[step] = all_fields(old_elements[0], element)
            found.added[step] = _LEAF
    for step, old_elements in before.items():
        if step not in after:
            found.removed[step] = all_fields(old_elements[0], element) if len(old_elements) == 1 else _LEAF
