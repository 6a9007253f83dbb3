"""Sources in threads and on an event loop."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from structlog.typing import FilteringBoundLogger

from kcm.runtime.calls.listeners import BACKOFF, STABLE, Listen, SourceRunner, Waker
from kcm.runtime.calls.threads import ThreadedCalls
from kcm.runtime.scheduling.clock import SystemClock
from kcm.runtime.simulation.clock import VirtualClock

TIMEOUT = 10.0  # seconds


class Rig:
    def __init__(self, log: FilteringBoundLogger) -> None:
        self.clock = SystemClock()
        self.calls = ThreadedCalls(clock=self.clock)
        self.keys: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.ended = threading.Event()
        self._log = log

    def listener(self, listen: Listen) -> SourceRunner:
        return SourceRunner("c/one", listen, host=self.calls, clock=self.clock, log=self._log)

    def key(self) -> Any:
        return self.keys.get(timeout=TIMEOUT)


@pytest.fixture
def rig(log: FilteringBoundLogger) -> Iterator[Rig]:
    made = Rig(log)
    yield made
    made.calls.close()
    made.clock.close()


@pytest.mark.parametrize("kind", ["generator", "function", "async generator", "async function"])
def test_a_source_wakes_keys_until_it_is_stopped(rig: Rig, kind: str) -> None:
    def generator(waker: Waker) -> Iterator[str]:
        try:
            yield "a"
            while not waker.wait(0.01):
                yield "b"
        finally:
            rig.ended.set()

    def function(waker: Waker) -> None:
        for key in generator(waker):
            waker.enqueue(key)

    async def async_generator(_waker: Waker) -> AsyncIterator[str]:
        try:
            yield "a"
            while True:
                await asyncio.sleep(0.01)
                yield "b"
        finally:
            rig.ended.set()

    async def async_function(waker: Waker) -> None:
        async for key in async_generator(waker):
            waker.enqueue(key)

    kinds: dict[str, Listen] = {
        "generator": generator,
        "function": function,
        "async generator": async_generator,
        "async function": async_function,
    }
    listener = rig.listener(kinds[kind])
    listener.start(rig.keys.put)
    assert [rig.key(), rig.key()] == ["a", "b"]
    assert not rig.ended.is_set()
    listener.stop()
    assert rig.ended.wait(TIMEOUT)


def test_keys_of_a_stopped_source_that_still_runs_are_dropped(rig: Rig) -> None:
    go_on = threading.Event()

    def stubborn(waker: Waker) -> None:
        waker.enqueue("a")
        assert go_on.wait(TIMEOUT)
        waker.enqueue("late")
        rig.ended.set()

    listener = rig.listener(stubborn)
    listener.start(rig.keys.put)
    assert rig.key() == "a"
    listener.stop()
    go_on.set()
    assert rig.ended.wait(TIMEOUT)
    assert rig.keys.empty()


def test_source_that_raises_is_restarted(rig: Rig) -> None:
    def failing(waker: Waker) -> Iterator[str]:
        yield "a"
        raise SystemExit(1)

    listener = rig.listener(failing)
    listener.start(rig.keys.put)
    assert [rig.key(), rig.key()] == ["a", "a"]
    assert listener.trouble == "SystemExit: 1"
    listener.stop()


def test_failure_of_a_source_is_cleared_once_its_next_run_is_stable(log: FilteringBoundLogger) -> None:
    clock, runs = VirtualClock(), list[Callable[[BaseException | None], None]]()

    class Host:
        def listen(self, name: str, run: Any, ended: Any, *, is_async: bool) -> Callable[[], None]:
            runs.append(ended)
            return lambda: None

    listener = SourceRunner("c/one", lambda _waker: iter(()), host=Host(), clock=clock, log=log)
    listener.start(lambda _key: None)
    assert listener.trouble == ""
    runs[0](OSError("broken"))
    assert listener.trouble == "OSError: broken"
    clock.advance_to(clock.monotonic() + BACKOFF.delay(0) + 1.0)
    clock.run_due()
    assert len(runs) == 2
    assert listener.trouble == "OSError: broken"
    clock.advance_to(clock.monotonic() + STABLE)
    assert listener.trouble == ""
    runs[1](OSError("broken again"))
    assert listener.trouble == "OSError: broken again"
    listener.stop()
    assert listener.trouble == "OSError: broken again"
