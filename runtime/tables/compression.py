"""Compression of the JSON that tables keep, against the JSON of a similar object.

The objects of a table resemble each other: a pod has 2 to 5 kB of JSON, of which a few hundred bytes differ from those
of another pod. DEFLATE with a preset dictionary (RFC 1950, section 2.2) keeps only these. It compresses the 2.7 kB of a
pod in about 12 µs, and decompresses them in 4 µs; decoding takes longer.

An object that changes often must not be compressed each time. Only entries that have not changed between two passes
(`cold_entries.py`) are compressed, and objects of very long lists.
"""

from __future__ import annotations

import zlib

from msgspec import Struct

LEAST, MOST = 512, 64 * 1024  # bytes of JSON that is compressed
WORTHWHILE = 0.5  # of the JSON's size; a larger result is discarded
SIMILAR = 0.25  # of the JSON's size; after a larger result the object becomes the sample
NEXT_SAMPLE = 16  # number of objects that a sample is used for at least, as it stays in memory as long as any of them
LEVEL, MEMORY = 1, 8
# Logarithm of the window in bytes; negative: without header and checksum. zlib allocates tables in proportion to it.
SMALL_WINDOW, LARGE_WINDOW = -13, -15


class Compressed(Struct, frozen=True, gc=False):
    """JSON of an object without what it has in common with a sample.

    size: of the JSON, in bytes.
    """

    body: bytes
    sample: bytes
    size: int

    def json(self) -> bytes:
        return zlib.decompressobj(LARGE_WINDOW, zdict=self.sample).decompress(self.body)


class Compressor:
    """Compresses the objects of one table, with one of them as the sample. Any thread; races cost only space."""

    def __init__(self) -> None:
        self._sample = b""
        self._used = 0

    def compress(self, raw: bytes) -> Compressed | None:
        """Return the compressed JSON of an object, or None if it is to be kept as it is.

        The first object, and one that differs from the sample, becomes the sample, and is kept as it is.
        """
        if not LEAST <= len(raw) <= MOST:
            return None
        sample = self._sample
        if not sample:
            self._sample, self._used = raw, 0
            return None
        window = SMALL_WINDOW if len(raw) + len(sample) <= 1 << -SMALL_WINDOW else LARGE_WINDOW
        deflate = zlib.compressobj(LEVEL, zlib.DEFLATED, window, MEMORY, zlib.Z_DEFAULT_STRATEGY, sample)
        body = deflate.compress(raw) + deflate.flush()
        self._used += 1
        if len(body) > SIMILAR * len(raw) and self._used > NEXT_SAMPLE:
            self._sample, self._used = raw, 0
            return None
        return Compressed(body, sample, len(raw)) if len(body) <= WORTHWHILE * len(raw) else None
