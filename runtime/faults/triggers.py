"""Fault injection in a running system. Thread-safe."""

from __future__ import annotations

import threading
from collections import Counter

from kcm.runtime.faults.injection import Injector
from kcm.runtime.faults.plan_file import FaultPlan
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from kcm.runtime.scheduling.clock import Clock

PROCESS = "manager"  # the process name that patterns are matched with


class Strikes:
    """Faults of one plan, whose windows are relative to the creation of this object."""

    def __init__(self, plan: FaultPlan, *, clock: Clock) -> None:
        self.faults = plan.faults
        self._clock, self._began = clock, clock.monotonic()
        self._lock = threading.Lock()
        self._injector = Injector(plan.faults, seed=plan.seed, clock=self)

    @property
    def struck(self) -> Counter[FaultKind]:
        """Return the number of strikes per kind of fault."""
        return self._injector.struck

    def monotonic(self) -> float:
        """Return seconds since the start of the plan."""
        return self._clock.monotonic() - self._began

    def moment(self, seconds: float) -> float:
        """Return the clock's monotonic() at this number of seconds after the start."""
        return self._began + seconds

    def plans(self, kind: FaultKind) -> bool:
        return self._injector.plans(kind)

    def strike(
        self, kind: FaultKind, *, actor: str = "", resource: str = "", key: str = "", at: object = None
    ) -> Fault | None:
        """Return the fault that strikes at this opportunity, or None. at: as in Injector.strike."""
        if not self._injector.plans(kind):
            return None
        with self._lock:
            return self._injector.strike(kind, process=PROCESS, actor=actor, resource=resource, key=key, at=at)

    def share(self, fault: Fault) -> float:
        with self._lock:
            return self._injector.share(fault)

    def happened(self, fault: Fault) -> None:
        """Count a fault that lasts for a time. Called when it begins."""
        with self._lock:
            self._injector.happened(fault)
