"""Debug pages of controllers, under /debug/controllers/<name>/."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class ShowsPages(Protocol):
    def __call__(self, controller: str, path: str, query: Mapping[str, list[str]]) -> tuple[str, str]:
        """Return a body and its content type. May block its thread.

        path: the rest of the path after the controller's name, "/graph".
        query: the values of each parameter.
        Raises LookupError for an unknown page, TimeoutError if the controller does not respond.
        """


class DebugPages:
    """Debug pages of a site that is served before its controllers start."""

    def __init__(self) -> None:
        self._show: ShowsPages | None = None

    def set(self, show: ShowsPages) -> None:
        self._show = show

    def show(self, controller: str, path: str, query: Mapping[str, list[str]]) -> tuple[str, str]:
        """Return a page; see ShowsPages."""
        if self._show is None:
            raise LookupError("nothing runs yet")
        return self._show(controller, path, query)
