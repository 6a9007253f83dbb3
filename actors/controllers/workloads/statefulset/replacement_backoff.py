"""Backoff for replacing a pod that repeatedly ends soon after its creation.

Upstream replaces such a pod at once, even if its node rejects every replacement. The delays are those of
actors/controllers/shared/replacements.py, applied to each ordinal separately.
"""

from __future__ import annotations

from typing import NamedTuple

from kcm.actors.controllers.shared.replacements import BACKOFF, QUICK
from kcm.protocols.objects import Key


class _Wait(NamedTuple):
    """Delay of one pod. All times are monotonic seconds."""

    level: int  # how often it was doubled
    since: float  # when it was doubled last
    until: float


class ReplacementBackoff:
    """Delays for replacing pods, by set and ordinal."""

    def __init__(self) -> None:
        self._waits: dict[Key, tuple[str, dict[int, _Wait]]] = {}  # by set: its uid, and the delays by ordinal

    def record_end(self, key: Key, uid: str, ordinal: int, *, age: float | None, now: float) -> None:
        """Record that a terminal pod was deleted; if it ended soon after its creation, delay its replacement.

        age: seconds since the creation of the pod; None if unknown.
        now: monotonic seconds.
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
        """Return the seconds until the pod with this ordinal may be created; 0.0 if it may be created now."""
        wait = self._of(key, uid).get(ordinal)
        return 0.0 if wait is None else max(0.0, wait.until - now)

    def forget(self, key: Key) -> None:
        """Remove all delays of a deleted set."""
        self._waits.pop(key, None)

    def _of(self, key: Key, uid: str) -> dict[int, _Wait]:
        of, waits = self._waits.get(key, ("", {}))
        return waits if of == uid else {}
