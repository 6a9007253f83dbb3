"""Outside calls with injected faults, between the Dispatcher and the external systems, in production and simulations.

Implements kcm.runtime.calls.prepared_calls.Calls. The injector is called for each call; the effects of the faults are
listed in runtime/faults/vocabulary.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from kcm.protocols.messages.calls import Call
from kcm.protocols.messages.outcomes import Conflict, Outcome, ServerFailure, Throttled, Unknown
from kcm.runtime.calls.listeners import Ended
from kcm.runtime.calls.prepared_calls import Calls, HungCall, OnOutcome, PreparedCall, raised
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.scheduling.permits import ALWAYS, Permit


class Strike(Protocol):
    """Selects the fault of this kind that strikes at this opportunity, or None."""

    def __call__(self, kind: FaultKind, *, resource: str, key: str, at: object) -> Fault | None: ...


def refusal(prepared: PreparedCall, fault: Fault) -> Outcome:
    """Return the outcome of an injected failure: ConnectionError of a function, the fault's status of a cloud call."""
    if isinstance(prepared.command, Call):
        return raised(ConnectionError(f"injected: {prepared.what} failed"))
    text = f"injected: the cloud returned {fault.status}"
    match fault.status:
        case 409:
            return Conflict(text)
        case 429:
            return Throttled(text, retry_after=fault.seconds)
        case _:
            return ServerFailure(text)


class FaultyCalls:
    """Calls with injected faults. The outcome of a call that exceeds its timeout is Unknown."""

    def __init__(self, inner: Calls, strike: Strike, *, clock: Clock) -> None:
        self._inner, self._strike, self._clock = inner, strike, clock

    def cancel(self, sender: str, before: int) -> None:
        self._inner.cancel(sender, before)

    def listen(self, name: str, run: Callable[[], Any], ended: Ended, *, is_async: bool) -> Callable[[], None]:
        return self._inner.listen(name, run, ended, is_async=is_async)

    def hung(self) -> Sequence[HungCall]:
        return self._inner.hung()

    def close(self) -> None:
        self._inner.close()

    def send(self, prepared: PreparedCall, on_outcome: OnOutcome, *, permit: Permit = ALWAYS) -> None:
        resource, key = prepared.scope

        def strike(kind: FaultKind) -> Fault | None:
            return self._strike(kind, resource=resource, key=key, at=prepared)

        deadline = self._clock.monotonic() + prepared.timeout

        def give_up() -> None:
            lost = Unknown(f"{prepared.what} did not return within {prepared.timeout:g} s (injected)")
            self._at(deadline, lambda: on_outcome(lost))

        def answered(outcome: Outcome) -> None:
            if strike(FaultKind.ANSWER_LOST) is not None:
                give_up()
            elif (late := strike(FaultKind.ANSWER_DELAYED)) is None:
                on_outcome(outcome)
            elif self._clock.monotonic() + late.seconds < deadline:
                self._at(self._clock.monotonic() + late.seconds, lambda: on_outcome(outcome))
            else:
                give_up()

        def arrive() -> None:
            if strike(FaultKind.CALL_REPEATED) is not None:
                again = partial(self._inner.send, prepared, answered, permit=permit)
                self._inner.send(prepared, lambda _first: again(), permit=permit)
            else:
                self._inner.send(prepared, answered, permit=permit)

        if strike(FaultKind.CALL_LOST) is not None:
            give_up()
        elif (fault := strike(FaultKind.CALL_ANSWERED)) is not None:
            outcome = refusal(prepared, fault)
            self._at(self._clock.monotonic(), lambda: on_outcome(outcome))
        elif (late := strike(FaultKind.CALL_DELAYED)) is None:
            arrive()
        elif late.seconds < prepared.timeout:
            self._at(self._clock.monotonic() + late.seconds, arrive)
        else:
            give_up()

    def _at(self, when: float, what: Callable[[], None]) -> None:
        self._clock.call_at(object(), when, what)
