"""Cache of pod specs in which a check found no errors or warnings.

The pods of a workload have equal specs, so the check runs once for them. The key is the encoded spec without the random
name of the volume that ServiceAccount admission adds to each pod. That name cannot change the result of a check: all
such names have the same length and character set.
"""

from __future__ import annotations

import re

import orjson

from kcm.protocols.objects import Object

MOST_KEPT, LONGEST_KEPT = 512, 8192  # number of specs; bytes of one encoded spec
_TOKEN_VOLUME = re.compile(rb'"kube-api-access-[bcdfghjklmnpqrstvwxz2456789]{5}"')
_PLACEHOLDER = b"\x00"  # no encoding contains this byte, so it cannot collide with a name


class CleanSpecs:
    """Cache of specs in which one check found nothing. It is cleared when it contains MOST_KEPT specs."""

    def __init__(self) -> None:
        self._kept: set[bytes] = set()

    def __contains__(self, key: bytes) -> bool:
        return key in self._kept

    def add(self, key: bytes) -> None:
        if len(key) > LONGEST_KEPT:
            return
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept.add(key)


def key_of(spec: Object) -> bytes:
    """Return the cache key of a spec. Specs with equal keys have the same check results."""
    encoded = orjson.dumps(spec)
    token_volume = _TOKEN_VOLUME.search(encoded)
    return encoded if token_volume is None else encoded.replace(token_volume[0], _PLACEHOLDER)
