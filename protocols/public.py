"""The names of this room that other programs may use; what is not here may change without notice."""

from protocols.messages.commands import PatchType
from protocols.messages.outcomes import (
    AlreadyExists,
    CommandFailed,
    Conflict,
    Done,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    Outcome,
    Refused,
    ServerFailure,
    Throttled,
    Unknown,
)
from protocols.objects import Key, Object, decode_object, encode_object, key_of, make_key, name_of, split_key
from protocols.resources import Resource

__all__ = [
    "AlreadyExists",
    "CommandFailed",
    "Conflict",
    "Done",
    "Forbidden",
    "Gone",
    "Invalid",
    "Key",
    "NotFound",
    "Object",
    "Outcome",
    "PatchType",
    "Refused",
    "Resource",
    "ServerFailure",
    "Throttled",
    "Unknown",
    "decode_object",
    "encode_object",
    "key_of",
    "make_key",
    "name_of",
    "split_key",
]
