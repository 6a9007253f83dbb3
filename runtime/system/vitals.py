"""The state that actors last reported, for health checks. One writer each, many readers, no locks.

A health check must return even if its actor is stuck; so it reads what the actor last reported instead of asking it.
"""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


class Vitals:
    """The last report of each actor, by name. Reports are immutable."""

    def __init__(self) -> None:
        self._said: dict[str, object] = {}

    def say(self, name: str, said: object) -> None:
        """Replace the last report of this name."""
        self._said[name] = said

    def of(self, name: str, kind: type[T]) -> T | None:
        """Return the last report of this name, or None if it is not of this type."""
        said = self._said.get(name)
        return said if isinstance(said, kind) else None

    def forget(self, name: str) -> None:
        self._said.pop(name, None)
