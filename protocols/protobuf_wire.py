"""Protobuf wire format: varints and field tags."""

from __future__ import annotations

from functools import cache

VARINT, FIXED64, BYTES = 0, 1, 2

ONE_BYTE = [bytes((number,)) for number in range(0x80)]


def varint(number: int) -> bytes:
    """Encode a number >= 0 as a varint."""
    if number < 0x80:
        return ONE_BYTE[number]
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


@cache
def field_tag(number: int, wire: int) -> bytes:
    """Return the tag that precedes the value of a field. wire: VARINT, FIXED64 or BYTES."""
    return varint(number << 3 | wire)
