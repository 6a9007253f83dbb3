"""Calls into a cloud on a few daemon threads, started as they are needed."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Sequence

from protocols.messages.cloud import CloudCall
from runtime.cloud.calls import HungCall, OnOutcome, carry_out
from runtime.cloud.pool import CallPool, PoolLimits
from runtime.cloud.provider import CloudProvider
from runtime.scheduling.clock import Clock
from runtime.scheduling.permits import ALWAYS, Permit


class ThreadedCalls:
    """Implements runtime.cloud.calls.CloudCalls: calls begin in the order in which they came."""

    def __init__(self, provider: CloudProvider, *, clock: Clock, limits: PoolLimits | None = None) -> None:
        self._provider = provider
        self._names = itertools.count()
        self._in_line: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._pool = CallPool(clock=clock, limits=limits if limits is not None else PoolLimits(), start=self._start)

    def send(self, call: CloudCall, on_outcome: OnOutcome, *, permit: Permit = ALWAYS) -> None:
        self._in_line.put(self._pool.add(call, on_outcome, permit))

    def hung(self) -> Sequence[HungCall]:
        return self._pool.hung()

    def _start(self) -> None:
        threading.Thread(target=self._work, name=f"cloud-{next(self._names)}", daemon=True).start()

    def _work(self) -> None:
        goes_on = True
        while goes_on:
            number = self._in_line.get()
            call = self._pool.begin(number)
            if call is not None:
                goes_on = self._pool.finish(number, carry_out(self._provider, call))
