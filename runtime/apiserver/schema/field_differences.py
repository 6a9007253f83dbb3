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
    """Return the fields that differ between two maps.

    The work counts towards the allowance of the computation (cel/effort.py), because maps may be large.
    """
    found = Comparison({}, {}, {})
    if old != new:
        _compare_maps(old, new, type_, found)
    return found


def set_in(value: Any, zero: Any, type_: MergeType) -> Tree | None:
    """Return the fields in which a value differs from the zero value of its type; None if the two are equal."""
    if value == zero:
        return None
    found = Comparison({}, {}, {})
    _compare("", zero, value, type_, found)
    return united(found.modified, found.added).get("")


def whole(value: Any, type_: MergeType) -> Tree:
    """Return the set of all fields of an added or removed value, including the value itself."""
    if not value or type_.atomic:
        return _LEAF
    if isinstance(value, dict):
        pass_time(len(value))
        found = {ITSELF: _LEAF}
        omitted = type_.omitted
        for name, each in value.items():
            if each or name not in omitted:
                found[f"f:{name}"] = whole(each, type_.field(name))
        for name in type_.nulls:
            found.setdefault(f"f:{name}", _LEAF)
        return found
    if isinstance(value, list) and type_.is_associative:
        found, element = {ITSELF: _LEAF}, type_.element
        for step, same in by_step(value, type_).items():
            found[step] = whole(same[0], element) if len(same) == 1 else _LEAF
        return found
    return _LEAF


def _compare(step: str, old: Any, new: Any, type_: MergeType, found: Comparison) -> None:
    """Add the differences between the old and the new value of a field to `found`. null counts as a value.

    step: key of the field in the trees of `found`, see field_sets.py.
    """
    if not type_.atomic and (old or new):
        if isinstance(old or new, dict) and isinstance(old or {}, dict) and isinstance(new or {}, dict):
            inner = Comparison({}, {}, {})
            _compare_maps(old or {}, new or {}, type_, inner)
            _note(step, inner, found)
            return
        if type_.is_associative and isinstance(old or [], list) and isinstance(new or [], list):
            inner = Comparison({}, {}, {})
            _compare_lists(old or [], new or [], type_, inner)
            _note(step, inner, found)
            return
    found.modified[step] = _LEAF


def _note(step: str, inner: Comparison, found: Comparison) -> None:
    for part, of_all in zip(inner, found, strict=True):
        if part:
            of_all[step] = part


def _compare_maps(old: dict[str, Any], new: dict[str, Any], type_: MergeType, found: Comparison) -> None:
    omitted = type_.omitted
    for name, value in new.items():
        before = old.get(name, _ABSENT)
        if before is _ABSENT or (not before and name in omitted):
            if value or name not in omitted:
                found.added[f"f:{name}"] = whole(value, type_.field(name))
        elif before != value:
            if value or name not in omitted:
                _compare(f"f:{name}", before, value, type_.field(name), found)
            else:
                found.removed[f"f:{name}"] = whole(before, type_.field(name))
    for name, value in old.items():
        if name not in new and (value or name not in omitted):
            found.removed[f"f:{name}"] = whole(value, type_.field(name))


def _compare_lists(old: list[Any], new: list[Any], type_: MergeType, found: Comparison) -> None:
    """Compare two associative lists. Several elements with the same key are compared as a single field."""
    before, after, element = by_step(old, type_), by_step(new, type_), type_.element
    for step, now in after.items():
        pass_time(3)
        then = before.get(step, [])
        if len(then) <= 1 and len(now) <= 1:
            if not then:
                found.added[step] = whole(now[0], element)
            elif then[0] != now[0]:
                _compare(step, then[0], now[0], element, found)
        elif len(then) > 1 and len(now) > 1:
            if then != now:
                found.modified[step] = _LEAF
        elif len(then) > 1:
            found.added[step] = whole(now[0], element)
            found.removed[step] = _LEAF
        else:
            if then:
                found.removed[step] = whole(then[0], element)
            found.added[step] = _LEAF
    for step, then in before.items():
        if step not in after:
            found.removed[step] = whole(then[0], element) if len(then) == 1 else _LEAF
