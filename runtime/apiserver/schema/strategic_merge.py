"""Strategic merge patches: merge patches in which lists may be merged by key.

Fields without a schema behave as in a JSON merge patch: maps are merged, everything else is replaced. Which lists are
merged, and by which key, depends on the built-in type: merge_schemas.py. Directives in the patch:

    $patch: replace                    in a map: replace the map by the patch; in a list's element: the whole list
    $patch: delete                     in a map: empty it; in a list's element: delete elements with its merge key
    $deleteFromPrimitiveList/<field>   [values] to delete from a list of strings or numbers
    $setElementOrder/<field>           [elements] in the new order; others keep their relative position
    $retainKeys                        [fields] of this map to keep; all others are deleted

In a merged list, the elements of the patch are in the order of the patch, and new elements precede the elements that
only the object contains. Nulls in added values are dropped. Maps with a directive inside an added map or list are
dropped too.

Source: apimachinery pkg/util/strategicpatch/patch.go (v1.36). `$patch: merge` is an error, as upstream.
Differs from upstream: directives inside new elements, and inside replaced lists and maps, are dropped here; upstream
keeps them until the typed decoder drops them as unknown fields. $setElementOrder is applied for an empty list and for a
list that is replaced; upstream responds with 500.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from kcm.protocols.objects import Object
from kcm.runtime.cel.effort import pass_time

_DIRECTIVE = "$patch"
_RETAIN_KEYS = "$retainKeys"
_SET_ORDER = "$setElementOrder/"
_DELETE_FROM = "$deleteFromPrimitiveList/"
_OF_ELEMENT = 10  # cost of merging one list element, in the units of cel/effort.py


class MergeSchema:
    """Strategic merge rules of a type's fields. A field without a rule is merged if it is a map, else replaced."""

    def __init__(self, fields: Mapping[str, MergeField] | None = None) -> None:
        self._fields = fields or {}

    def field(self, name: str) -> MergeField:
        return self._fields.get(name, _UNNAMED)


_NO_FIELDS = MergeSchema()


class MergeField(Struct, frozen=True):
    """Strategic merge rule of a field."""

    schema: MergeSchema = _NO_FIELDS  # of the map or of a list's elements
    merge: bool = False  # whether a list is merged instead of replaced
    merge_key: str = ""  # field that identifies a list's elements; "" for strings or numbers
    replace: bool = False  # whether a map is replaced instead of merged


_UNNAMED = MergeField()


def apply_strategic_merge(obj: Mapping[str, Any], patch: Any, *, schema: MergeSchema) -> Object:
    """Apply a strategic merge patch. obj and patch are not changed; the result shares parts with them.

    Raises ValueError for a patch that is not a JSON object, a misused directive, an element without its merge key, and
    for lists whose elements are of different types.
    """
    if not isinstance(patch, dict):
        raise ValueError(f"a strategic merge patch must be a JSON object, got {type(patch).__name__}")
    return _merged_map(obj, patch, schema)


def _merged_map(original: Mapping[str, Any], patch: Mapping[str, Any], schema: MergeSchema) -> Object:
    if _DIRECTIVE in patch:
        match patch[_DIRECTIVE]:
            case "replace":
                replaced: Object = _without_directives(patch)
                return replaced
            case "delete":
                return {}
            case other:
                raise ValueError(f"unknown {_DIRECTIVE} {other!r} in a map; expected replace or delete")
    result = _retained(original, patch)
    ordered = set()
    directives = [name for name in patch if _is_directive_name(name)]
    for directive in directives:
        if directive.startswith(_SET_ORDER):
            name, order = directive.removeprefix(_SET_ORDER), patch[directive]
            if patch.get(name) is None and (name in patch or result.get(name) is None):
                continue  # The field is removed below, or the object does not have it.
            ordered.add(name)
            rule = schema.field(name)
            result[name] = _merged_in_order(result.get(name), patch.get(name), order, name, rule)
    for name, value in patch.items():
        if name in ordered or name in directives:
            continue
        if value is None:
            result.pop(name, None)
        else:
            _set_merged(result, name, value, schema.field(name))
    for directive in directives:
        if directive.startswith(_DELETE_FROM):
            name, values = directive.removeprefix(_DELETE_FROM), patch[directive]
            former = result.get(name)
            if isinstance(former, list):
                unwanted = set(_primitives(values, directive))
                result[name] = [element for element in _primitives(former, name) if element not in unwanted]
    return result


