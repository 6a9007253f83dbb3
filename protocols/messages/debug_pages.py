"""Messages about debug pages, which show the internal state of a controller: HTTP server → controller."""

from __future__ import annotations

from msgspec import Struct


class ShowPage(Struct, frozen=True):
    """Request a debug page. Sent for people only; the reply is a PageShown.

    path: the part after the controller's name, "/graph". query: the values of each parameter, in order.
    """

    path: str
    query: dict[str, list[str]]


class PageShown(Struct, frozen=True):
    """A debug page. found: whether it exists; otherwise the other fields are empty."""

    found: bool
    content_type: str = ""
    body: bytes = b""
