"""Source of the pages of controllers and of labels in profiles, for a system that starts after its pages are served."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct


class ChangeRefusedError(Exception):
    """A requested change makes no sense in the present state. The text is one line for the user."""


class PendingChange(Protocol):
    """Change that was requested."""

    @property
    def is_needed(self) -> bool:
        """Report whether the state was not as requested, so that a message was sent."""

    def is_done(self) -> bool:
        """Report whether the change is visible. Does not block."""

    def result(self) -> Struct:
        """Return the present state of what was changed."""


class RunningSystem(Protocol):
    """Interface of a system of actors for its pages. ControllerSystem implements it."""

    def debug_page(self, controller: str, path: str, query: Mapping[str, list[str]]) -> tuple[str, str]:
        """Return a body and its content type. May block its thread.

        path: the rest of the path after the controller's name, "/graph".
        query: the values of each parameter.
        Raises LookupError for an unknown page, TimeoutError if the controller does not respond.
        """

    def shown(self, collection: str, name: str) -> Struct:
        """Return the response to GET /COLLECTION, or /COLLECTION/NAME, to be encoded as JSON. Does not block.

        Raises LookupError for an unknown name.
        """

    def change(self, collection: str, name: str, action: str, settings: Mapping[str, object]) -> PendingChange:
        """Request a change, of POST /COLLECTION/NAME/ACTION. Does not block.

        settings: of the request's body.
        Raises LookupError for an unknown name, ValueError for invalid settings, ChangeRefusedError.
        """

    def why(self, kind: str, namespace: str, name: str, cluster: str) -> Struct:
        """Return the response to GET /why, to be encoded as JSON. May block its thread for some seconds.

        cluster: "" in a program with one cluster.

        Raises LookupError for an unknown kind, ValueError for a malformed parameter.
        """

    def activities(self) -> Mapping[int, Mapping[str, str]]:
        """Return labels of what each busy thread is doing now, by the thread's ident."""

    def waits(self) -> Sequence[tuple[Mapping[str, str], int, float]]:
        """Return for each actor: its labels, the number of its messages, and seconds that these waited for it."""


class DebugPages:
    """Source of debug pages and of labels in profiles. Empty until the system runs."""

    def __init__(self) -> None:
        self._system: RunningSystem | None = None

    def set(self, system: RunningSystem) -> None:
        self._system = system

    @property
    def system(self) -> RunningSystem | None:
        """Return the system; None before it runs."""
        return self._system

    def show(self, controller: str, path: str, query: Mapping[str, list[str]]) -> tuple[str, str]:
        """Return a page; see RunningSystem.debug_page."""
        if self._system is None:
            raise LookupError("nothing runs yet")
        return self._system.debug_page(controller, path, query)

    def activities(self) -> Mapping[int, Mapping[str, str]]:
        return self._system.activities() if self._system is not None else {}

    def waits(self) -> Sequence[tuple[Mapping[str, str], int, float]]:
        return self._system.waits() if self._system is not None else ()
