"""Exceptions that end the server's process."""

from __future__ import annotations


class CannotServeError(Exception):
    """The server cannot start. The text is one line for the user."""


class StoreFailedError(Exception):
    """The server must stop, because changes can no longer be made durable."""
