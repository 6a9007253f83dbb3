"""Backoff for replacing a pod that repeatedly ends right after its creation.

Upstream replaces it at once, however often its node rejects it. It is the backoff of ReplicaSets
(actors/controllers/shared/replacements.py), applied to each ordinal separately.
"""

from __future__ import annotations

from typing import NamedTuple

from kcm.actors.controllers.shared.replacements import BACKOFF, QUICK
from kcm.protocols.objects import Key


class _Wait(NamedTuple):
    """A delay, in monotonic seconds."""

    level: int  # how often it was doubled
    since: float  # when it was doubled last
    until: float


class ReplacementBackoff:
    """Delays of the pods of all sets, by ordinal."""

    def __init__(self) -> None:
        self._waits: dict[Key, tuple[str, dict[int, _Wait]]] = {}  # by set: its uid, and the delays by ordinal

    def record_end(self, key: Key, uid: str, ordinal: int, *, age: float | None, now: float) -> None:
        """Delay the replacement of a terminal pod that was just deleted.

        age: seconds since its creation; None if unknown.
        """
        if age is None or age > QUICK:
            return
        waits = self._of(key, uid)
        known = waits.get(ordinal)
        again = known is not None and now - known.since <= 2 * BACKOFF.most
        level = known.level + 1 if again and known is not None else 0
        waits[ordinal] = _Wait(level, now, now + BACKOFF.delay(level))
        self._waits[key] = uid, waits

    def seconds_left(self, key: Key, uid: str, ordinal: int, *, now: float) -> float:
        """Return the seconds until the pod may be created; 0.0 if it may be created now."""
        wait = self._of(key, uid).get(ordinal)
        return 0.0 if wait is None else max(0.0, wait.until - now)

    def forget(self, key: Key) -> None:
        """Remove all delays of a deleted set."""
        self._waits.pop(key, None)

    def _of(self, key: Key, uid: str) -> dict[int, _Wait]:
        of, waits = self._waits.get(key, ("", {}))
        return waits if of == uid else {}
