"""Cache that evicts the least recently used entries."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """LRU cache: a mapping that keeps only its `most` most recently used entries."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: dict[K, V] = {}  # the least recently used first

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        value = self._entries.pop(key, None)
        if value is not None:
            self._entries[key] = value
        return value

    def put(self, key: K, value: V) -> None:
        self._entries.pop(key, None)
        self._entries[key] = value
        if len(self._entries) > self._most:
            del self._entries[next(iter(self._entries))]

    def pop(self, key: K) -> None:
        self._entries.pop(key, None)
