"""Backoff for replacing a pod that ended right after its creation, and whose successors do so again.

Upstream replaces it at once, however often its node rejects it. As for ReplicaSets, in
actors/controllers/shared/replacements.py, but for each identity by itself.
"""

from __future__ import annotations

from typing import NamedTuple

from kcm.actors.controllers.shared.replacements import BACKOFF, QUICK
from kcm.protocols.objects import Key


class _Wait(NamedTuple):
    """level: how often it was doubled. since: when last; until: when it ends, in monotonic seconds."""

    level: int
    since: float
    until: float


class Patience:
    """Of one controller: which pods of which sets are not created yet."""

    def __init__(self) -> None:
        self._waits: dict[Key, tuple[str, dict[int, _Wait]]] = {}  # by set: its uid, and its ordinals

    def ended(self, key: Key, uid: str, ordinal: int, *, age: float | None, now: float) -> None:
        """A pod of this age (s; None: not known) has ended, and is deleted."""
        if age is None or age > QUICK:
            return
        waits = self._of(key, uid)
        known = waits.get(ordinal)
        again = known is not None and now - known.since <= 2 * BACKOFF.most
        level = known.level + 1 if again and known is not None else 0
        waits[ordinal] = _Wait(level, now, now + BACKOFF.delay(level))
        self._waits[key] = uid, waits

    def seconds_left(self, key: Key, uid: str, ordinal: int, *, now: float) -> float:
        """Until the pod may be created; 0 if it may be now."""
        wait = self._of(key, uid).get(ordinal)
        return 0.0 if wait is None else max(0.0, wait.until - now)

    def forget(self, key: Key) -> None:
        """The set is gone."""
        self._waits.pop(key, None)

    def _of(self, key: Key, uid: str) -> dict[int, _Wait]:
        of, waits = self._waits.get(key, ("", {}))
        return waits if of == uid else {}
