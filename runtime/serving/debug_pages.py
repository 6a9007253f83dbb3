"""Pages of what is served beside: of controllers, under /debug/controllers/<name>/."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class ShowsPages(Protocol):
    def __call__(self, controller: str, path: str, query: Mapping[str, list[str]]) -> tuple[str, str]:
        """A body and its content type. It may block its thread.

        path: what follows the controller's name, "/graph". query: the values of each parameter.
        Raises LookupError where there is no such page, TimeoutError where nobody answers.
        """


class DebugPages:
    """The pages of a site that is served before there is anything to show."""

    def __init__(self) -> None:
        self._show: ShowsPages | None = None

    def set(self, show: ShowsPages) -> None:
        self._show = show

    def show(self, controller: str, path: str, query: Mapping[str, list[str]]) -> tuple[str, str]:
        """As ShowsPages has it."""
        if self._show is None:
            raise LookupError("nothing runs yet")
        return self._show(controller, path, query)
