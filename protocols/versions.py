"""Resource versions, and other whole numbers in text that others wrote.

A resourceVersion is compared as a number, within one resource (KEP-5504). etcd's revisions are of 64 bits, and so is
what a message holds: a longer one is malformed. `int()` itself refuses text of more than 4300 digits.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

UINT64 = 2**64 - 1
_LONGEST = 20  # digits of the largest

# The beginning of an object as kube-apiserver writes it: nothing but members that are plain strings comes before the
# resourceVersion. Where this matches it is the object's own, whatever follows.
_OWN_VERSION = re.compile(
    rb'\{(?:"(?:kind|apiVersion)":"[^"\\]*+",)*+"metadata":\{'
    rb'(?:"(?!resourceVersion")[^"\\]*+":"[^"\\]*+",)*+"resourceVersion":"([0-9]{1,20})"'
)


def decimal(text: Any, *, at_most: int = UINT64) -> int | None:
    """The number that these ASCII digits say; None for anything else, and beyond at_most (64 bits)."""
    if not isinstance(text, str) or len(text) > _LONGEST or not text.isdecimal() or not text.isascii():
        return None
    number = int(text)
    return number if number <= at_most else None


def own_version(body: bytes) -> int:
    """metadata.resourceVersion of the object in a response; 0 if there is none. Seldom decodes the whole object."""
    found = _OWN_VERSION.match(body)
    if found is not None:
        number = int(found[1])
        return number if number <= UINT64 else 0
    try:
        obj = orjson.loads(body)
    except orjson.JSONDecodeError:
        return 0
    meta = obj.get("metadata") if isinstance(obj, dict) else None
    return decimal(meta.get("resourceVersion")) or 0 if isinstance(meta, dict) else 0
