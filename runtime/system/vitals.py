"""What actors last said of their own state, for health checks. One writer each, many readers, no locks.

A health check must answer although the actor it asks about is stuck; so it reads what the actor last said of itself
instead of asking it.
"""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


class Vitals:
    """By actor name: the last value that it said, which nobody changes afterwards."""

    def __init__(self) -> None:
        self._said: dict[str, object] = {}

    def say(self, name: str, said: object) -> None:
        """Replace what was said of this name before."""
        self._said[name] = said

    def of(self, name: str, kind: type[T]) -> T | None:
        """None if nothing was said, or something of another kind."""
        said = self._said.get(name)
        return said if isinstance(said, kind) else None

    def forget(self, name: str) -> None:
        self._said.pop(name, None)
