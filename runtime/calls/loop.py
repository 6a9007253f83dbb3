"""Calls of async functions as tasks of an event loop. The loop's daemon thread starts with the first call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from kcm.protocols.messages.outcomes import Outcome, Unknown
from kcm.runtime.calls.listeners import Ended
from kcm.runtime.calls.pool import Line, PoolLimits
from kcm.runtime.calls.prepared_calls import HungCall, OnOutcome, PreparedCall, raised
from kcm.runtime.process.event_loop import new_event_loop
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.scheduling.permits import ALWAYS, Permit

LIMITS = PoolLimits(workers=128, most=256)  # tasks are cheap: they need no threads
CANCELLED = Unknown("cancelled")


class LoopCalls:
    """Runner of calls of async functions. A call that times out is cancelled, and counts as hung until it ends."""

    def __init__(self, *, clock: Clock, limits: PoolLimits = LIMITS) -> None:
        self._line = Line(
            clock=clock, limits=limits, do=self._do, make=self._make, interrupt=lambda number: self._interrupt(number)
        )
        self._tasks: dict[int, asyncio.Task[Outcome]] = {}
        self._listening: set[asyncio.Task[None]] = set()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def send(self, prepared: PreparedCall, on_outcome: OnOutcome, *, permit: Permit = ALWAYS) -> None:
        self._line.pool.add(prepared, on_outcome, permit)

    def cancel(self, sender: str, before: int) -> None:
        self._line.pool.cancel(sender, before)

    def listen(self, name: str, run: Callable[[], Coroutine[Any, Any, None]], ended: Ended) -> Callable[[], None]:
        """Implement SourceHost.listen."""
        task: asyncio.Task[None] | None = None
        cancelled = False

        def begin() -> None:
            nonlocal task
            if not cancelled:
                task = asyncio.get_running_loop().create_task(run(), name=name)
                self._listening.add(task)
                task.add_done_callback(done)

        def done(task: asyncio.Task[None]) -> None:
            self._listening.discard(task)
            ended(None if task.cancelled() else task.exception())
            if self._closed:
                self._stop_once_idle(task.get_loop())

        def cancel() -> None:
            nonlocal cancelled
            cancelled = True
            if task is not None:
                task.cancel()

        self._do(begin)
        return lambda: self._do(cancel)

    def hung(self) -> Sequence[HungCall]:
        return self._line.pool.hung()

    def close(self) -> None:
        self._line.pool.close()
        with self._lock:
            loop = None if self._closed else self._loop
            self._closed = True
        if loop is not None:
            loop.call_soon_threadsafe(self._end, loop)

    def _do(self, what: Callable[[], None]) -> None:
        with self._lock:
            if self._closed:
                return
            if self._loop is None:
                self._loop = new_event_loop()
                threading.Thread(target=self._run, args=(self._loop,), name="calls-loop", daemon=True).start()
            self._loop.call_soon_threadsafe(what)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            loop.close()

    # The methods below run on the loop's thread.

    def _make(self, number: int, prepared: PreparedCall) -> None:
        task = self._tasks[number] = asyncio.get_running_loop().create_task(prepared.run(), name=prepared.what)
        task.add_done_callback(lambda done: self._done(number, done))

    def _done(self, number: int, task: asyncio.Task[Outcome]) -> None:
        del self._tasks[number]
        if task.cancelled():
            outcome: Outcome = CANCELLED
        elif (err := task.exception()) is not None:
            outcome = raised(err)
        else:
            outcome = task.result()
        self._line.returned(number, outcome)
        if self._closed:
            self._stop_once_idle(task.get_loop())

    def _interrupt(self, number: int) -> None:
        task = self._tasks.get(number)
        if task is not None:
            task.cancel()

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        for task in self._listening:
            task.cancel()
        self._stop_once_idle(loop)

    def _stop_once_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._tasks and not self._listening:
            loop.stop()
