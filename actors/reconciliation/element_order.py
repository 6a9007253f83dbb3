"""Directive $setElementOrder of strategic merge patches, as client-go computes it from an old and a new object.

Without it the server puts the elements that a patch names before those that it does not name.

Source: kubernetes v1.36 apimachinery pkg/util/strategicpatch/patch.go, diffLists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kcm.protocols.objects import Object

# The merge key of each list that is written this way; "" for lists of strings. Other lists are replaced as a whole.
_MERGE_KEYS = {"conditions": "type", "podIPs": "ip", "hostIPs": "ip", "finalizers": ""}


def in_element_order(current: Mapping[str, Any], changes: Mapping[str, Any]) -> Object:
    """Return the changes with a $setElementOrder for each list that is merged by a key.

    current: the same part of the object as it was read (its status or its metadata). Elements that it has keep their
    order, and new ones follow them.
    """
    ordered: Object = {}
    for field, value in changes.items():
        merge_key, before = _MERGE_KEYS.get(field), current.get(field)
        if merge_key is None or not before or not value:
            ordered[field] = value
            continue
        keys = list(dict.fromkeys(_key(element, merge_key) for element in [*before, *value]))
        place = {key: number for number, key in enumerate(keys)}
        ordered[f"$setElementOrder/{field}"] = _order(keys, merge_key)
        # The server refuses a list whose elements are in another order than the directive.
        ordered[field] = sorted(value, key=lambda element: place[_key(element, merge_key)])
    return ordered


def _key(element: Any, merge_key: str) -> Any:
    return element[merge_key] if merge_key else element


def _order(keys: Sequence[Any], merge_key: str) -> list[Any]:
    return [{merge_key: key} for key in keys] if merge_key else list(keys)
