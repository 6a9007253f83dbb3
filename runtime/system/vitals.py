"""What an actor says of its own state, for health checks and people. One writer each, many readers, no locks.

A health check must answer although the actor it asks about is stuck; so it reads what the actor last said of itself
instead of asking it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Vitals:
    """The last facts by actor name. A fact is JSON-like; times are of the monotonic clock."""

    def __init__(self) -> None:
        self._facts: dict[str, Mapping[str, Any]] = {}

    def say(self, name: str, facts: Mapping[str, Any]) -> None:
        """Replace what was said of this name before."""
        self._facts[name] = facts

    def of(self, name: str) -> Mapping[str, Any]:
        return self._facts.get(name, {})

    def forget(self, name: str) -> None:
        self._facts.pop(name, None)

    def all(self) -> dict[str, Mapping[str, Any]]:
        return dict(self._facts)
