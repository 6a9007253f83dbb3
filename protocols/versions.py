"""Resource versions: numbers to compare within one resource (KEP-5504).

etcd's revisions are of 64 bits, and so is what a message holds: a longer one is malformed.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import orjson

from kcm.protocols.objects import Key, make_key

UINT64 = 2**64 - 1
_LONGEST = 20  # digits of the largest

# The beginning of an object as kube-apiserver writes it: nothing but members that are plain strings comes before the
# resourceVersion. Where this matches it is the object's own, whatever follows.
_OWN_VERSION = re.compile(
    rb'\{(?:"(?:kind|apiVersion)":"[^"\\]*+",)*+"metadata":\{'
    rb'(?:"(?!resourceVersion")[^"\\]*+":"[^"\\]*+",)*+"resourceVersion":"([0-9]{1,20})"'
)

# So it begins where it has no other members before these, as a built-in kind's.
_WHO = re.compile(
    rb'\{(?:"(?:kind|apiVersion)":"[^"\\]*+",)*+"metadata":\{"name":"([^"\\]++)",(?:"generateName":"[^"\\]*+",)?'
    rb'(?:"namespace":"([^"\\]++)",)?"uid":"([^"\\]++)","resourceVersion":"([0-9]{1,20})"'
)


class State(NamedTuple):
    """One version of one object."""

    key: Key
    uid: str
    version: int


def parse_version(text: Any) -> int | None:
    """The number that these ASCII digits say; None for anything else, and beyond 64 bits.

    For every object of a watch; integers.parse_uint takes four times as long.
    """
    if not isinstance(text, str) or len(text) > _LONGEST or not text.isdecimal() or not text.isascii():
        return None
    number = int(text)
    return number if number <= UINT64 else None


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
    return parse_version(meta.get("resourceVersion")) or 0 if isinstance(meta, dict) else 0


def own_state(body: bytes, *, begins: int = 0, until: int = UINT64) -> State | None:
    """Which version of which object a response shows, if that can be told without decoding it, and is none after
    `until`. begins: where the object does.
    """
    found = _WHO.match(body, begins)
    if found is None or (version := int(found[4])) > until:
        return None
    name, namespace, uid, _ = found.groups()
    return State(make_key((namespace or b"").decode(), name.decode()), uid.decode(), version)
