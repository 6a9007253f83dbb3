"""Warnings for the client of a request, within kube-apiserver's limits.

Source: apiserver pkg/endpoints/filters/warning.go, apimachinery pkg/util/net/http.go (NewWarningHeader; v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MOST_TEXT = 4096  # total characters of all warnings; if they have more, each warning is truncated
LONGEST = 256  # characters to which a warning is truncated

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # not allowed in HTTP headers


class Warnings:
    """Collection of distinct warnings, in the order in which they are added.

    Warnings beyond the limit of a response are dropped, so a request with 100,000 problems costs no more than a request
    with 100.
    """

    __slots__ = ("_left", "_texts")

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts: dict[str, None] = {}
        self._left = MOST_TEXT  # remaining characters if all warnings are truncated
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        if self._left > 0 and text and text not in self._texts:
            self._texts[text] = None
            self._left -= min(len(text), LONGEST)

    def __bool__(self) -> bool:
        return bool(self._texts)

    @property
    def is_full(self) -> bool:
        return self._left <= 0

    @property
    def texts(self) -> tuple[str, ...]:
        """All warnings, not truncated. `shown` returns the warnings for the response."""
        return tuple(self._texts)

    def shown(self) -> list[str]:
        """Return the warnings as the response shows them: truncated if necessary, and without control characters."""
        texts = [text for text in self._texts if _CONTROL.search(text) is None]
        if sum(map(len, texts)) <= MOST_TEXT:
            return texts
        return [text[:LONGEST] for text in texts]
