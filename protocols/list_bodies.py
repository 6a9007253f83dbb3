"""Incremental parser of the JSON of a list, which returns items before the whole response has been received."""

from __future__ import annotations

import re
from typing import Any

import orjson

from kcm.protocols.watch_lines import ListPage, parse_list_page

BEGINS_LIST = re.compile(rb'\s*\{\s*"(?:kind|apiVersion|metadata|items)"').match  # an event has "type" and "object"
ITEMS = b'"items":['
FIRST_KEY = re.compile(rb'\{"[A-Za-z]+":').match
TRIES = 8  # places to cut before more input is required


def is_list(body: bytes) -> bool:
    """Report whether the body begins with a list, rather than a watch event."""
    return BEGINS_LIST(body) is not None


class ListReader:
    """Incremental parser of the body of a list, in pieces of any size.

    All items begin with the same key, so the text is cut between the end of an item and the beginning of the next. The
    same text may occur within an item (two volumeClaimTemplates); then the part before it is not valid JSON, and an
    earlier place is tried. A body in another format is parsed as a whole when the response has ended.
    """

    def __init__(self) -> None:
        self._head = b""  # text before the first item, once an item has been received
        self._between = b""  # text that ends an item and begins the next one
        self._rest: list[bytes] = []  # text after the last returned item
        self._size = 0  # bytes in _rest
        self._wait_for = 0  # bytes in _rest before the next attempt to cut

    def feed(self, piece: bytes) -> list[Any]:
        """Add a piece of the body, and return the items that it completes."""
        self._rest.append(piece)
        self._size += len(piece)
        if self._size < self._wait_for:
            return []
        text = b"".join(self._rest)
        if not self._head:
            text = self._find_first(text)
        items, text = self._cut(text)
        self._rest, self._size = [text], len(text)
        return items

    def end(self) -> ListPage:
        """Return the remaining items and the list's metadata, after the last piece. Raises MalformedError."""
        return parse_list_page(self._head + b"".join(self._rest))

    def _find_first(self, text: bytes) -> bytes:
        start = text.find(ITEMS) + len(ITEMS)
        if start < len(ITEMS):
            return text
        first = FIRST_KEY(text, start)
        if first is None:
            return text
        self._head, self._between = text[:start], b"}," + first[0]
        return text[start:]

    def _cut(self, text: bytes) -> tuple[list[Any], bytes]:
        end = len(text)
        for _ in range(TRIES if self._head else 0):
            end = text.rfind(self._between, 0, end)
            if end < 0:
                break
            try:
                items: list[Any] = orjson.loads(b"[%b]" % text[: end + 1])
            except orjson.JSONDecodeError:
                continue
            self._wait_for = 0
            return items, text[end + 2 :]
        self._wait_for = 2 * len(text)
        return [], text
