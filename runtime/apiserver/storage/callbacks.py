"""Callbacks of independent receivers: one that raises keeps no other from its turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def call_all(callbacks: Iterable[Callable[[], object]]) -> None:
    """Calls each of them. Then raises an ExceptionGroup of what they raised, if any did."""
    errors: list[Exception] = []
    for callback in callbacks:
        try:
            callback()
        except Exception as err:
            errors.append(err)
    if errors:
        raise ExceptionGroup("callbacks have failed", errors)
