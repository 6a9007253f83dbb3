"""Backoff for replacing pods that failed right after their creation.

A pod that its node rejects, or that is evicted as soon as it runs, fails seconds after its creation. Upstream replaces
it immediately, so a node that rejects every pod causes thousands of Failed pods (kubernetes/kubernetes#72593). Here the
replacements of such pods are delayed with exponential backoff; other missing pods are created at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from kcm.protocols.objects import Key
from kcm.runtime.scheduling.backoff import Backoff

QUICK = 30.0  # a failure is quick if it is observed within this number of seconds from the pod's creation
BACKOFF = Backoff(first=1.0, most=300.0)


class ReplacementDelay(Struct, frozen=True, kw_only=True):
    """Backoff state of one owner: how many pods must not be replaced yet. Times are monotonic seconds."""

    held: int = 0  # number of pods that are not replaced before `until`
    until: float = float("-inf")  # end of the delay; in the past if there is no delay
    level: int = 0  # number of times that the delay was doubled
    since: float = float("-inf")  # start of the last delay


def next_delay(
    delay: ReplacementDelay, *, quick_failures: int, missing: int, now: float, backoff: Backoff = BACKOFF
) -> ReplacementDelay:
    """Update the backoff state of an owner. The result's `held` is the number of missing pods not to create now.

    quick_failures: number of pods that failed within QUICK seconds from their creation, since the last call
    missing: number of pods that the owner lacks
    now: monotonic seconds

    A quick failure starts a delay, which is twice as long as the one before. Quick failures during a delay increase
    `held`, and do not extend the delay. The delay is reset to its first value if the last one began more than twice the
    maximum delay ago, as in client-go's flowcontrol.Backoff.
    """
    held, until, level, since = delay.held, delay.until, delay.level, delay.since
    if now >= until:
        held = 0
        if quick_failures:
            level = level + 1 if now - since <= 2 * backoff.most else 0
            since, until = now, now + backoff.delay(level)
    return ReplacementDelay(held=max(0, min(held + quick_failures, missing)), until=until, level=level, since=since)


class Replacements:
    """Recent pod creations of one owner, and its backoff state. Kept for an owner while it has Failed pods."""

    __slots__ = ("_created", "delay", "owner_uid")

    def __init__(self, owner_uid: str) -> None:
        self.owner_uid = owner_uid
        self.delay = ReplacementDelay()
        self._created: dict[Key, float] = {}  # creation times, in order

    def record_creations(self, keys: Iterable[Key], now: float) -> None:
        for key in keys:
            self._created[key] = now

    def count_quick_failures(self, failed: Iterable[Key], now: float) -> int:
        """Count the Failed pods that were created at most QUICK seconds ago, and were not counted before.

        failed: keys of all Failed pods of the owner.
        """
        for key in [key for key, created in self._created.items() if now - created > QUICK]:
            del self._created[key]
        return sum(1 for key in failed if self._created.pop(key, None) is not None)
