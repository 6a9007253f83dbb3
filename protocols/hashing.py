"""Hashes of pod templates, which the names of ReplicaSets and ControllerRevisions contain.

They are the hashes of kube-controller-manager 1.36, so that both use the same names. No decision depends on a hash:
existing objects are found by comparing templates (protocols/semantic.py), so objects are kept whose names contain the
hash of another release.

Source: kubernetes v1.36 pkg/controller/controller_utils.go, ComputeHash; pkg/util/hash/hash.go, DeepHashObject.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson

from kcm.protocols.fnv import FixedText, fnv1a_32
from kcm.protocols.go_dump import dump_parts

POD_TEMPLATE_HASH_LABEL = "pod-template-hash"

# Without vowels, so that it spells no words; without 0, 1 and 3, which look like letters.
SAFE_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"

_LONGEST_CACHED = 16 << 10  # bytes of a template, so that the cache holds 4 MiB at most


def template_hash(template: Mapping[str, Any], collision_count: int | None) -> str:
    """Return upstream's hash of a pod template, of up to 10 characters.

    template: as the API server returns it, with defaults and quantities in canonical form.
    collision_count: status.collisionCount of the owner. Each value gives a different hash, and None another one.
    """
    encoded = orjson.dumps(template, option=orjson.OPT_SORT_KEYS)
    value = _cached(encoded) if len(encoded) <= _LONGEST_CACHED else _dump_hash(template)
    if collision_count is not None:
        value = fnv1a_32((collision_count & 0xFFFFFFFF).to_bytes(8, "little"), value)
    return safe_encode(str(value))


@lru_cache(maxsize=256)  # while a creation is refused or waits, each sync computes the hash again
def _cached(encoded: bytes) -> int:
    return _dump_hash(orjson.loads(encoded))


def _dump_hash(template: Mapping[str, Any]) -> int:
    value = fnv1a_32(b"")
    for part in dump_parts(template):
        if isinstance(part, FixedText):
            value = part.fnv1a_32(value)
        else:
            value = fnv1a_32(part.encode("utf-8", "surrogatepass"), value)
    return value


def safe_encode(text: str) -> str:
    """Replace each character by one of SAFE_ALPHABET. Source: apimachinery rand.SafeEncodeString."""
    return "".join(SAFE_ALPHABET[ord(character) % len(SAFE_ALPHABET)] for character in text)
