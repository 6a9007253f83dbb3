"""Error texts of failed reconciliations."""

from __future__ import annotations

from kcm.protocols.messages.command_error import CommandError


def said(error: Exception | None) -> str | None:
    """Return the server's text of a failed command, or None if there is no error."""
    assert error is None or isinstance(error, CommandError)
    return None if error is None else error.failure.message
