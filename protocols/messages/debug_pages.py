"""Messages about debug pages, which show the internal state of a controller: HTTP server → controller."""

from __future__ import annotations

from kcm.protocols.messages.message import Message


class ShowPage(Message, frozen=True, tag=102):
    """Request a debug page. Sent for people only; the reply is a PageShown.

    path: the part after the controller's name, "/graph". query: the values of each parameter, in order.
    """

    path: str
    query: dict[str, list[str]]


class PageShown(Message, frozen=True, tag=103):
    """A debug page. found: whether it exists; otherwise the other fields are empty."""

    found: bool
    content_type: str = ""
    body: bytes = b""
