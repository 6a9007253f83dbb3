"""Merging and removal of fields for server-side apply, according to the merge types of the values.

Source: structured-merge-diff typed/{merge,remove}.go (v1.36).
"""

from __future__ import annotations

from typing import Any

from kcm.runtime.apiserver.schema.field_sets import Tree, has, in_words, step_of
from kcm.runtime.apiserver.schema.merge_types import MergeType


class DuplicateError(ValueError):
    """Duplicate element in an applied list."""


def merge(live: Any, applied: Any, type_: MergeType) -> Any:
    """Return the live value with the applied value merged into it.

    The result shares parts with `live`, which is not changed. Raises DuplicateError if an applied list contains two
    elements with the same key.
    """
    if type_.atomic or not (live or applied):
        return applied
    if isinstance(applied, dict) and isinstance(live or {}, dict):
        found = dict(live or {})
        for name, value in applied.items():
            found[name] = _merged(found[name], value, type_.field(name)) if name in found else value
        return found
    if isinstance(applied, list) and type_.is_associative and isinstance(live or [], list):
        return _merge_lists(live or [], applied, type_)
    # Applying null or [] to a list that merges removes nothing.
    if live and applied is None and (isinstance(live, dict) or (type_.is_associative and isinstance(live, list))):
        return live
    return applied


def _merged(live: Any, applied: Any, type_: MergeType) -> Any:
    return live if live == applied else merge(live, applied, type_)


def _merge_lists(live: list[Any], applied: list[Any], type_: MergeType) -> list[Any]:
    """Merge two associative lists.

    The elements are in the order of the applied list. Elements of only the live list keep their position relative to
    the elements that both lists contain.
    """
    theirs, ours = _steps(live, type_), _steps(applied, type_)
    after = dict(zip(ours, applied, strict=True))
    if len(after) != len(ours):
        twice = next(step for i, step in enumerate(ours) if step in ours[:i])
        raise DuplicateError(f"duplicate entries for key {in_words(twice)}")
    before: dict[str, Any] = {}
    for step, value in zip(theirs, live, strict=True):
        before[step] = None if step in before else value  # a duplicate is replaced, not merged
    shared = [step for step in ours if step in before]
    found, merged, element = [], set(), type_.element
    next_shared = shared.pop(0) if shared else None

    def take(step: str) -> None:
        merged.add(step)
        old = before.get(step)
        found.append(after[step] if old is None else _merged(old, after[step], element))

    i = j = 0
    while i < len(theirs) or j < len(ours):
        if i < len(theirs) and j < len(ours):
            if theirs[i] == ours[j]:
                take(ours[j])
                i, j = i + 1, j + 1
                next_shared = shared.pop(0) if shared else None
                continue
            if theirs[i] in after and next_shared is not None and next_shared != theirs[i]:
                i += 1
                continue
        if i < len(theirs):
            if theirs[i] not in after:
                found.append(live[i])
                i += 1
                continue
            if theirs[i] in merged:
                i += 1
        if j < len(ours):
            take(ours[j])
            if next_shared == ours[j]:
                next_shared = shared.pop(0) if shared else None
            j += 1
    return found


def _steps(values: list[Any], type_: MergeType) -> list[str]:
    return [step_of(each, type_) or f"#{i}" for i, each in enumerate(values)]


def removed(value: Any, fields: Tree, type_: MergeType) -> Any:
    """Return the value without the given fields. Maps and lists that become empty are kept."""
    if type_.atomic or not value or not fields:
        return value
    if isinstance(value, dict):
        found = {}
        for name, each in value.items():
            step = f"f:{name}"
            if has(fields, step):
                continue
            inner = fields.get(step)
            found[name] = removed(each, inner, type_.field(name)) if inner else each
        return found
    if isinstance(value, list) and type_.is_associative:
        kept: list[Any] = []
        element = type_.element
        for each in value:
            step = step_of(each, type_) or ""
            if has(fields, step):
                continue
            inner = fields.get(step)
            kept.append(removed(each, inner, element) if inner else each)
        return kept
    return value
