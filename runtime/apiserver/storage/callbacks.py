"""Calls of independent callbacks: an error in one callback does not prevent the calls of the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def call_all(callbacks: Iterable[Callable[[], object]]) -> None:
    """Call every callback, then raise an ExceptionGroup of the errors, if there were any."""
    errors: list[Exception] = []
    for callback in callbacks:
        try:
            callback()
        except Exception as err:
            errors.append(err)
    if errors:
        raise ExceptionGroup("callbacks have failed", errors)
