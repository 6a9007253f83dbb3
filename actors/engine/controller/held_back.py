"""Keys whose reconciliation hung. They are held back, so that they do not block the next incarnation as well.

A reconciler that blocks (on a network call or a lock) blocks its controller's thread. The manager fences that
incarnation and starts another. The thread cannot be stopped, but its messages are dropped. Its key, or its periodic
pass, is held back for a delay that doubles each time, and while the thread still hangs. Other keys continue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from msgspec import Struct

from kcm.actors.engine.vitals import HeldKey, InWork
from kcm.runtime.scheduling.backoff import Backoff

HOLD = Backoff(first=60.0, factor=2.0, most=3600.0)
LOOK_AGAIN = 5.0  # seconds between checks of a thread that still hangs


class Straggler(Protocol):
    """A fenced incarnation whose thread has not ended."""

    @property
    def at_work(self) -> InWork | None:
        """Return the key that its thread is reconciling. Thread-safe."""


class Hang(Struct):
    """Hung reconciliations of one key."""

    since: float  # start of the last hang
    hangs: int  # number of consecutive hangs
    until: float  # the key is held back until this time
    straggler: Straggler | None  # None once its thread has returned

    def lasts(self) -> bool:
        at_work = self.straggler.at_work if self.straggler is not None else None
        return at_work is not None and at_work.since == self.since


class HeldBack:
    """Keys of a controller that are held back, shared by all of its incarnations.

    hangs: held keys, by source and key as in InWork; usually empty.
    """

    def __init__(self, *, hung_after: float = 30.0) -> None:
        """Hold back nothing.

        hung_after: seconds in one turn after which an actor counts as hung. A reconciliation step that took at least
            half of that is held back; a shorter one only happened to run when the thread was fenced.
        """
        self._hung_after = hung_after
        self.hangs: dict[tuple[str, str], Hang] = {}

    def __iter__(self) -> Iterator[HeldKey]:
        for (source, key), hang in list(self.hangs.items()):
            yield HeldKey(queue=source, key=key, since=hang.since, hangs=hang.lasts())

    def learn(self, stragglers: Iterable[Straggler], now: float) -> None:
        """Hold back the keys at which threads of earlier incarnations hang. Called when an incarnation starts."""
        for straggler in stragglers:
            at_work = straggler.at_work
            if at_work is not None:
                self._hold(at_work, now, straggler)

    def came_back(self, at_work: InWork, now: float) -> None:
        """Record that a fenced incarnation has finished this key. Called from that incarnation's thread."""
        self._hold(at_work, now, None)

    def wait(self, source: str, key: str, now: float) -> float:
        """Return the seconds until this key may be reconciled; 0 if it is not held back."""
        hang = self.hangs.get((source, key))
        if hang is None:
            return 0.0
        left = hang.until - now
        return max(left, LOOK_AGAIN) if hang.lasts() else max(left, 0.0)

    def succeeded(self, source: str, key: str) -> None:
        self.hangs.pop((source, key), None)

    def _hold(self, at_work: InWork, now: float, straggler: Straggler | None) -> None:
        if (
            now - at_work.since < self._hung_after / 2
        ):  # not this step, but an earlier one in the same turn took the time
            return
        name = (at_work.queue, at_work.key)
        known = self.hangs.get(name)
        if known is not None and known.since == at_work.since:
            known.straggler = straggler
            return
        hangs = 1 if known is None else known.hangs + 1
        self.hangs[name] = Hang(at_work.since, hangs, now + HOLD.delay(hangs - 1), straggler)
