"""Outcomes of commands, and the exception that steps raise for an outcome other than success."""

from kcm.actors.reconciliation import answer_of
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import (
    AlreadyExists,
    Conflict,
    Done,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    Outcome,
    Raised,
    Refused,
    ServerFailure,
    Throttled,
    Unknown,
)

__all__ = [
    "AlreadyExists",
    "CommandError",
    "Conflict",
    "Done",
    "Forbidden",
    "Gone",
    "Invalid",
    "NotFound",
    "Outcome",
    "Raised",
    "Refused",
    "ServerFailure",
    "Throttled",
    "Unknown",
    "answer_of",
]

CommandFailed = CommandError  # its name in kcm 0.2.0 and before
