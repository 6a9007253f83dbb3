"""Merge patches (RFC 7386) of decoded objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.protocols.objects import Object


def merge_patched(target: Mapping[str, Any], patch: Mapping[str, Any]) -> Object:
    """Return the target with the patch applied.

    The arguments are not modified; unchanged parts are shared with the result.
    """
    result = dict(target)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            former = result.get(name)
            # A new map is merged into {} as well, so that no null of the patch gets into the object.
            result[name] = merge_patched(former if isinstance(former, dict) else {}, value)
        else:
            result[name] = value
    return result
