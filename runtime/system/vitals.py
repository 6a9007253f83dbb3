"""Last reported states of actors, for health checks. Each has one writer and many readers, without locks.

A health check must return even if its actor hangs; so it reads the actor's last report instead of sending a request.
"""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


class Vitals:
    """Last report of each actor, by name. Reports are immutable."""

    def __init__(self) -> None:
        self._reports: dict[str, object] = {}

    def say(self, name: str, report: object) -> None:
        """Replace the last report of this name."""
        self._reports[name] = report

    def of(self, name: str, kind: type[T]) -> T | None:
        """Return the last report of this name, or None if it is not of this type."""
        report = self._reports.get(name)
        return report if isinstance(report, kind) else None

    def forget(self, name: str) -> None:
        self._reports.pop(name, None)
