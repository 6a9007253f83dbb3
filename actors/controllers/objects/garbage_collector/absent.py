"""The owners that are known not to exist, so that a thousand dependents of one ask the server once.

Source: kubernetes v1.36 pkg/controller/garbagecollector/uid_cache.go, of 500. Ours are more, as they are small.
"""

from __future__ import annotations

from actors.controllers.objects.garbage_collector.items import Item

MOST = 5000


class AbsentOwners:
    """By coordinates. The one that was asked for least recently goes first."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._known: dict[Item, bool] = {}

    def __contains__(self, owner: Item) -> bool:
        elsewhere = self._known.pop(owner, None)
        if elsewhere is None:
            return False
        self._known[owner] = elsewhere  # to the end
        return True

    def add(self, owner: Item, *, elsewhere: bool) -> None:
        """elsewhere: an object with its uid is in another namespace."""
        self._known.pop(owner, None)
        self._known[owner] = elsewhere
        if len(self._known) > self._most:
            del self._known[next(iter(self._known))]

    def is_elsewhere(self, owner: Item) -> bool:
        return self._known.get(owner, False)
