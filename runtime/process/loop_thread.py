"""Event loop of asyncio in a daemon thread, to which other threads post functions."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from kcm.runtime.process.event_loop import new_event_loop

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


CLOSE_WITHIN = 5.0  # seconds


class LoopThread:
    """Runs posted functions in order on the loop's thread.

    A function that is posted before the start is run after it. A function that is posted after the end is run at once
    on the caller's thread, so that none is lost.
    """

    def __init__(
        self,
        *,
        name: str,
        log: FilteringBoundLogger,
        broken: Callable[[str], Coroutine[Any, Any, None] | None] = lambda _why: None,
    ) -> None:
        """Create the thread.

        broken: called on the loop's thread with the reason, if the loop ends without stop(): because of a SystemExit
            in a callback, or because the system closes its descriptors. The coroutine that it returns is run on the
            loop, if possible, and then the functions that were posted meanwhile.
        """
        self._name, self._log, self._broken = name, log, broken
        self._stopping = self._broke = False
        self._inbox: deque[Callable[[], None]] = deque()
        self._awake = False  # the loop is already scheduled to read the inbox
        self._over = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def is_current(self) -> bool:
        return threading.current_thread() is self._thread

    @property
    def is_running(self) -> bool:
        return self._loop is not None and not self._over

    def start(self, opening: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `opening` on the loop before all posted functions, and return when it has finished.

        Raises its exceptions.
        """
        if self._thread is not None or self._over:
            raise RuntimeError(f"{self._name}: started twice")
        opened: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(opening, opened), name=self._name, daemon=True)
        self._thread.start()
        opened.result()

    def post(self, what: Callable[[], None]) -> None:
        """Run a function on the loop's thread. May be called from any thread.

        The function must not block; its exceptions are logged. The inbox and its flag replace call_soon_threadsafe,
        which writes to a pipe for every call: a thousand posts in a row wake the loop once.
        """
        self._inbox.append(what)
        if not self._awake:
            self._wake()

    def stop(self, closing: Callable[[], Coroutine[Any, Any, None]], *, timeout: float) -> None:
        """Run `closing` on the loop for at most `timeout` seconds, then end the loop and the thread."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None or self._over:
            self._over = True
            self._drain()
            return
        if self._broke:
            thread.join(timeout + 5.0)
            return
        try:
            asyncio.run_coroutine_threadsafe(self._close(closing, timeout), loop)
        except RuntimeError:
            return  # another thread stopped it meanwhile
        thread.join(timeout + 5.0)

    def _wake(self) -> None:
        loop = self._loop
        if self._over:
            self._drain()
        elif loop is not None:
            self._awake = True
            try:
                loop.call_soon_threadsafe(self._drain)
            except RuntimeError:  # closed concurrently
                self._drain()

    def _drain(self) -> None:
        # The flag is reset first: a function that is posted from now on wakes the loop again.
        self._awake = False
        for _ in range(len(self._inbox)):
            try:
                what = self._inbox.popleft()
            except IndexError:  # after the end, several threads may run this concurrently
                return
            try:
                what()
            except Exception:
                self._log.exception("call failed", thread=self._name)

    async def _close(self, closing: Callable[[], Coroutine[Any, Any, None]], timeout: float) -> None:
        self._stopping = True
        try:
            await asyncio.wait_for(closing(), timeout)
        except Exception as err:
            self._log.warning("not closed in order", thread=self._name, error=repr(err))
        finally:
            asyncio.get_running_loop().stop()

    def _run(self, opening: Callable[[], Coroutine[Any, Any, None]], opened: Future[None]) -> None:
        loop = new_event_loop()
        loop.set_exception_handler(self._take_complaint)
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(opening())
        except BaseException as err:
            self._finish(loop)
            opened.set_exception(err)
            return
        # post() can see the loop before the inbox is first read, so that no function is missed.
        self._loop = loop
        loop.call_soon(self._drain)
        opened.set_result(None)
        why: BaseException | str = "it was stopped from outside"
        try:
            loop.run_forever()
        except BaseException as err:
            why = err
        if not self._stopping:
            self._break(loop, why)
        self._finish(loop)

    def _break(self, loop: asyncio.AbstractEventLoop, why: BaseException | str) -> None:
        self._broke = True
        error = why if isinstance(why, str) else f"{type(why).__name__}: {why}"
        info = why if isinstance(why, BaseException) else None
        self._log.error("event loop ended", thread=self._name, error=error, exc_info=info)
        try:
            closing = self._broken(error)
        except Exception:
            self._log.exception("call failed", thread=self._name)
            return
        if closing is not None:
            self._run_last(loop, closing)

    def _take_complaint(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log errors that no caller awaits, which asyncio reports to this handler.

        Broken closing connections are not logged.
        """
        say = self._log.debug if "protocol" in context else self._log.warning
        say("event loop complains", thread=self._name, what=context["message"], exc_info=context.get("exception"))

    def _finish(self, loop: asyncio.AbstractEventLoop) -> None:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self._run_last(loop, _end_of(tasks))
        self._run_last(loop, loop.shutdown_asyncgens())
        try:
            loop.close()
        finally:
            self._over = True
            self._drain()

    def _run_last(self, loop: asyncio.AbstractEventLoop, closing: Coroutine[Any, Any, None]) -> None:
        """Run the closing coroutine. The error that ended the loop may end this as well."""
        try:
            loop.run_until_complete(closing)
        except BaseException as err:
            self._log.warning("not closed in order", thread=self._name, error=repr(err))
        finally:
            closing.close()  # not a thing, unless the loop could not begin it


async def _end_of(tasks: set[asyncio.Task[Any]]) -> None:
    await asyncio.wait(tasks, timeout=CLOSE_WITHIN)
