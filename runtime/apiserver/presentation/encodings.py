"""Stored objects in protobuf: each version is encoded once for all responses, lists and watches that show it.

Source: apiserver pkg/storage/cacher/caching_object.go (v1.36), which does so for watches.
"""

from __future__ import annotations

from typing import NamedTuple

import orjson

from kcm.protocols.objects import metadata
from kcm.runtime.apiserver.schema.protobuf_encoder import ProtobufEncoder, envelope

MOST = 32 * 1024 * 1024  # bytes kept


class Encoded(NamedTuple):
    api_version: str
    kind: str
    message: bytes

    def in_envelope(self) -> bytes:
        return envelope(self.api_version, self.kind, self.message)


class Encodings:
    """Cache of protobuf encodings for one thread. Evicts the oldest entries first."""

    def __init__(self, encoder: ProtobufEncoder, *, most: int = MOST) -> None:
        """Create an empty cache.

        most: maximum number of bytes of the objects and their encodings.
        """
        self.encoder = encoder
        self._most, self._size = most, 0
        self._kept: dict[bytes, Encoded] = {}

    def of(self, raw: bytes) -> Encoded:
        """Return the encoding of an object that is given as JSON. Raises UnknownTypeError."""
        found = self._kept.get(raw)
        if found is None:
            obj = orjson.loads(raw)
            api_version, kind = obj.get("apiVersion", ""), obj["kind"]
            found = Encoded(api_version, kind, self.encoder.message(obj, api_version, kind))
            if metadata(obj).get("resourceVersion"):  # otherwise it is not stored, and will not be read again
                self._keep(raw, found)
        return found

    def _keep(self, raw: bytes, found: Encoded) -> None:
        self._kept[raw] = found
        self._size += len(raw) + len(found.message)
        while self._size > self._most:
            oldest = next(iter(self._kept))
            self._size -= len(oldest) + len(self._kept.pop(oldest).message)