def _set_merged(result: Object, name: str, value: Any, rule: MergeField) -> None:
    """Merge the value of a patch for the field `name` into the object `result`, in place."""
    former = result.get(name)
    if isinstance(value, dict) and isinstance(former, dict):
        result[name] = _without_directives(value) if rule.replace else _merged_map(former, value, rule.schema)
    elif isinstance(value, list) and isinstance(former, list):
        result[name] = _merged_list(former, value, name, rule)
    elif isinstance(value, dict) and _DIRECTIVE in value:
        result.pop(name, None)
    else:
        result[name] = _cleaned(value)


def _retained(original: Mapping[str, Any], patch: Mapping[str, Any]) -> Object:
    """Return a copy of original with only the fields in the patch's $retainKeys; with all fields if it has none.

    Raises ValueError if the patch sets a field that is not in $retainKeys.
    """
    if _RETAIN_KEYS not in patch:
        return dict(original)
    kept = set(_primitives(patch[_RETAIN_KEYS], _RETAIN_KEYS))
    for name, value in patch.items():
        if value is not None and name not in kept and not _is_directive_name(name):
            raise ValueError(f"{_RETAIN_KEYS} does not name {name!r}, which the patch sets")
    return {name: value for name, value in original.items() if name in kept}


def _merged_list(original: list[Any], patch: list[Any], name: str, rule: MergeField) -> list[Any]:
    if not rule.merge:
        return [_without_directives(element) for element in patch]
    if not _are_maps([*original, *patch], name):
        return _in_order(dict.fromkeys([*original, *patch]), patch, original)
    if not rule.merge_key:
        raise ValueError(f"{name}: maps cannot be merged in a list without a merge key")
    patched, replace = [], False
    deleted = set()
    for element in patch:
        match element.get(_DIRECTIVE):
            case None:
                patched.append(element)
            case "delete":
                deleted.add(_merge_key_of(element, name, rule))
            case "replace":
                replace = True
            case other:
                raise ValueError(f"{name}: unknown {_DIRECTIVE} {other!r} in a list; expected replace or delete")
    if replace:
        return [_without_directives(element) for element in patched]
    kept = [element for element in original if _merge_key_of(element, name, rule) not in deleted]
    return _merged_elements(kept, patched, name, rule)


def _merged_elements(original: list[Any], patch: list[Any], name: str, rule: MergeField) -> list[Any]:
    """Merge each element of the patch into the first element with the same merge key, or add it to the list."""
    merged = list(original)
    places: dict[Hashable, int] = {}
    for place, element in enumerate(merged):
        places.setdefault(_merge_key_of(element, name, rule), place)
    for element in patch:
        pass_time(_OF_ELEMENT)
        key = _merge_key_of(element, name, rule)
        if key in places:
            merged[places[key]] = _merged_map(merged[places[key]], element, rule.schema)
        else:
            places[key] = len(merged)
            merged.append(_without_directives(element))
    order = [_merge_key_of(element, name, rule) for element in patch]
    before = [_merge_key_of(element, name, rule) for element in original]
    return _keyed_in_order(merged, order, before, name, rule)


def _merged_in_order(original: Any, patch: Any, order: Any, name: str, rule: MergeField) -> list[Any]:
    """Merge a list, and sort it by a $setElementOrder directive. name: field of the list. order: the directive."""
    if not isinstance(order, list) or not isinstance(patch, list | None) or not isinstance(original, list | None):
        raise ValueError(f"{_SET_ORDER}{name} requires lists")
    if patch is None:
        merged = original or []
    elif original is None:
        merged = _cleaned(patch)
    else:
        merged = _merged_list(original, patch, name, rule)
    if not _are_maps([*merged, *order], name):
        _check_order([element for element in patch or () if not isinstance(element, dict)], order, name)
        return _in_order(merged, order, original or [])
    if not rule.merge_key:
        raise ValueError(f"{_SET_ORDER}{name}: the list has no merge key")
    keys = [_merge_key_of(element, name, rule) for element in order]
    wanted = [_merge_key_of(element, name, rule) for element in patch or () if _DIRECTIVE not in element]
    _check_order(wanted, keys, name)
    return _keyed_in_order(merged, keys, _order_before(merged, original or [], wanted, name, rule), name, rule)


def _order_before(
    merged: list[Any], original: list[Any], wanted: list[Hashable], name: str, rule: MergeField
) -> list[Hashable]:
    """Return the merge keys of a list in the order before the patch.

    Deleted elements are left out, and at most as many new elements are appended. As upstream, which deletes and appends
    elements in the array from which it then reads this order. The effect is visible when `kubectl apply` replaces a
    container of a pod that also has a container which is not in the manifest.
    merged: list after the patch, not yet sorted. original: list before the patch.
    wanted: merge keys of the patch's elements without a directive.
    """
    former = [_merge_key_of(element, name, rule) for element in original]
    present = {_merge_key_of(element, name, rule) for element in merged}
    kept = [key for key in former if key in present]
    known = set(former)
    added = [key for key in wanted if key not in known]
    return kept + added[: len(former) - len(kept)]


