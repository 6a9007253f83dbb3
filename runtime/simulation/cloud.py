"""Calls into a cloud on virtual time: the same provider, the same outcomes, no threads, and the faults of the plan."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from protocols.messages.cloud import CloudCall
from protocols.messages.outcomes import Outcome
from runtime.cloud.calls import CloudCalls, carry_out
from runtime.cloud.provider import CloudProvider
from runtime.faults.cloud import FaultyCalls
from runtime.faults.injection import Injector
from runtime.simulation.clock import VirtualClock


class SimulatedCalls:
    """Implements runtime.cloud.calls.CloudCalls. latency: virtual seconds a call takes; it may be changed at any time.

    made: (when, call) of all calls, in order. injector: the faults that `way` puts in between.
    """

    def __init__(self, provider: CloudProvider, *, clock: VirtualClock, latency: float = 0.05) -> None:
        self.provider, self.latency = provider, latency
        self.made: list[tuple[float, CloudCall]] = []
        self.injector: Injector | None = None
        self._clock = clock

    def way(self, process: str) -> CloudCalls:
        """A process's own way to the cloud."""
        if self.injector is None:
            return self
        return FaultyCalls(self, partial(self.injector.strike, process=process), clock=self._clock)

    def send(self, call: CloudCall, on_outcome: Callable[[Outcome], None]) -> None:
        self.made.append((self._clock.monotonic(), call))
        self._clock.call_after(self.latency, lambda: on_outcome(carry_out(self.provider, call)))
