"""Field sets of server-side apply (managedFields): trees in the form of FieldsV1.

    {"f:spec": {"f:replicas": {}, "f:containers": {'k:{"name":"web"}': {".": {}, "f:image": {}}}}}

A key of the tree is called a step (upstream: PathElement). It is `f:<name>` for a field of a map, `k:<key fields as
JSON>` for an element of a list of maps, and `v:<value as JSON>` for an element of a list that is a set. The field that
a step leads to is a member of the set if the value of the step is {} or contains the key ".". Trees share parts with
each other, and are never changed.

Source: kubernetes v1.36 structured-merge-diff, fieldpath (Set, serialize.go), typed (ToFieldSet).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from kcm.runtime.apiserver.schema.merge_types import MergeType

Tree = dict[str, Any]
ITSELF = "."
_MEMBER: Tree = {}


def field_set(value: Any, type_: MergeType) -> Tree:
    """Return the field set that contains all fields of a map. type_: merge type of the map."""
    return _below(value, type_) or {}


def _below(value: Any, type_: MergeType) -> Tree | None:
    """Return the field set with all fields of a map or list; None for a scalar or an atomic value."""
    if type_.atomic:
        return None
    if isinstance(value, dict):
        named, found = type_.named, {}
        for name, field in value.items():
            inner = _below(field, type_.field(name)) if isinstance(field, dict | list) else None
            if inner is None:
                found[f"f:{name}"] = _MEMBER
            elif field == {} or name not in named:
                found[f"f:{name}"] = {ITSELF: {}, **inner} if inner else _MEMBER
            elif inner:
                found[f"f:{name}"] = inner
        return found
    if isinstance(value, list) and type_.is_associative:
        found, element = {}, type_.element
        for step, elements in by_step(value, type_).items():
            inner = _below(elements[0], element) if len(elements) == 1 else None
            found[step] = {ITSELF: {}, **inner} if inner else _MEMBER
        return found
    return None


def by_step(values: Sequence[Any], type_: MergeType) -> dict[str, list[Any]]:
    """Return the elements of an associative list by their steps in a field set (`k:…` or `v:…`), in order.

    Several elements with the same step are duplicates. Elements without a step are left out; validation rejects them,
    because they have no key or are of a wrong type.
    """
    found: dict[str, list[Any]] = {}
    for element in values:
        step = step_of(element, type_)
        if step is not None:
            found.setdefault(step, []).append(element)
    return found


def step_of(element: Any, type_: MergeType) -> str | None:
    if type_.is_set:
        return None if element is None or isinstance(element, dict | list) else f"v:{orjson.dumps(element).decode()}"
    if not isinstance(element, dict):
        return None
    keys = {}
    for key in type_.keys:
        value = element.get(key)
        if value is None:
            value = type_.element.defaults.get(key)
            if value is None:
                continue
        keys[key] = value
    return f"k:{orjson.dumps(keys).decode()}" if keys else None


def has(fields: Tree, step: str) -> bool:
    """Report whether a field is a member of a field set. step: key of the field in the set, such as "f:spec"."""
    inner = fields.get(step)
    return inner is not None and (not inner or ITSELF in inner)


def has_path(fields: Tree, path: Sequence[str]) -> bool:
    for step in path[:-1]:
        fields = fields.get(step) or {}
    return has(fields, path[-1])


def in_order(fields: Tree) -> Tree:
    """Return a field set with its keys in the order in which upstream writes them, at all levels."""
    return {step: in_order(inner) if (inner := fields[step]) else inner for step in sorted(fields)}


def minus(fields: Tree, other: Tree) -> Tree:
    """Return the difference of two field sets: the members of `fields` that are not members of `other`."""
    return _minus(fields, other) if fields and other else fields


def _minus(fields: Tree, other: Tree) -> Tree:
    rest, changed = {}, False
    for step, inner in fields.items():
        against = other.get(step)
        if against is None:
            rest[step] = inner
            continue
        left = _difference_below(inner, against) if step != ITSELF else None
        changed = changed or left is not inner
        if left is not None:
            rest[step] = left
    return rest if changed else fields


def _difference_below(inner: Tree, against: Tree) -> Tree | None:
    if not inner:
        return inner if against and ITSELF not in against else None
    if not against:
        against = {ITSELF: {}}
    left = _minus(inner, against)
    if left is inner:
        return inner
    if not left:
        return None
    return _MEMBER if len(left) == 1 and ITSELF in left else left


def united(fields: Tree, other: Tree) -> Tree:
    """Return the union of two field sets. If `other` adds nothing, the result is the same object as `fields`."""
    if not fields or not other:
        return fields or other
    found: Tree | None = None
    for step, inner in other.items():
        here = fields.get(step)
        both = inner if here is None else _united_below(here, inner)
        if both is not here:
            found = dict(fields) if found is None else found
            found[step] = both
    return fields if found is None else found


def _united_below(here: Tree, inner: Tree) -> Tree:
    if not here:
        return here if not inner else inner if ITSELF in inner else {ITSELF: {}, **inner}
    if not inner:
        return here if ITSELF in here else {ITSELF: {}, **here}
    return united(here, inner)


def common(fields: Tree, other: Tree) -> Tree:
    """Return the intersection of two field sets."""
    found: Tree = {}
    for step, inner in fields.items():
        against = other.get(step)
        if against is None:
            continue
        both = common(inner, against)
        if (not inner or ITSELF in inner) and (not against or ITSELF in against):
            found[step] = {ITSELF: {}, **both} if both and ITSELF not in both else _simplified(both)
        elif both:
            found[step] = both
    return found


def _simplified(fields: Tree) -> Tree:
    return _MEMBER if len(fields) == 1 and ITSELF in fields else fields


def without(fields: Tree, others: Tree) -> Tree:
    """Return the field set `fields` without the members of `others`, and without everything below these."""
    if not others:
        return fields
    rest: Tree = {}
    for step, inner in fields.items():
        against = others.get(step)
        if against is None:
            rest[step] = inner
        elif against and ITSELF not in against:
            left = without(inner, against)
            if left or not inner:
                rest[step] = _simplified(left)
    return rest


def with_named_members(fields: Tree, type_: MergeType) -> Tree:
    """Return a field set with the struct fields on the paths to its members as further members.

    Source: structured-merge-diff fieldpath/set.go, EnsureNamedFieldsAreMembers.
    """
    found: Tree = {}
    for step, inner in fields.items():
        if step == ITSELF or not inner:
            found[step] = inner
            continue
        kind, name = step[:2], step[2:]
        of_field = kind == "f:"
        below = with_named_members(inner, type_.field(name) if of_field else type_.element)
        found[step] = {ITSELF: {}, **below} if of_field and name in type_.named and ITSELF not in below else below
    return found


def paths(fields: Tree, prefix: str = "") -> Iterator[str]:
    """Yield the paths of a field set's members, outer levels first: `.spec.containers[name="web"].image`."""
    steps = sorted(step for step in fields if step != ITSELF)
    for step in steps:
        if has(fields, step):
            yield prefix + path_text(step)
    for step in steps:
        if fields[step]:
            yield from paths(fields[step], prefix + path_text(step))


def path_text(step: str) -> str:
    kind, rest = step[:2], step[2:]
    if kind == "f:":
        return f".{rest}"
    if kind == "k:":
        keys = ",".join(f"{key}={orjson.dumps(value).decode()}" for key, value in orjson.loads(rest).items())
        return f"[{keys}]"
    return f"[={rest}]"
