"""Exceptions that end the server's process."""

from __future__ import annotations


class CannotServeError(Exception):
    """The server cannot start. The text is one line for the user."""


class StoreFailedError(Exception):
    """Changes can no longer be made durable, so the server must stop."""
