"""Execution of long computations in time slices, between which the event loop serves other requests.

A computation is a deep recursion, which only a thread can suspend, so each runs on a thread of its own. Such a thread
and the event loop never run at the same time: one waits while the other runs. A computation can therefore read the
server's state without locks, and other requests wait for one time slice at most.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from kcm.runtime.apiserver.core.questions import Answer, Computation, Outside, Result
from kcm.runtime.apiserver.core.suspended_requests import LONGEST
from kcm.runtime.apiserver.server.event_loop.round_robin import RoundRobin
from kcm.runtime.cel import effort

MOST_THREADS = 8  # computations that run concurrently; others are queued
STACK_SIZE = 64 * 1024 * 1024  # bytes of a thread's stack; the kernel allocates only the pages that are used


class _AbandonedError(BaseException):
    """Control flow: raised in an abandoned computation to end its thread. As a BaseException, it is not caught."""


class _Computation:
    """Computation on a thread of its own, which runs only while the event loop's thread is in `resume`."""

    def __init__(self, work: Computation) -> None:
        self._work = work
        self._may_run, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        self._is_abandoned = False
        self.answer: Answer | None = None
        before = threading.stack_size(STACK_SIZE)
        try:
            self._thread = threading.Thread(target=self._run, name="long-computation", daemon=True)
            self._thread.start()
        finally:
            threading.stack_size(before)

    def resume(self) -> bool:
        """Run until the computation pauses or ends. Return whether it has not ended."""
        self._may_run.release()
        self._paused.acquire()
        if self.answer is None:
            return True
        self._thread.join()
        return False

    def abandon(self) -> None:
        self._is_abandoned = True
        while self.resume():
            pass

    def _run(self) -> None:
        self._may_run.acquire()
        effort.give_way(effort.STEP, self._pause)
        try:
            self.answer = self._work.carried_out()
        except _AbandonedError:
            self.answer = Answer(result=Result(error=TimeoutError("context deadline exceeded")))
        self._paused.release()

    def _pause(self) -> None:
        self._paused.release()
        self._may_run.acquire()
        if self._is_abandoned:
            raise _AbandonedError


class LongComputations:
    """Queue of long computations. All methods run on the event loop's thread."""

    def __init__(
        self,
        round_robin: RoundRobin,
        *,
        now: Callable[[], float],
        conversion_context: Callable[[Outside], AbstractContextManager[None]],
    ) -> None:
        """Create an empty queue.

        round_robin: runs generators on the event loop, one time slice at a time
        now: returns the time of a monotonic clock, in seconds
        conversion_context: WebhookCalls.conversion_context, in which a computation can convert objects
        """
        self._round_robin, self._now, self._conversion_context = round_robin, now, conversion_context
        self._running = 0
        self._waiting: deque[tuple[Computation, Callable[[Answer], None], float]] = deque()

    def run(self, work: Computation, then: Callable[[Answer], None]) -> None:
        """Queue a computation, and call `then` with its result when it ends.

        The result is a TimeoutError if the computation has not ended after LONGEST seconds.
        """
        self._waiting.append((work, then, self._now() + LONGEST))
        self._start_next()

    def _start_next(self) -> None:
        while self._waiting and self._running < MOST_THREADS:
            self._running += 1
            self._round_robin.run(self._steps(*self._waiting.popleft()))

    def _steps(self, work: Computation, then: Callable[[Answer], None], until: float) -> Iterator[None]:
        yield  # do not run the computation within `run`
        answer = Answer(result=Result(error=TimeoutError("context deadline exceeded")))
        if self._now() < until:
            computation = _Computation(work)
            while self._now() < until:
                with self._conversion_context(work.outside):
                    has_more = computation.resume()
                if not has_more:
                    break
                yield
            else:
                computation.abandon()
            answer = computation.answer or answer
        self._running -= 1
        self._start_next()
        then(answer)
