"""The hash that names a ReplicaSet after its pod template.

Upstream hashes Go's memory layout, which no other program can repeat. So a hash only names a ReplicaSet; comparing
templates finds an existing one (protocols/semantic.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

POD_TEMPLATE_HASH_LABEL = "pod-template-hash"

# No vowels, so that no word arises; no 0, 1 and 3, which look like letters.
SAFE_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def template_hash(template: Mapping[str, Any], collision_count: int | None) -> str:
    """Up to 10 characters that are the same for the same template, in any order of keys, in every version of kcm.

    collision_count: of the Deployment's status; each value gives another hash, and so does None (never collided).
    """
    data = orjson.dumps(template, option=orjson.OPT_SORT_KEYS)
    if collision_count is not None:
        data += (collision_count & 0xFFFFFFFF).to_bytes(8, "little")
    return safe_encode(str(fnv1a_32(data)))


def safe_encode(text: str) -> str:
    """Each character as one that may stand in a name and spells nothing. Source: apimachinery rand.SafeEncodeString."""
    return "".join(SAFE_ALPHABET[ord(character) % len(SAFE_ALPHABET)] for character in text)


def fnv1a_32(data: bytes) -> int:
    """FNV-1a, 32 bits: http://www.isthe.com/chongo/tech/comp/fnv/."""
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value
