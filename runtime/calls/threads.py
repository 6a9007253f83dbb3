"""Calls on daemon threads that are started on demand, and calls of async functions on an event loop."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

from kcm.runtime.calls.listeners import Ended
from kcm.runtime.calls.loop import LoopCalls
from kcm.runtime.calls.pool import CallPool, PoolLimits
from kcm.runtime.calls.prepared_calls import HungCall, OnOutcome, PreparedCall
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.scheduling.permits import ALWAYS, Permit

END = -1  # in the queue: the worker that takes it ends


class ThreadedCalls:
    """Implementation of kcm.runtime.calls.prepared_calls.Calls: calls begin in the order of their submission."""

    def __init__(self, *, clock: Clock, limits: PoolLimits | None = None) -> None:
        self._lock = threading.Lock()  # protects the number of started workers
        self._started = 0
        self._in_line: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._pool = CallPool(
            clock=clock,
            limits=limits if limits is not None else PoolLimits(),
            start=self._start,
            line_up=self._in_line.put,
        )
        self._loop = LoopCalls(clock=clock)

    def send(self, prepared: PreparedCall, on_outcome: OnOutcome, *, permit: Permit = ALWAYS) -> None:
        if prepared.is_async:
            self._loop.send(prepared, on_outcome, permit=permit)
        else:
            self._pool.add(prepared, on_outcome, permit)

    def cancel(self, sender: str, before: int) -> None:
        self._pool.cancel(sender, before)
        self._loop.cancel(sender, before)

    def listen(self, name: str, run: Callable[[], Any], ended: Ended, *, is_async: bool) -> Callable[[], None]:
        if is_async:
            return self._loop.listen(name, run, ended)

        def work() -> None:
            try:
                run()
            except BaseException as err:
                ended(err)
            else:
                ended(None)

        threading.Thread(target=work, name=f"source-{name}", daemon=True).start()
        return lambda: None

    def hung(self) -> Sequence[HungCall]:
        return sorted([*self._pool.hung(), *self._loop.hung()], key=lambda call: call.since)

    def close(self) -> None:
        self._pool.close()
        for _ in range(self._started):
            self._in_line.put(END)
        self._loop.close()

    def _start(self) -> None:
        with self._lock:
            number, self._started = self._started, self._started + 1
        threading.Thread(target=self._work, name=f"calls-{number}", daemon=True).start()

    def _work(self) -> None:
        goes_on = True
        while goes_on:
            number = self._in_line.get()
            if number == END:
                return
            prepared = self._pool.begin(number)
            if prepared is not None:
                goes_on = self._pool.finish(number, prepared.run())
