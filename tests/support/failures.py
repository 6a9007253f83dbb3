"""What reconciliations that failed were told."""

from __future__ import annotations

from kcm.protocols.messages.outcomes import CommandError


def said(error: Exception | None) -> str | None:
    """The server's text of a command that failed; None without a failure."""
    assert error is None or isinstance(error, CommandError)
    return None if error is None else error.failure.message
