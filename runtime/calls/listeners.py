"""What listens outside: started with its controller, stopped with it, and started again when it ends or fails."""

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
STABLE = 120.0  # seconds that one has to last for its failures to be forgotten
Ended = Callable[[BaseException | None], None]


class Waker:
    """What a source is called with. log: its controller's, with the source's name."""

    def __init__(self, *, enqueue: Callable[[PlainKey], None], log: FilteringBoundLogger) -> None:
        self._enqueue, self.log = enqueue, log
        self._over = threading.Event()

    def enqueue(self, key: PlainKey) -> None:
        """Add a key to the source's queue, from any thread; nothing once it is stopped. Raises TypeError on a key that
        no message can carry.
        """
        if not self._over.is_set():
            self._enqueue(key)

    @property
    def stopped(self) -> bool:
        """A source that holds a thread looks at this from time to time, and returns."""
        return self._over.is_set()

    def wait(self, seconds: float) -> bool:
        """For such a source: wait so long, or until it is stopped. Returns whether it is."""
        return self._over.wait(seconds)

    def stop(self) -> None:
        self._over.set()


Listen = Callable[[Waker], Awaitable[None] | AsyncIterator[PlainKey] | Iterable[PlainKey] | None]


class SourceHost(Protocol):
    """Where sources run."""

    def listen(self, name: str, run: Callable[[], Any], ended: Ended, *, is_async: bool) -> Callable[[], None]:
        """Run it: in a thread of its own, or the coroutine that it returns on the event loop (is_async).

        ended: called once, on any thread, with what it raised, None if nothing or if it was cancelled. Returns how to
        cancel it: a thread cannot be.
        """


def is_async(listen: Listen) -> bool:
    bare: Any = listen
    while isinstance(bare, functools.partial):
        bare = bare.func
    candidates = (bare, getattr(bare, "__call__", None))  # noqa: B004
    return any(inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one) for one in candidates)


class Listener:
    """One source, over all incarnations of its controller.

    trouble: what it raised last, until it has lasted for a while again; "" without.
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
        """name: its controller's, and its own. log: its controller's."""
        self.name = name
        self.trouble = ""
        self._listen, self._host, self._clock, self._log = listen, host, clock, log.bind(listener=name)
        self._lock = threading.Lock()
        self._waker: Waker | None = None  # of the run that counts
        self._cancel: Callable[[], None] = lambda: None
        self._failures, self._began = 0, 0.0
        self._turn = 0  # counts starts and stops: an alarm that sounds after a stop starts nothing

    def start(self, enqueue: Callable[[PlainKey], None]) -> None:
        """In the place of one that runs."""
        self.stop()
        self._failures = 0
        self._run(enqueue, self._turn)

    def stop(self) -> None:
        """Returns at once. What it says from now on wakes nobody."""
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
        cancel()  # it was stopped meanwhile, or has ended

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
            self.trouble = ""
            self._log.info("source ended, and is started again", delay=delay)
        else:
            self.trouble = f"{type(err).__name__}: {err}"
            self._log.warning("source failed, and is started again", error=self.trouble, delay=delay, exc_info=err)
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
