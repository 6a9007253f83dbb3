"""The conversation about pages that show people what a controller has in mind: server of pages → controller."""

from __future__ import annotations

from msgspec import Struct


class ShowPage(Struct, frozen=True):
    """Show me this page of yours. Asked by people only; the reply is a PageShown.

    path: what follows the controller's name, "/graph". query: the values of each parameter, in order.
    """

    path: str
    query: dict[str, list[str]]


class PageShown(Struct, frozen=True):
    """found: whether there is such a page; without it the other two are empty."""

    found: bool
    content_type: str = ""
    body: bytes = b""
