"""Selection, by the seed, of the faults that strike at each opportunity."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from kcm.runtime.faults.vocabulary import Fault, FaultKind


class Elapsed(Protocol):
    """Clock of the faults."""

    def monotonic(self) -> float:
        """Return seconds since the start of the run."""


Told = Callable[[Fault, str, str, object], None]  # (fault, process, actor, `at` of `strike`)


class _Armed:
    __slots__ = ("fault", "left", "random")

    def __init__(self, fault: Fault, seed: int) -> None:
        self.fault, self.left = fault, fault.most
        # Each fault has its own generator, so that removing another fault from the plan does not change its strikes.
        self.random = random.Random(f"{seed} {fault}")


class Injector:
    """Faults of one run.

    struck: number of strikes per kind.
    on_strike: called with each strike, if it is set.
    """

    def __init__(self, faults: Iterable[Fault], *, seed: int, clock: Elapsed) -> None:
        self.faults = tuple(faults)
        self.struck: Counter[FaultKind] = Counter()
        self.on_strike: Told | None = None
        self._clock = clock
        self._armed: dict[FaultKind, list[_Armed]] = {}
        for fault in self.faults:
            self._armed.setdefault(fault.kind, []).append(_Armed(fault, seed))

    @property
    def kinds(self) -> Collection[FaultKind]:
        """Return the kinds of faults in the plan."""
        return self._armed.keys()

    def plans(self, kind: FaultKind) -> bool:
        """Report whether the plan contains such a fault. Cheaper than `strike`."""
        return kind in self._armed

    def next_on(self, kinds: Iterable[FaultKind]) -> float:
        """Return the time from which a fault of these kinds may strike: now or later; infinity for never."""
        now = self._clock.monotonic()
        starts = (
            max(now, armed.fault.start)
            for kind in kinds
            for armed in self._armed.get(kind, ())
            if armed.left != 0 and (armed.fault.until is None or now < armed.fault.until)
        )
        return min(starts, default=math.inf)

    def strike(
        self,
        kind: FaultKind,
        *,
        process: str = "",
        actor: str = "",
        resource: str = "",
        key: str = "",
        cluster: str = "",
        at: object = None,
    ) -> Fault | None:
        """Return the fault that strikes at this opportunity, or None. at: passed to `on_strike`."""
        armed = self._armed.get(kind)
        if armed is None:
            return None
        now = self._clock.monotonic()
        for candidate in armed:
            fault = candidate.fault
            if candidate.left == 0 or not fault.is_on(now):
                continue
            if not fault.concerns(process=process, actor=actor, resource=resource, key=key, cluster=cluster):
                continue
            if fault.rate < 1 and candidate.random.random() >= fault.rate:
                continue
            if candidate.left is not None:
                candidate.left -= 1
            self.happened(fault, process=process, actor=actor, at=at)
            return fault
        return None

    def happened(self, fault: Fault, *, process: str = "", actor: str = "", at: object = None) -> None:
        """Count a strike. Called directly when a fault begins that lasts for a time."""
        self.struck[fault.kind] += 1
        if self.on_strike is not None:
            self.on_strike(fault, process, actor, at)

    def share(self, fault: Fault) -> float:
        """Return the next random number in [0, 1) of this fault's generator."""
        return next(candidate for candidate in self._armed[fault.kind] if candidate.fault is fault).random.random()
