"""Base class of all messages, which determines their form on the wire."""

from __future__ import annotations

from msgspec import Struct


class Message(Struct, frozen=True, array_like=True, tag_field="tag", forbid_unknown_fields=True):
    """Message between actors, or a part of one. A subclass has a unique `tag`: a number that never changes.

    On the wire it is an array of the tag and the fields in their order.
    """
