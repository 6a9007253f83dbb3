"""Why the server does not begin to serve, or stops."""

from __future__ import annotations


class CannotServeError(Exception):
    """The server cannot start; the text is one line for people."""


class CannotGoOnError(Exception):
    """Writes can no longer be made durable."""
