"""Backoff for replacing pods that failed right after their creation.

A pod that its node rejects (or that is evicted as soon as it runs) fails seconds after its creation. Upstream replaces
it immediately, so that a node that rejects every pod produces thousands of Failed pods (kubernetes/kubernetes#72593).
Here such replacements are delayed, longer each time; other missing pods are created at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcm.protocols.late_methods import dataclass
from kcm.protocols.objects import Key
from kcm.runtime.scheduling.backoff import Backoff

QUICK = 30.0  # seconds after its creation in which the failure of a pod counts as quick
BACKOFF = Backoff(first=1.0, most=300.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacementDelay:
    """A number of pods whose replacement is delayed. Times are monotonic seconds."""

    held: int = 0  # pods that are not replaced before `until`
    until: float = float("-inf")  # in the past without quick failures
    level: int = 0  # how often the delay was doubled
    since: float = float("-inf")  # when it was doubled last


def next_delay(
    delay: ReplacementDelay, *, quick_failures: int, missing: int, now: float, backoff: Backoff = BACKOFF
) -> ReplacementDelay:
    """Return the delay after further quick failures; its `held` is the number of missing pods not to create now.

    quick_failures: number of pods that failed quickly since the last call. missing: number of pods to create.

    The delay doubles when replacements fail quickly; quick failures during a delay join it. It starts over when twice
    the maximum delay has passed since it was last doubled, as in client-go's flowcontrol.Backoff.
    """
    held, until, level, since = delay.held, delay.until, delay.level, delay.since
    if now >= until:
        held = 0
        if quick_failures:
            level = level + 1 if now - since <= 2 * backoff.most else 0
            since, until = now, now + backoff.delay(level)
    return ReplacementDelay(held=max(0, min(held + quick_failures, missing)), until=until, level=level, since=since)


class Replacements:
    """Recent creations of an owner that has Failed pods, and the delay of its replacements."""

    __slots__ = ("_created", "delay", "owner_uid")

    def __init__(self, owner_uid: str) -> None:
        self.owner_uid = owner_uid
        self.delay = ReplacementDelay()
        self._created: dict[Key, float] = {}  # creation times, in order

    def record_creations(self, keys: Iterable[Key], now: float) -> None:
        for key in keys:
            self._created[key] = now

    def count_quick_failures(self, failed: Iterable[Key], now: float) -> int:
        """Count the Failed pods that were created less than QUICK ago. Each pod is counted once."""
        for key in [key for key, created in self._created.items() if now - created > QUICK]:
            del self._created[key]
        return sum(1 for key in failed if self._created.pop(key, None) is not None)