def _check_order(patch: list[Hashable], order: list[Hashable], name: str) -> None:
    """Raise ValueError unless the elements of a patch are in the order of its $setElementOrder directive."""
    places = iter(order)
    if order and not all(key in places for key in patch):  # consumes the iterator: a subsequence test
        raise ValueError(f"{name}: the elements of the patch are not in the order of {_SET_ORDER}{name}")


def _keyed_in_order(
    merged: list[Any], order: list[Hashable], before: list[Hashable], name: str, rule: MergeField
) -> list[Any]:
    positions = _sorted_positions([_merge_key_of(element, name, rule) for element in merged], order, before)
    return [merged[position] for position in positions]


def _in_order(merged: Iterable[Hashable], order: list[Hashable], original: list[Hashable]) -> list[Any]:
    values = list(merged)
    return [values[position] for position in _sorted_positions(values, order, original)]


def _sorted_positions(keys: list[Hashable], order: list[Hashable], original: list[Hashable]) -> list[int]:
    """Return the positions of the elements of a merged list in their new order.

    keys: merge keys of the elements.
    order: merge keys in the order of the patch or of its $setElementOrder directive.
    original: merge keys in their order before the patch.

    The elements with a key in `order` are sorted by it, all others by their order before the patch. Then the two
    sequences are merged: an element of the second precedes an element of the first only if it did so before the patch.
    """
    rank = {key: place for place, key in reversed(list(enumerate(order)))}
    before = {key: place for place, key in reversed(list(enumerate(original)))}
    named = sorted((i for i, key in enumerate(keys) if key in rank), key=lambda i: rank[keys[i]])
    others = sorted(
        (i for i, key in enumerate(keys) if key not in rank), key=lambda i: before.get(keys[i], len(original))
    )
    result: list[int] = []
    waiting = iter(others)
    other = next(waiting, None)
    for position in named:
        place = before.get(keys[position], -1)
        while other is not None and before.get(keys[other], len(original)) < place:
            result.append(other)
            other = next(waiting, None)
        result.append(position)
    return result if other is None else [*result, other, *waiting]


def _merge_key_of(element: Any, name: str, rule: MergeField) -> Hashable:
    value = element.get(rule.merge_key)
    if value is None or isinstance(value, dict | list):
        raise ValueError(f"{name}: element without merge key {rule.merge_key}: {element!r}")
    return value  # type: ignore[no-any-return]


def _are_maps(elements: list[Any], name: str) -> bool:
    """Report whether the elements of a list are maps. Raises ValueError for mixed types and for lists of lists."""
    maps = sum(isinstance(element, dict) for element in elements)
    if 0 < maps < len(elements):
        raise ValueError(f"{name}: the elements of a list have different types")
    if any(isinstance(element, list) for element in elements):
        raise ValueError(f"{name}: lists of lists cannot be merged")
    return maps > 0


def _primitives(values: Any, name: str) -> list[Hashable]:
    if not isinstance(values, list) or any(isinstance(value, dict | list) for value in values):
        raise ValueError(f"{name}: expected a list of strings or numbers")
    return values


def _cleaned(value: Any) -> Any:
    """Return a copy of an added value without nulls, directives, and the maps inside it that contain a directive."""
    if isinstance(value, dict):
        return {
            name: _cleaned(field)
            for name, field in value.items()
            if field is not None and not _is_directive_name(name) and not _has_directive(field)
        }
    if isinstance(value, list):
        return [_cleaned(element) for element in value if not _has_directive(element)]
    return value


def _without_directives(value: Any) -> Any:
    """Return a copy of a value without nulls and directives. Maps inside it that contain a directive are kept."""
    if isinstance(value, dict):
        return {
            name: _without_directives(field)
            for name, field in value.items()
            if field is not None and not _is_directive_name(name)
        }
    if isinstance(value, list):
        return [_without_directives(element) for element in value]
    return value


def _has_directive(value: Any) -> bool:
    return isinstance(value, dict) and _DIRECTIVE in value


def _is_directive_name(name: str) -> bool:
    return name in (_DIRECTIVE, _RETAIN_KEYS) or name.startswith((_SET_ORDER, _DELETE_FROM))
