"""Encode messages to msgpack bytes, and decode them. The only module that imports msgpack.

On the wire a message is `[tag, field, field, …]` in the order of its fields; a nested message is an array of the same
form. Tags are stable, because later versions read the journals of earlier ones: a tag is never reused, and a new field
is added at the end, with a default.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

import msgpack  # type: ignore[import-untyped]
from msgspec import Raw, ValidationError
from msgspec.msgpack import Decoder as TypedDecoder
from msgspec.msgpack import Encoder

from kcm.protocols.messages import (
    calls,
    cloud,
    commands,
    debug_pages,
    discovery,
    events,
    eviction,
    journal,
    lifecycle,
    outcomes,
    rates,
    watches,
)
from kcm.protocols.messages.message import Message

_MODULES = (
    calls,
    cloud,
    commands,
    debug_pages,
    discovery,
    events,
    eviction,
    journal,
    lifecycle,
    outcomes,
    rates,
    watches,
)
# All types of messages and of their parts, by tag.
TYPES: dict[int, type[Message]] = {
    tag: value
    for module in _MODULES
    for value in vars(module).values()
    if isinstance(value, type) and issubclass(value, Message) and isinstance(tag := value.__struct_config__.tag, int)
}
_KNOWN = frozenset(TYPES.values())
_ENCODER, _DECODER = Encoder(), TypedDecoder(reduce(or_, _KNOWN))


class DecodeError(ValueError):
    """Bytes that are not a message of this version."""


def encode(message: Any) -> bytes:
    """Encode a message.

    Raises TypeError for other objects and for a field of a type that msgpack lacks, OverflowError for a number of more
    than 64 bits, and ValueError for text that is not valid Unicode.
    """
    return _ENCODER.encode(as_message(message))


def encode_checked(message: Any) -> bytes:
    """Encode a message that the author of a controller has constructed.

    Raises what `encode` does, and TypeError for a field of another type than declared, which no receiver could decode.
    """
    frame = encode(message)
    try:
        _DECODER.decode(frame)
    except ValidationError as err:
        why, _, path = str(err).partition(" - at `$")
        field = int(path[1:].partition("]")[0]) - 1
        kind = type(message)
        raise TypeError(f"{kind.__struct_fields__[field]} of {kind.__name__}: {why[0].lower()}{why[1:]}") from err
    return frame


def as_message(value: Any) -> Any:
    """Return a message, without the attributes that a subclass of its type adds, as those are not sent.

    Raises TypeError for other objects.
    """
    if type(value) in _KNOWN:
        return value
    kind = next((base for base in type(value).__mro__ if base in _KNOWN), None)
    if kind is None:
        raise TypeError(f"not a message type: {type(value).__name__}")
    return kind(*(getattr(value, name) for name in kind.__struct_fields__))


def decode(frame: bytes) -> Any:
    """Decode a message. Raises DecodeError, and no other exception, on any bytes that are not a message."""
    try:
        return _DECODER.decode(frame)
    except Exception as err:
        raise DecodeError(f"malformed message: {err}") from err


def pack(value: Any) -> bytes:
    """Encode a plain value: None, a number, text, bytes, or lists and maps of them. Tuples are decoded as lists.

    Raises TypeError, with the type, for other values, and ValueError for values that are too large or too deep.
    """
    try:
        packed: bytes = msgpack.packb(value, use_bin_type=True)
    except TypeError as err:
        raise TypeError(f"{_strange(value)} is no plain value: None, a number, text, bytes, a list or a map") from err
    except OverflowError as err:
        raise ValueError(f"a number of more than 64 bits: {err}") from err
    return packed


def _strange(value: Any) -> str:
    """Return the type of the first value that msgpack cannot encode, with its article."""
    if isinstance(value, dict):
        inner = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple):
        inner = list(value)
    else:
        return f"a {type(value).__qualname__}"
    for element in inner:
        try:
            msgpack.packb(element, use_bin_type=True)
        except TypeError:
            return _strange(element)
    return f"a {type(value).__qualname__}"


def unpack(packed: bytes) -> Any:
    """Decode the result of pack(). Raises DecodeError."""
    try:
        return msgpack.unpackb(packed, strict_map_key=False)
    except Exception as err:
        raise DecodeError(f"not msgpack: {err}") from err


def bundle(events: Sequence[bytes], matches: Sequence[int]) -> bytes:
    """Encode a WatchEvents from events that are encoded already: each event is encoded once for all its subscribers."""
    return _ENCODER.encode([_BUNDLE_TAG, [*map(Raw, events)], matches])


_BUNDLE_TAG = watches.WatchEvents.__struct_config__.tag


class Decoder:
    """Decoder for the actors of one system, which decodes a frame only once if it is sent to several actors.

    They receive the same bytes object one after the other, and messages are immutable, so the last such message is
    cached. Thread-safe: the pair is read and replaced as one object; a race costs one more decoding.
    """

    __slots__ = ("_latest",)

    SENT_TO_MANY = (watches.WatchEvents, lifecycle.Ping)

    def __init__(self) -> None:
        self._latest: tuple[bytes, Any] = (b"", None)

    def decode(self, frame: bytes) -> Any:
        latest, message = self._latest
        if frame is latest:
            return message
        message = decode(frame)
        if type(message) in self.SENT_TO_MANY:
            self._latest = frame, message
        return message
