"""Pod specs that were looked at before, with nothing found: the pods of a workload, and its template, are alike.

A spec is known by its encoding, but for one name: ServiceAccount draws one for the volume that it mounts into each pod.
Another name that is drawn changes nothing of what can be found in a spec: it has the same length and characters, and is
the same wherever the spec has it.
"""

from __future__ import annotations

import re

import orjson

from kcm.protocols.objects import Object

MOST_KEPT, LONGEST_KEPT = 512, 8192  # specs; bytes of each
_DRAWN = re.compile(rb'"kube-api-access-[bcdfghjklmnpqrstvwxz2456789]{5}"')
_ANY = b"\x00"  # no encoding has this byte, so that nothing else looks like a name that was drawn


class UnremarkableSpecs:
    """Those that one way of looking found nothing in."""

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
    """The same for specs in which the same is found."""
    encoded = orjson.dumps(spec)
    drawn = _DRAWN.search(encoded)
    return encoded if drawn is None else encoded.replace(drawn[0], _ANY)
