"""Event loop for asyncio on virtual time: coroutines run in the simulator's thread, and sleeps take virtual time.

asyncio's tasks, futures, locks, queues and timeouts work on this loop, because they need only callbacks and a clock.
Methods for sockets, threads and processes raise BlockingCallError, because a simulation has none.
"""

from __future__ import annotations

import asyncio
import contextvars
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kcm.runtime.simulation.clock import VirtualClock
from kcm.runtime.simulation.guard import BlockingCallError, guarded
from kcm.runtime.simulation.side_threads import SideThread

T = TypeVar("T")


class VirtualLoop(asyncio.AbstractEventLoop):
    """Event loop on a virtual clock.

    thread: simulated thread that runs the callbacks; if its process ends, no more callbacks run
    """

    def __init__(self, clock: VirtualClock, thread: SideThread) -> None:
        self._clock, self._thread = clock, thread
        self._due: deque[asyncio.Handle] = deque()
        self._running = False
        self._broken: BaseException | None = None

    def start(self, coroutine: Coroutine[Any, Any, T], ended: Callable[[T | None], None]) -> Callable[[], None]:
        """Run a coroutine up to its first wait, and continue it while virtual time advances.

        Returns a function that cancels the coroutine.

        ended: called with the result, or with None if the coroutine was cancelled
        """
        task: asyncio.Task[T] = asyncio.Task(coroutine, loop=self)
        # The tasks of a crashed process never end, which asyncio would report.
        task._log_destroy_pending = False  # type: ignore[attr-defined]

        def done(task: asyncio.Task[T]) -> None:
            ended(None if task.cancelled() else task.result())

        task.add_done_callback(done)
        self._run()

        def cancel() -> None:
            task.cancel()
            self._run()

        return cancel

    def _run(self) -> None:
        """Run all callbacks that are due."""
        if self._running:
            return
        before = events._get_running_loop()
        self._running = True
        events._set_running_loop(self)
        try:
            with guarded():
                while self._due:
                    handle = self._due.popleft()
                    if not handle.cancelled():
                        handle._run()
        finally:
            events._set_running_loop(before)
            self._running = False
        if self._broken is not None:
            err, self._broken = self._broken, None
            raise err

    # Methods of an event loop that asyncio calls.

    def time(self) -> float:
        return self._clock.monotonic()

    def call_soon(  # type: ignore[override]  # without its type variables, which only its callers need
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._due.append(handle)
        # Not running: called from outside of the loop, for example by a fake that puts an item into an asyncio.Queue.
        if not self._running and len(self._due) == 1:
            self._clock.call_once(self._clock.monotonic(), lambda: self._thread.do(self._run))
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(  # type: ignore[override]  # without its type variables, which only its callers need
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)

        def run_handle() -> None:
            self._due.append(handle)
            self._run()

        self._clock.call_once(when, lambda: self._thread.do(run_handle))
        return handle

    def call_later(  # type: ignore[override]  # without its type variables, which only its callers need
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + max(0.0, delay), callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, **options)
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        return task

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return False

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Store the exception of a callback, which `_run` raises: it is a bug in kcm or in a fake."""
        self._broken = context.get("exception") or RuntimeError(context["message"])

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing, because `_run` skips cancelled handles."""


def run_to_completion(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a virtual clock of its own, and return its result.

    Raises RuntimeError if the coroutine waits and no timer is pending.
    """
    clock, returned = VirtualClock(), list[T | None]()
    loop = VirtualLoop(clock, SideThread(clock))  # type: ignore[abstract]  # what it lacks, it refuses
    cancel = loop.start(coroutine, returned.append)
    while not returned and (alarm := clock.next_alarm()) is not None:
        clock.advance_to(alarm)
        clock.run_due()
    if not returned:
        cancel()
        raise RuntimeError(f"{coroutine!r} waits, but no timer is pending")
    (result,) = returned
    assert result is not None, "the coroutine was cancelled"
    return result


_UNSUPPORTED = (
    "sock_",
    "create_",
    "getaddr",
    "getname",
    "connect_",
    "add_",
    "subprocess_",
    "start_tls",
    "sendfile",
    "run_in_",
)


def _unsupported(name: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise BlockingCallError(
            f"the event loop's {name}: a coroutine in a simulation must not use sockets, threads or processes; replace "
            "it in the simulation by a fake, which may await asyncio.sleep"
        )

    return refuse


for _name in vars(asyncio.AbstractEventLoop):
    if _name.startswith(_UNSUPPORTED) and _name not in vars(VirtualLoop):
        setattr(VirtualLoop, _name, _unsupported(_name))
