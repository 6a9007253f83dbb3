"""Calls into a cloud on which things go wrong: it stands between the Dispatcher and the cloud, here and in simulations.

Implements runtime.cloud.calls.CloudCalls. Which fault strikes is asked for each call; what each one does is in
runtime/faults/vocabulary.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from protocols.messages.cloud import (
    CloudCall,
    CreateRoute,
    DeleteRoute,
    InstanceExists,
    InstanceIsShutDown,
    ListRoutes,
)
from protocols.messages.outcomes import Conflict, Outcome, ServerFailure, Throttled, Unknown
from runtime.cloud.calls import CloudCalls, HungCall, OnOutcome, subject_of
from runtime.cloud.pool import PoolLimits
from runtime.faults.vocabulary import Fault, FaultKind
from runtime.scheduling.clock import Clock
from runtime.scheduling.permits import ALWAYS, Permit

TIMEOUT = PoolLimits().timeout
INSTANCES, ROUTES, BALANCERS = "instances", "routes", "loadbalancers"


class Strike(Protocol):
    """Returns the fault of this kind that strikes at this opportunity; None if none does."""

    def __call__(self, kind: FaultKind, *, resource: str, key: str) -> Fault | None: ...


def scope_of(call: CloudCall) -> tuple[str, str]:
    """(resource, key) that the scopes of faults are matched with."""
    match call:
        case InstanceExists() | InstanceIsShutDown():
            resource = INSTANCES
        case ListRoutes() | CreateRoute() | DeleteRoute():
            resource = ROUTES
        case _:
            resource = BALANCERS
    return resource, subject_of(call)


def refusal(fault: Fault) -> Outcome:
    """The outcome that stands for a refusal by the cloud, by the fault's status."""
    text = f"injected: the cloud returned {fault.status}"
    match fault.status:
        case 409:
            return Conflict(text)
        case 429:
            return Throttled(text, retry_after=fault.seconds)
        case _:
            return ServerFailure(text)


class FaultyCalls:
    """timeout: seconds after which the outcome of a call that has not returned is Unknown."""

    def __init__(self, inner: CloudCalls, strike: Strike, *, clock: Clock, timeout: float = TIMEOUT) -> None:
        self._inner, self._strike, self._clock, self._timeout = inner, strike, clock, timeout

    def hung(self) -> Sequence[HungCall]:
        return self._inner.hung()

    def send(self, call: CloudCall, on_outcome: OnOutcome, *, permit: Permit = ALWAYS) -> None:
        resource, key = scope_of(call)

        def strike(kind: FaultKind) -> Fault | None:
            return self._strike(kind, resource=resource, key=key)

        deadline = self._clock.monotonic() + self._timeout

        def give_up() -> None:
            lost = Unknown(f"the cloud did not respond within {self._timeout:.0f} s (injected)")
            self._at(deadline, lambda: on_outcome(lost))

        def answered(outcome: Outcome) -> None:
            if strike(FaultKind.CLOUD_OUTCOME_LOST) is not None:
                give_up()
            elif (late := strike(FaultKind.CLOUD_OUTCOME_DELAYED)) is None:
                on_outcome(outcome)
            elif self._clock.monotonic() + late.seconds < deadline:
                self._at(self._clock.monotonic() + late.seconds, lambda: on_outcome(outcome))
            else:
                give_up()

        def arrive() -> None:
            if strike(FaultKind.CLOUD_CALL_REPEATED) is not None:
                again = partial(self._inner.send, call, answered, permit=permit)
                self._inner.send(call, lambda _first: again(), permit=permit)
            else:
                self._inner.send(call, answered, permit=permit)

        if strike(FaultKind.CLOUD_CALL_LOST) is not None:
            give_up()
        elif (fault := strike(FaultKind.CLOUD_CALL_ANSWERED)) is not None:
            outcome = refusal(fault)
            self._at(self._clock.monotonic(), lambda: on_outcome(outcome))
        elif (late := strike(FaultKind.CLOUD_CALL_DELAYED)) is None:
            arrive()
        elif late.seconds < self._timeout:
            self._at(self._clock.monotonic() + late.seconds, arrive)
        else:
            give_up()

    def _at(self, when: float, what: Callable[[], None]) -> None:
        self._clock.call_at(object(), when, what)
