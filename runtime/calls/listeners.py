"""Sources of events outside the cluster.

Each runs as long as its controller, and is restarted when it ends or fails.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol

from kcm.protocols.messages.lifecycle import PlainKey
from kcm.runtime.scheduling.backoff import Backoff
from kcm.runtime.scheduling.clock import Clock

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

BACKOFF = Backoff(first=1.0, most=60.0)
STABLE = 120.0  # seconds of running after which the backoff is reset
Ended = Callable[[BaseException | None], None]


class Waker:
    """Argument of a source, with which it enqueues keys. log: the controller's, with the source's name."""

    def __init__(self, *, enqueue: Callable[[PlainKey], None], log: FilteringBoundLogger) -> None:
        self._enqueue, self.log = enqueue, log
        self._over = threading.Event()

    def enqueue(self, key: PlainKey) -> None:
        """Add a key to the source's queue, from any thread; does nothing once the source is stopped.

        Raises TypeError for a key that a message cannot contain.
        """
        if not self._over.is_set():
            self._enqueue(key)

    @property
    def stopped(self) -> bool:
        """Report whether the source must end. A source on a thread checks this regularly, and returns."""
        return self._over.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait until the source is stopped, or for some seconds. Return whether it is stopped. For threads."""
        return self._over.wait(seconds)

    def stop(self) -> None:
        self._over.set()


Listen = Callable[[Waker], Awaitable[None] | AsyncIterator[PlainKey] | Iterable[PlainKey] | None]


class SourceHost(Protocol):
    """Interface for running sources."""

    def listen(self, name: str, run: Callable[[], Any], ended: Ended, *, is_async: bool) -> Callable[[], None]:
        """Run a source on a separate thread, or, if is_async, the coroutine that it returns on the event loop.

        ended: called once, on any thread, with the exception, or None if it returned or was cancelled.
        Returns a function that cancels the source, which has no effect on a thread.
        """


def is_async(listen: Listen) -> bool:
    bare: Any = listen
    while isinstance(bare, functools.partial):
        bare = bare.func
    candidates = (bare, getattr(bare, "__call__", None))  # noqa: B004
    return any(inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each) for each in candidates)


class SourceRunner:
    """Runner of one source for all incarnations of its controller.

    Its health is `trouble`.
    """

    def __init__(
        self,
        name: str,
        listen: Listen,
        *,
        host: SourceHost,
        clock: Clock,
        log: FilteringBoundLogger,
    ) -> None:
        """Prepare a source. name: of the controller and the source. log: the controller's."""
        self.name = name
        self._failure = ""  # error of the last run that has ended
        self._listen, self._host, self._clock, self._log = listen, host, clock, log.bind(listener=name)
        self._lock = threading.Lock()
        self._waker: Waker | None = None  # waker of the present run
        self._cancel: Callable[[], None] = lambda: None
        self._failures, self._began = 0, 0.0
        self._turn = 0  # counts starts and stops, so that an alarm after a stop has no effect

    @property
    def trouble(self) -> str:
        """Return the error of the last run; "" if it ended without one, or the present run has lasted for a while."""
        if self._waker is not None and self._clock.monotonic() - self._began >= STABLE:
            return ""
        return self._failure

    def start(self, enqueue: Callable[[PlainKey], None]) -> None:
        """Start the source, after stopping its present run."""
        self.stop()
        self._failures = 0
        self._run(enqueue, self._turn)

    def stop(self) -> None:
        """Stop the source without waiting. Keys that it adds from now on are dropped."""
        with self._lock:
            self._turn += 1
            waker, self._waker = self._waker, None
            cancel = self._cancel
        self._clock.cancel(self)
        if waker is not None:
            waker.stop()
            cancel()

    def _run(self, enqueue: Callable[[PlainKey], None], turn: int) -> None:
        waker = Waker(enqueue=enqueue, log=self._log)
        with self._lock:
            if turn != self._turn:
                return
            self._waker, self._cancel = waker, lambda: None
        self._began = self._clock.monotonic()
        listen = self._listen

        def ended(err: BaseException | None) -> None:
            self._ended(waker, err, enqueue, turn)

        if is_async(listen):
            cancel = self._host.listen(self.name, lambda: _follow(listen, waker), ended, is_async=True)
        else:
            cancel = self._host.listen(self.name, lambda: _iterate(listen, waker), ended, is_async=False)
        with self._lock:
            if self._waker is waker:
                self._cancel = cancel
                return
        cancel()  # the source was stopped meanwhile, or has ended

    def _ended(self, waker: Waker, err: BaseException | None, enqueue: Callable[[PlainKey], None], turn: int) -> None:
        with self._lock:
            if self._waker is not waker:
                return
            self._waker = None
        waker.stop()
        now = self._clock.monotonic()
        if now - self._began >= STABLE:
            self._failures = 0
        delay = BACKOFF.delay(self._failures)
        self._failures += 1
        if err is None:
            self._failure = ""
            self._log.info("source ended, restarting", delay=delay)
        else:
            self._failure = f"{type(err).__name__}: {err}"
            self._log.warning("source failed, restarting", error=self._failure, delay=delay, exc_info=err)
        self._clock.call_at(self, now + delay, lambda: self._run(enqueue, turn))


async def _follow(listen: Listen, waker: Waker) -> None:
    made: Any = listen(waker)
    if not isinstance(made, AsyncIterator):
        await made
        return
    async with aclosing(made) as keys:  # type: ignore[type-var]  # an async generator, or it has no aclose
        async for key in keys:
            waker.enqueue(key)


def _iterate(listen: Listen, waker: Waker) -> None:
    made: Any = listen(waker)
    if isinstance(made, Iterable):
        for key in made:
            waker.enqueue(key)
            if waker.stopped:
                return
