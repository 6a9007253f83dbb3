"""Faults that strike in a running system. Thread-safe."""

from __future__ import annotations

import threading
from collections import Counter

from kcm.runtime.faults.injection import Injector
from kcm.runtime.faults.plan_file import FaultPlan
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from kcm.runtime.scheduling.clock import Clock

PROCESS = "manager"  # what the patterns of `process` meet


class Strikes:
    """The faults of one plan; their windows count from when this was made."""

    def __init__(self, plan: FaultPlan, *, clock: Clock) -> None:
        self.faults = plan.faults
        self._clock, self._began = clock, clock.monotonic()
        self._lock = threading.Lock()
        self._injector = Injector(plan.faults, seed=plan.seed, clock=self)

    @property
    def struck(self) -> Counter[FaultKind]:
        """Return how often each kind of fault has struck."""
        return self._injector.struck

    def monotonic(self) -> float:
        """Seconds since the start of the plan."""
        return self._clock.monotonic() - self._began

    def moment(self, seconds: float) -> float:
        """Return the clock's monotonic() at this number of seconds after the start."""
        return self._began + seconds

    def plans(self, kind: FaultKind) -> bool:
        return self._injector.plans(kind)

    def strike(
        self, kind: FaultKind, *, actor: str = "", resource: str = "", key: str = "", at: object = None
    ) -> Fault | None:
        """The fault that strikes at this opportunity; None if none does. at: as of Injector.strike."""
        if not self._injector.plans(kind):
            return None
        with self._lock:
            return self._injector.strike(kind, process=PROCESS, actor=actor, resource=resource, key=key, at=at)

    def share(self, fault: Fault) -> float:
        with self._lock:
            return self._injector.share(fault)

    def happened(self, fault: Fault) -> None:
        """Count a fault that lasts for a time, when it begins."""
        with self._lock:
            self._injector.happened(fault)
