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
from runtime.faults.cloud import FaultyCalls, scope_of
from runtime.faults.injection import Injector
from runtime.faults.vocabulary import FaultKind
from runtime.scheduling.permits import ALWAYS, Permit
from runtime.simulation.clock import VirtualClock
from runtime.simulation.side_threads import SideThread
from runtime.simulation.world import Process


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
        self._own = _Way(self, "", SideThread(clock))

    def way(self, name: str, process: Process | None = None) -> CloudCalls:
        """A process's own way to the cloud. process: None for one that nothing happens to."""
        thread = SideThread(self.clock) if process is None else process.cloud
        calls = _Way(self, name, thread)
        if self.injector is None:
            return calls
        return FaultyCalls(calls, partial(self.injector.strike, process=name), clock=thread.clock)

    def send(self, call: CloudCall, on_outcome: OnOutcome, *, permit: Permit = ALWAYS) -> None:
        self._own.send(call, on_outcome, permit=permit)

    def hung(self) -> Sequence[HungCall]:
        return self._own.hung()

    def make(self, process: str, call: CloudCall, on_return: Callable[[Outcome], None]) -> None:
        """A call begins here."""
        self.made.append((self.clock.monotonic(), call))
        for witness in self.witnesses:
            witness.called(process, call)
        seconds = self.latency
        if self.injector is not None:
            resource, key = scope_of(call)
            hung = self.injector.strike(FaultKind.CLOUD_CALL_HUNG, process=process, resource=resource, key=key)
            if hung is not None and hung.seconds <= 0:
                return
            seconds += hung.seconds if hung is not None else 0.0
        self.clock.call_after(seconds, lambda: on_return(carry_out(self.provider, call)))


class _Way:
    """Implements runtime.cloud.calls.CloudCalls for one process."""

    def __init__(self, cloud: SimulatedCalls, process: str, thread: SideThread) -> None:
        """thread: stands for all threads of the cloud's; held up, all of them are."""
        self._cloud, self._process, self._thread = cloud, process, thread
        self._in_line: deque[int] = deque()
        self._idle = 0  # workers
        self._pool = CallPool(clock=thread.clock, limits=PoolLimits(), start=self._start)

    def send(self, call: CloudCall, on_outcome: OnOutcome, *, permit: Permit = ALWAYS) -> None:
        self._in_line.append(self._pool.add(call, on_outcome, permit))
        self._thread.do(self._go_on)

    def hung(self) -> Sequence[HungCall]:
        return self._pool.hung()

    def _start(self) -> None:
        self._idle += 1
        self._thread.do(self._go_on)

    def _go_on(self) -> None:
        while self._idle and self._in_line:
            number = self._in_line.popleft()
            call = self._pool.begin(number)
            if call is not None:
                self._idle -= 1
                self._cloud.make(self._process, call, partial(self._returns, number))

    def _returns(self, number: int, outcome: Outcome) -> None:
        self._thread.do(lambda: self._returned(number, outcome))

    def _returned(self, number: int, outcome: Outcome) -> None:
        if self._pool.finish(number, outcome):
            self._idle += 1
            self._go_on()
