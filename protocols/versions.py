"""Resource versions: numbers that are comparable within one resource (KEP-5504).

etcd's revisions have 64 bits, and so have the fields of messages: a longer version is invalid.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import orjson

from kcm.protocols.objects import Key, make_key

UINT64 = 2**64 - 1
_LONGEST = 20  # digits of the largest

# The beginning of an object as kube-apiserver writes it: only plain strings come before the resourceVersion. If this
# matches, it is the object's own resourceVersion, regardless of the rest.
_OWN_VERSION = re.compile(
    rb'\{(?:"(?:kind|apiVersion)":"[^"\\]*+",)*+"metadata":\{'
    rb'(?:"(?!resourceVersion")[^"\\]*+":"[^"\\]*+",)*+"resourceVersion":"([0-9]{1,20})"'
)

# The same for objects with no other members before these, such as those of built-in kinds.
_WHO = re.compile(
    rb'\{(?:"(?:kind|apiVersion)":"[^"\\]*+",)*+"metadata":\{"name":"([^"\\]++)",(?:"generateName":"[^"\\]*+",)?'
    rb'(?:"namespace":"([^"\\]++)",)?"uid":"([^"\\]++)","resourceVersion":"([0-9]{1,20})"'
)


class ObjectVersion(NamedTuple):
    """Key, UID and resourceVersion of one version of an object."""

    key: Key
    uid: str
    version: int


def parse_version(text: Any) -> int | None:
    """Parse ASCII digits; return None for other text, and for numbers of more than 64 bits."""
    # Called for every object of a watch; integers.parse_uint takes four times as long.
    if not isinstance(text, str) or len(text) > _LONGEST or not text.isdecimal() or not text.isascii():
        return None
    number = int(text)
    return number if number <= UINT64 else None


def own_version(body: bytes) -> int:
    """Return metadata.resourceVersion of the object in a response, or 0. Rarely decodes the whole object."""
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


def own_state(body: bytes, *, begins: int = 0, until: int = UINT64) -> ObjectVersion | None:
    """Return key, UID and version of the object in a response, without decoding it.

    begins: offset of the object in the body. Return None if the object begins differently, or is newer than `until`.
    """
    found = _WHO.match(body, begins)
    if found is None or (version := int(found[4])) > until:
        return None
    name, namespace, uid, _ = found.groups()
    return ObjectVersion(make_key((namespace or b"").decode(), name.decode()), uid.decode(), version)
