"""Warnings for the client of a request, within kube-apiserver's limits.

Source: apiserver pkg/endpoints/filters/warning.go, apimachinery pkg/util/net/http.go (NewWarningHeader; v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MOST_TEXT = 4096  # characters of all warnings; more, and each is cut
LONGEST = 256  # characters of a warning that is cut

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # no header can have these


class Warnings:
    """Distinct warnings in the order in which they are given.

    The rest is dropped as soon as no response can show it, so that a request with 100,000 problems costs no more than
    one with 100.
    """

    __slots__ = ("_left", "_texts")

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts: dict[str, None] = {}
        self._left = MOST_TEXT  # characters, were all of them cut
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
        """All that were kept, in full."""
        return tuple(self._texts)

    def shown(self) -> list[str]:
        """The texts that a response shows."""
        texts = [text for text in self._texts if _CONTROL.search(text) is None]
        if sum(map(len, texts)) <= MOST_TEXT:
            return texts
        return [text[:LONGEST] for text in texts]
