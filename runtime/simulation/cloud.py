"""Calls into a cloud on virtual time: the same provider and pool of workers, no threads, and the plan's faults."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from protocols.messages.cloud import CloudCall
from protocols.messages.outcomes import Outcome
from runtime.cloud.calls import CloudCalls, HungCall, OnOutcome, carry_out
from runtime.cloud.pool import CallPool, PoolLimits
from runtime.cloud.provider import CloudProvider
from runtime.faults.cloud import FaultyCalls
from runtime.faults.injection import Injector
from runtime.scheduling.clock import Clock
from runtime.scheduling.permits import ALWAYS, Permit
from runtime.simulation.clock import VirtualClock


class CloudWitness(Protocol):
    """Sees what processes ask of the cloud."""

    def called(self, process: str, call: CloudCall) -> None:
        """A call begins."""


class SimulatedCalls:
    """The cloud, and the ways to it. latency: virtual seconds a call takes; it may be changed at any time.

    made: (when, call) of all calls as they begin. injector: the faults that `way` puts in between. Implements
    runtime.cloud.calls.CloudCalls itself, for a test with one process.
    """

    def __init__(self, provider: CloudProvider, *, clock: VirtualClock, latency: float = 0.05) -> None:
        self.provider, self.latency, self.clock = provider, latency, clock
        self.made: list[tuple[float, CloudCall]] = []
        self.injector: Injector | None = None
        self.witnesses: list[CloudWitness] = []
        self._own = _Way(self, "", clock)

    def way(self, process: str, clock: Clock | None = None) -> CloudCalls:
        """A process's own way to the cloud. clock: its own."""
        clock = clock if clock is not None else self.clock
        calls = _Way(self, process, clock)
        if self.injector is None:
            return calls
        return FaultyCalls(calls, partial(self.injector.strike, process=process), clock=clock)

    def send(self, call: CloudCall, on_outcome: OnOutcome, *, permit: Permit = ALWAYS) -> None:
        self._own.send(call, on_outcome, permit=permit)

    def hung(self) -> Sequence[HungCall]:
        return self._own.hung()

    def make(self, process: str, call: CloudCall, on_return: Callable[[Outcome], None]) -> None:
        """A call begins here."""
        self.made.append((self.clock.monotonic(), call))
        for witness in self.witnesses:
            witness.called(process, call)
        self.clock.call_after(self.latency, lambda: on_return(carry_out(self.provider, call)))


class _Way:
    """Implements runtime.cloud.calls.CloudCalls for one process."""

    def __init__(self, cloud: SimulatedCalls, process: str, clock: Clock) -> None:
        self._cloud, self._process = cloud, process
        self._in_line: deque[int] = deque()
        self._idle = 0  # workers
        self._pool = CallPool(clock=clock, limits=PoolLimits(), start=self._start)

    def send(self, call: CloudCall, on_outcome: OnOutcome, *, permit: Permit = ALWAYS) -> None:
        self._in_line.append(self._pool.add(call, on_outcome, permit))
        self._go_on()

    def hung(self) -> Sequence[HungCall]:
        return self._pool.hung()

    def _start(self) -> None:
        self._idle += 1
        self._go_on()

    def _go_on(self) -> None:
        while self._idle and self._in_line:
            number = self._in_line.popleft()
            call = self._pool.begin(number)
            if call is not None:
                self._idle -= 1
                self._cloud.make(self._process, call, partial(self._returned, number))

    def _returned(self, number: int, outcome: Outcome) -> None:
        if self._pool.finish(number, outcome):
            self._idle += 1
            self._go_on()
