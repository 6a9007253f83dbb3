"""Selection of the faults that strike, by the seed, at each opportunity."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from kcm.runtime.faults.vocabulary import Fault, FaultKind


class Elapsed(Protocol):
    """The clock of faults."""

    def monotonic(self) -> float:
        """Seconds since the start of the run."""


Told = Callable[[Fault, str, str, object], None]  # the fault that strikes, the process, the actor, `at` of `strike`


class _Armed:
    __slots__ = ("fault", "left", "random")

    def __init__(self, fault: Fault, seed: int) -> None:
        self.fault, self.left = fault, fault.most
        # A generator of its own: with another fault taken out of the plan, this one strikes as before.
        self.random = random.Random(f"{seed} {fault}")


class Injector:
    """The faults of one run. struck: number of strikes per kind. told: called with each strike, if it is set."""

    def __init__(self, faults: Iterable[Fault], *, seed: int, clock: Elapsed) -> None:
        self.faults = tuple(faults)
        self.struck: Counter[FaultKind] = Counter()
        self.told: Told | None = None
        self._clock = clock
        self._armed: dict[FaultKind, list[_Armed]] = {}
        for fault in self.faults:
            self._armed.setdefault(fault.kind, []).append(_Armed(fault, seed))

    @property
    def kinds(self) -> Collection[FaultKind]:
        """Return the kinds of faults in the plan."""
        return self._armed.keys()

    def plans(self, kind: FaultKind) -> bool:
        """True if the plan has such a fault: a quick test before `strike`."""
        return kind in self._armed

    def strike(
        self,
        kind: FaultKind,
        *,
        process: str = "",
        actor: str = "",
        resource: str = "",
        key: str = "",
        at: object = None,
    ) -> Fault | None:
        """Return the fault that strikes at this opportunity, or None. at: the message or request, passed to `told`."""
        armed = self._armed.get(kind)
        if armed is None:
            return None
        now = self._clock.monotonic()
        for candidate in armed:
            fault = candidate.fault
            if candidate.left == 0 or not fault.is_on(now):
                continue
            if not fault.concerns(process=process, actor=actor, resource=resource, key=key):
                continue
            if fault.rate < 1 and candidate.random.random() >= fault.rate:
                continue
            if candidate.left is not None:
                candidate.left -= 1
            self.happened(fault, process=process, actor=actor, at=at)
            return fault
        return None

    def happened(self, fault: Fault, *, process: str = "", actor: str = "", at: object = None) -> None:
        """It strikes; called for a fault that lasts for a time when it begins."""
        self.struck[fault.kind] += 1
        if self.told is not None:
            self.told(fault, process, actor, at)

    def share(self, fault: Fault) -> float:
        """A number in [0, 1) that belongs to this fault, another each time."""
        return next(candidate for candidate in self._armed[fault.kind] if candidate.fault is fault).random.random()
