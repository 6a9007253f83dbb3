"""Backoff for replacing pods that failed right after their creation.

A pod that its node rejects (or that is evicted as soon as it runs) is Failed seconds after it was created. Upstream
replaces it immediately, so that a node that keeps rejecting produces thousands of Failed pods
(kubernetes/kubernetes#72593). Here such replacements wait, longer each time; other missing pods are created at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcm.protocols.late_methods import dataclass
from kcm.protocols.objects import Key
from kcm.runtime.scheduling.backoff import Backoff

QUICK = 30.0  # seconds after its creation; a pod that fails later did not fail at once
BACKOFF = Backoff(first=1.0, most=300.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """held: pods that are not replaced before `until`. level: how often the wait was doubled; since: when last.

    Times are monotonic seconds. Without quick failures `until` is in the past.
    """

    held: int = 0
    until: float = float("-inf")
    level: int = 0
    since: float = float("-inf")


def next_patience(
    patience: Patience, *, failed_at_once: int, missing: int, now: float, backoff: Backoff = BACKOFF
) -> Patience:
    """After so many more quick failures, with so many pods missing in all; `held` is how many not to create now.

    The wait doubles when pods fail at once after one; failures during a wait join it. It starts over once twice the
    longest wait has passed since it was last doubled. As flowcontrol.Backoff, but for a number of pods.
    """
    held, until, level, since = patience.held, patience.until, patience.level, patience.since
    if now >= until:
        held = 0
        if failed_at_once:
            level = level + 1 if now - since <= 2 * backoff.most else 0
            since, until = now, now + backoff.delay(level)
    return Patience(held=max(0, min(held + failed_at_once, missing)), until=until, level=level, since=since)


class Replacements:
    """The pods that one owner created recently while it had Failed pods, and its patience."""

    __slots__ = ("_born", "owner_uid", "patience")

    def __init__(self, owner_uid: str) -> None:
        self.owner_uid = owner_uid
        self.patience = Patience()
        self._born: dict[Key, float] = {}  # creation times, in order

    def made(self, keys: Iterable[Key], now: float) -> None:
        for key in keys:
            self._born[key] = now

    def failed_at_once(self, failed: Iterable[Key], now: float) -> int:
        """How many of these Failed pods were created less than QUICK ago; each counts once."""
        for key in [key for key, born in self._born.items() if now - born > QUICK]:
            del self._born[key]
        return sum(1 for key in failed if self._born.pop(key, None) is not None)
