"""FNV hashes of 32 bits, as upstream names objects after them: http://www.isthe.com/chongo/tech/comp/fnv/."""

from __future__ import annotations

from array import array

_BASIS = 0x811C9DC5
_PRIME = 0x01000193
_MASK = 0xFFFFFFFF


def fnv1_32(data: bytes) -> int:
    """Return the FNV-1 hash, which multiplies before each byte."""
    value = _BASIS
    for byte in data:
        value = (value * _PRIME & _MASK) ^ byte
    return value


def fnv1a_32(data: bytes, value: int = _BASIS) -> int:
    """Return the FNV-1a hash, which multiplies after each byte. value: the hash of the bytes that precede `data`."""
    for byte in data:
        value = (value ^ byte) * _PRIME & _MASK
    return value


class FixedText:
    """Text that is hashed again and again, at a cost that does not depend on its length.

    A byte is XORed into the low 8 bits of the hash only, and multiplication never carries downwards. So for each of
    the 256 values of these bits the whole text is one multiplication and one addition.
    """

    __slots__ = ("_additions", "_data", "_factor", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._data = text.encode()
        self._factor = pow(_PRIME, len(self._data), _MASK + 1)
        self._additions = array("q", [-1]) * 256  # by the low 8 bits; an array, as a dict would take ten times as much

    def fnv1a_32(self, value: int) -> int:
        """Return the FNV-1a hash of this text. value: the hash of the bytes that precede it."""
        low = value & 0xFF
        addition = self._additions[low]
        if addition < 0:
            addition = self._additions[low] = fnv1a_32(self._data, low) - low * self._factor & _MASK
        return (value * self._factor + addition) & _MASK
