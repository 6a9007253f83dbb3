"""Simulation of calls outside the cluster (functions of controllers, and cloud calls), on virtual time with faults.

The functions and the call pools are the real ones, but without threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from kcm.protocols.messages.calls import Call
from kcm.protocols.messages.cloud import CloudCall
from kcm.protocols.messages.outcomes import Outcome, Raised, qualified_name
from kcm.runtime.calls.listeners import Ended
from kcm.runtime.calls.loop import CANCELLED, LIMITS
from kcm.runtime.calls.pool import Line, PoolLimits
from kcm.runtime.calls.prepared_calls import Calls, HungCall, OnOutcome, PreparedCall
from kcm.runtime.faults.calls import FaultyCalls
from kcm.runtime.faults.injection import Injector
from kcm.runtime.faults.vocabulary import FaultKind
from kcm.runtime.scheduling.permits import ALWAYS, Permit
from kcm.runtime.simulation.clock import VirtualClock
from kcm.runtime.simulation.coroutines import VirtualLoop
from kcm.runtime.simulation.guard import BlockingCallError, guarded
from kcm.runtime.simulation.processes import SimulatedProcess
from kcm.runtime.simulation.side_threads import SideThread


class CallWitness(Protocol):
    """Observer of the outside calls of all processes."""

    def called(self, process: str, call: Call | CloudCall) -> None:
        """Observe that a process makes a call. The call may still be lost."""


class SimulatedCalls:
    """Simulated calls outside the cluster, of all processes.

    A call arrives `latency` virtual seconds after it was made. A function is then executed in one step, and a coroutine
    up to its first wait. A call arrives even if its process has ended meanwhile. An injected hang, however, ends with
    the process: otherwise the call could undo the work of another process minutes later.

    For a test with one process, the class itself implements kcm.runtime.calls.prepared_calls.Calls.

    latency: virtual seconds until a call arrives; may be changed at any time
    made: (virtual time, call) of all calls, in the order in which they were made
    injector: injects faults into calls; None for none
    witnesses: observers of all calls
    """

    def __init__(self, *, clock: VirtualClock, latency: float = 0.05) -> None:
        self.latency, self.clock = latency, clock
        self.made: list[tuple[float, Call | CloudCall]] = []
        self.injector: Injector | None = None
        self.witnesses: list[CallWitness] = []
        self._own = _ProcessCalls(self, "", SideThread(clock))

    def of_process(self, name: str, process: SimulatedProcess | None = None) -> Calls:
        """Return the Calls interface of one process.

        name: name of the process, for faults and observers
        process: the process; None if it never ends or pauses
        """
        thread = SideThread(self.clock) if process is None else process.calls
        calls = _ProcessCalls(self, name, thread)
        if self.injector is None:
            return calls
        return FaultyCalls(calls, partial(self.injector.strike, process=name), clock=thread.clock)

    def send(self, prepared: PreparedCall, on_outcome: OnOutcome, *, permit: Permit = ALWAYS) -> None:
        self._own.send(prepared, on_outcome, permit=permit)

    def cancel(self, sender: str, before: int) -> None:
        self._own.cancel(sender, before)

    def listen(self, name: str, run: Callable[[], Any], ended: Ended, *, is_async: bool) -> Callable[[], None]:
        return self._own.listen(name, run, ended, is_async=is_async)

    def hung(self) -> Sequence[HungCall]:
        return self._own.hung()

    def close(self) -> None:
        self._own.close()

    def record(self, process: str, prepared: PreparedCall, arrive: Callable[[], None], *, thread: SideThread) -> None:
        """Record that a process makes a call, and call `arrive` when the call arrives.

        A fault may delay the arrival. A delayed call does not arrive if the process has ended.

        thread: thread of the process
        """
        self.made.append((self.clock.monotonic(), prepared.command))
        for witness in self.witnesses:
            witness.called(process, prepared.command)
        if self.injector is not None:
            resource, key = prepared.scope
            hung = self.injector.strike(FaultKind.CALL_HUNG, process=process, resource=resource, key=key, at=prepared)
            if hung is not None:
                if hung.seconds > 0:
                    self.clock.call_after(self.latency + hung.seconds, lambda: None if thread.stopped else arrive())
                return
        self.clock.call_after(self.latency, arrive)


class _ProcessCalls:
    """Implementation of kcm.runtime.calls.prepared_calls.Calls for one process."""

    def __init__(self, outside: SimulatedCalls, process: str, thread: SideThread) -> None:
        """Create the calls of one process. thread: represents all of its threads that make calls."""
        self._outside, self._process, self._thread = outside, process, thread
        self._loop = VirtualLoop(outside.clock, thread)  # type: ignore[abstract]  # what it lacks, it refuses
        self._tasks: dict[int, Callable[[], None]] = {}  # functions that cancel the calls, by number
        self._threads = Line(clock=thread.clock, limits=PoolLimits(), do=thread.do, make=self._call)
        self._coroutines = Line(
            clock=thread.clock, limits=LIMITS, do=thread.do, make=self._start, interrupt=self._interrupt
        )

    def send(self, prepared: PreparedCall, on_outcome: OnOutcome, *, permit: Permit = ALWAYS) -> None:
        line = self._coroutines if prepared.is_async else self._threads
        line.pool.add(prepared, on_outcome, permit)

    def cancel(self, sender: str, before: int) -> None:
        self._threads.pool.cancel(sender, before)
        self._coroutines.pool.cancel(sender, before)

    def listen(self, name: str, run: Callable[[], Any], ended: Ended, *, is_async: bool) -> Callable[[], None]:
        """Start a source of events. Raises TypeError if it is not async: a simulation has no threads for sources."""
        if not is_async:
            raise TypeError(
                f"source {name} requires a thread, and a simulation has none: replace it in the simulation by a fake "
                "that is an async function"
            )

        async def listening() -> BaseException | None:
            try:
                await run()
            except BlockingCallError:
                raise  # a fake that waits for the real world is a bug, so the source is not restarted
            except Exception as err:
                return err
            return None

        cancel: Callable[[], None] = lambda: None  # noqa: E731
        stopped = False

        def start() -> None:
            nonlocal cancel
            if not stopped:
                cancel = self._loop.start(listening(), ended)

        def stop() -> None:
            nonlocal stopped
            stopped = True
            cancel()

        # Start it in a later step, not within the handler of the actor that calls this.
        self._outside.clock.call_after(0.0, lambda: self._thread.do(start))
        return lambda: self._thread.do(stop)

    def hung(self) -> Sequence[HungCall]:
        return sorted([*self._threads.pool.hung(), *self._coroutines.pool.hung()], key=lambda hung: hung.since)

    def close(self) -> None:
        self._threads.pool.close()
        self._coroutines.pool.close()

    def _call(self, number: int, prepared: PreparedCall) -> None:
        def on_arrival() -> None:
            with guarded():
                outcome: Outcome = prepared.run()
            _raise_blocking(outcome)
            self._thread.do(lambda: self._threads.returned(number, outcome))

        self._outside.record(self._process, prepared, on_arrival, thread=self._thread)

    def _start(self, number: int, prepared: PreparedCall) -> None:
        def ended(outcome: Outcome | None) -> None:
            self._tasks.pop(number, None)
            _raise_blocking(outcome)
            self._coroutines.returned(number, CANCELLED if outcome is None else outcome)

        def on_arrival() -> None:
            if number in self._tasks:
                cancel = self._loop.start(prepared.run(), ended)
                if number in self._tasks:  # it has not ended yet
                    self._tasks[number] = cancel

        self._tasks[number] = lambda: ended(None)  # cancelled before it arrives
        self._outside.record(self._process, prepared, lambda: self._thread.do(on_arrival), thread=self._thread)

    def _interrupt(self, number: int) -> None:
        cancel = self._tasks.get(number)
        if cancel is not None:
            cancel()


def _raise_blocking(outcome: Outcome | None) -> None:
    """Raise BlockingCallError if a call ended with it. It is a bug of a fake, so the call must not be retried."""
    if isinstance(outcome, Raised) and qualified_name(BlockingCallError) in outcome.kinds:
        raise BlockingCallError(f"{outcome.message} ({outcome.where})")
