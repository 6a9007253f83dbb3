"""Cache of stored objects in protobuf. Each version of an object is encoded once for all responses and watches.

Source: apiserver pkg/storage/cacher/caching_object.go (v1.36), which has such a cache for watches.
"""

from __future__ import annotations

from typing import NamedTuple

import orjson

from kcm.protocols.objects import metadata
from kcm.runtime.apiserver.schema.protobuf_encoder import ProtobufEncoder, envelope

MOST = 32 * 1024 * 1024  # bytes


class EncodedObject(NamedTuple):
    """Protobuf encoding of an object, without the envelope that names its kind and version."""

    api_version: str
    kind: str
    message: bytes

    def in_envelope(self) -> bytes:
        """Return the encoding as a body: with the magic prefix and runtime.Unknown, as kube-apiserver sends it."""
        return envelope(self.api_version, self.kind, self.message)


class ProtobufCache:
    """Cache of protobuf encodings by the JSON encoding of the object. Not thread-safe.

    The oldest entries are evicted first.
    """

    def __init__(self, encoder: ProtobufEncoder, *, most: int = MOST) -> None:
        """Create an empty cache.

        most: maximum size of the cached objects and their encodings in bytes
        """
        self.encoder = encoder
        self._most, self._size = most, 0
        self._kept: dict[bytes, EncodedObject] = {}

    def of(self, raw: bytes) -> EncodedObject:
        """Return the protobuf encoding of an object.

        raw: the object in JSON

        Raises UnknownTypeError if the kind of the object has no protobuf definition.
        """
        found = self._kept.get(raw)
        if found is None:
            obj = orjson.loads(raw)
            api_version, kind = obj.get("apiVersion", ""), obj["kind"]
            found = EncodedObject(api_version, kind, self.encoder.message(obj, api_version, kind))
            if metadata(obj).get("resourceVersion"):  # an object that is not stored is not read again
                self._keep(raw, found)
        return found

    def _keep(self, raw: bytes, found: EncodedObject) -> None:
        self._kept[raw] = found
        self._size += len(raw) + len(found.message)
        while self._size > self._most:
            oldest = next(iter(self._kept))
            self._size -= len(oldest) + len(self._kept.pop(oldest).message)
