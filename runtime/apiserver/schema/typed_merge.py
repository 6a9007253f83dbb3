"""Merging and removal of fields for server-side apply, according to the merge types of the values.

Source: structured-merge-diff typed/{merge,remove}.go (v1.36).
"""

from __future__ import annotations

from typing import Any

from kcm.runtime.apiserver.schema.field_sets import Tree, has, path_text, step_of
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
    live_steps, applied_steps = _steps(live, type_), _steps(applied, type_)
    after = dict(zip(applied_steps, applied, strict=True))
    if len(after) != len(applied_steps):
        duplicate = next(step for i, step in enumerate(applied_steps) if step in applied_steps[:i])
        raise DuplicateError(f"duplicate entries for key {path_text(duplicate)}")
    before: dict[str, Any] = {}
    for step, value in zip(live_steps, live, strict=True):
        before[step] = None if step in before else value  # a duplicate is replaced, not merged
    shared = [step for step in applied_steps if step in before]
    found, merged, element = [], set(), type_.element
    next_shared = shared.pop(0) if shared else None

    def take(step: str) -> None:
        merged.add(step)
        old = before.get(step)
        found.append(after[step] if old is None else _merged(old, after[step], element))

    i = j = 0
    while i < len(live_steps) or j < len(applied_steps):
        if i < len(live_steps) and j < len(applied_steps):
            if live_steps[i] == applied_steps[j]:
                take(applied_steps[j])
                i, j = i + 1, j + 1
                next_shared = shared.pop(0) if shared else None
                continue
            if live_steps[i] in after and next_shared is not None and next_shared != live_steps[i]:
                # The applied list has moved this element; it is added when its applied position is reached.
                i += 1
                continue
        if i < len(live_steps):
            if live_steps[i] not in after:  # only in the live list
                found.append(live[i])
                i += 1
                continue
            if live_steps[i] in merged:  # already added at its applied position
                i += 1
        if j < len(applied_steps):
            take(applied_steps[j])
            if next_shared == applied_steps[j]:
                next_shared = shared.pop(0) if shared else None
            j += 1
    return found


def _steps(values: list[Any], type_: MergeType) -> list[str]:
    return [step_of(element, type_) or f"#{i}" for i, element in enumerate(values)]


def removed(value: Any, fields: Tree, type_: MergeType) -> Any:
    """Return a value without the fields in a field set. Maps and lists that become empty are kept."""
    if type_.atomic or not value or not fields:
        return value
    if isinstance(value, dict):
        found = {}
        for name, field in value.items():
            step = f"f:{name}"
            if has(fields, step):
                continue
            inner = fields.get(step)
            found[name] = removed(field, inner, type_.field(name)) if inner else field
        return found
    if isinstance(value, list) and type_.is_associative:
        kept: list[Any] = []
        element_type = type_.element
        for element in value:
            step = step_of(element, type_) or ""
            if has(fields, step):
                continue
            inner = fields.get(step)
            kept.append(removed(element, inner, element_type) if inner else element)
        return kept
    return value
