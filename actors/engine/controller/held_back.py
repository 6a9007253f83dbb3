"""Keys whose reconciliation hung: held back, so that they do not take the next incarnation of their controller too.

A reconciler that waits for something (a call over the network, a lock) holds up its controller's thread. The manager
fences that incarnation and starts another, but a thread cannot be ended: it hangs on, and what it sends one day is
dropped. The key, or the periodic pass, at which it hangs is left alone for a while that doubles each time, and for as
long as the thread is not back; all others go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from kcm.actors.engine.vitals import HeldKey, InWork
from kcm.protocols.late_methods import dataclass
from kcm.runtime.scheduling.backoff import Backoff

HOLD = Backoff(first=60.0, factor=2.0, most=3600.0)
LOOK_AGAIN = 5.0  # seconds until a thread that hangs still is asked for again


class Straggler(Protocol):
    """A fenced incarnation whose thread has not ended."""

    @property
    def at_work(self) -> InWork | None:
        """Key that its thread reconciles at this moment. Called from any thread."""


@dataclass(slots=True)
class Hang:
    """since: when the last one began. hangs: how many in a row. straggler: None once its thread is back."""

    since: float
    hangs: int
    until: float
    straggler: Straggler | None

    def lasts(self) -> bool:
        at_work = self.straggler.at_work if self.straggler is not None else None
        return at_work is not None and at_work.since == self.since


class HeldBack:
    """One for all incarnations of a controller.

    hangs: what is held back, by source and key, as InWork names them; mostly empty, which costs nothing to ask.
    hung_after: seconds in one turn after which an actor hangs. A step of a reconciliation that took half of that
    is to blame; a thread that is fenced may be in the middle of a sound one.
    """

    def __init__(self, *, hung_after: float = 30.0) -> None:
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
        """Record that a fenced incarnation has finished this key. Called from its thread."""
        self._hold(at_work, now, None)

    def wait(self, source: str, key: str, now: float) -> float:
        """Seconds until this may begin; 0 if it may now."""
        hang = self.hangs.get((source, key))
        if hang is None:
            return 0.0
        left = hang.until - now
        return max(left, LOOK_AGAIN) if hang.lasts() else max(left, 0.0)

    def succeeded(self, source: str, key: str) -> None:
        self.hangs.pop((source, key), None)

    def _hold(self, at_work: InWork, now: float, straggler: Straggler | None) -> None:
        if now - at_work.since < self._hung_after / 2:  # its turn had begun before this step
            return
        name = (at_work.queue, at_work.key)
        known = self.hangs.get(name)
        if known is not None and known.since == at_work.since:
            known.straggler = straggler
            return
        hangs = 1 if known is None else known.hangs + 1
        self.hangs[name] = Hang(at_work.since, hangs, now + HOLD.delay(hangs - 1), straggler)
