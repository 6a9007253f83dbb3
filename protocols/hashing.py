"""The hashes that name ReplicaSets and ControllerRevisions after their pod templates.

Upstream hashes a dump of Go values. So do we for a DaemonSet's revisions (protocols/go_dump.py), which then bear the
names that upstream 1.36 gives them. No hash is more than a name: what exists is found by comparing templates
(protocols/semantic.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from protocols.go_dump import dump

POD_TEMPLATE_HASH_LABEL = "pod-template-hash"

# Without vowels, so that it spells no words; without 0, 1 and 3, which look like letters.
SAFE_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def template_hash(template: Mapping[str, Any], collision_count: int | None) -> str:
    """Up to 10 characters; equal templates give the same hash in any order of keys and in every version of kcm.

    collision_count: the Deployment's status.collisionCount; each value gives another hash, as does None (no collision).
    """
    data = orjson.dumps(template, option=orjson.OPT_SORT_KEYS)
    if collision_count is not None:
        data += (collision_count & 0xFFFFFFFF).to_bytes(8, "little")
    return safe_encode(str(fnv1a_32(data)))


def upstream_template_hash(template: Mapping[str, Any], collision_count: int | None) -> str:
    """The hash of upstream's ComputeHash in 1.36, for the template as the API server has it."""
    data = dump(template).encode("utf-8", "surrogatepass")
    if collision_count is not None:
        data += (collision_count & 0xFFFFFFFF).to_bytes(8, "little")
    return safe_encode(str(fnv1a_32(data)))


def safe_encode(text: str) -> str:
    """Map each character into SAFE_ALPHABET. Source: apimachinery rand.SafeEncodeString."""
    return "".join(SAFE_ALPHABET[ord(character) % len(SAFE_ALPHABET)] for character in text)


def fnv1a_32(data: bytes) -> int:
    """The FNV-1a hash of 32 bits: http://www.isthe.com/chongo/tech/comp/fnv/."""
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def fnv1_32(data: bytes) -> int:
    """The FNV-1 hash of 32 bits, which multiplies before it takes a byte in."""
    value = 0x811C9DC5
    for byte in data:
        value = (value * 0x01000193 & 0xFFFFFFFF) ^ byte
    return value
