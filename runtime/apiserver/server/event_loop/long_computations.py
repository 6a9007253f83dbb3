"""Runs long computations in slices, between which the event loop serves other requests.

A computation is a deep recursion that cannot be suspended, so it runs on a thread. That thread and the event loop never
run at the same time: one waits while the other runs. So the computation reads the server's state as a request does, and
other requests wait for one slice at most.
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

MOST_THREADS = 8  # computations that have begun; others wait
ROOM = 64 * 1024 * 1024  # bytes of a thread's stack, of which only what is used is taken


class _AbandonedError(BaseException):
    """Ends the thread of an abandoned computation. No computation catches it."""


class _Computation:
    """One thread, which runs only within `resume`."""

    def __init__(self, work: Computation) -> None:
        self._work = work
        self._may_run, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        self._is_abandoned = False
        self.answer: Answer | None = None
        before = threading.stack_size(ROOM)
        try:
            self._thread = threading.Thread(target=self._run, name="long-computation", daemon=True)
            self._thread.start()
        finally:
            threading.stack_size(before)

    def resume(self) -> bool:
        """Run until it pauses or ends; return whether there is more of it."""
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
    """Queue of long computations, used on the event loop's thread."""

    def __init__(
        self,
        round_robin: RoundRobin,
        *,
        now: Callable[[], float],
        acting_for: Callable[[Outside], AbstractContextManager[None]],
    ) -> None:
        """Create an empty queue.

        round_robin: runs generators on the event loop, one time slice after the other.
        now: seconds of any clock.
        acting_for: see server.outside_calls.
        """
        self._round_robin, self._now, self._acting_for = round_robin, now, acting_for
        self._running = 0
        self._waiting: deque[tuple[Computation, Callable[[Answer], None], float]] = deque()

    def run(self, work: Computation, then: Callable[[Answer], None]) -> None:
        """Call back with the result, or with a TimeoutError if the computation takes longer than LONGEST seconds."""
        self._waiting.append((work, then, self._now() + LONGEST))
        self._begin()

    def _begin(self) -> None:
        while self._waiting and self._running < MOST_THREADS:
            self._running += 1
            self._round_robin.run(self._steps(*self._waiting.popleft()))

    def _steps(self, work: Computation, then: Callable[[Answer], None], until: float) -> Iterator[None]:
        yield  # do nothing within the call of `run`
        answer = Answer(result=Result(error=TimeoutError("context deadline exceeded")))
        if self._now() < until:
            computation = _Computation(work)
            while self._now() < until:
                with self._acting_for(work.outside):
                    has_more = computation.resume()
                if not has_more:
                    break
                yield
            else:
                computation.abandon()
            answer = computation.answer or answer
        self._running -= 1
        self._begin()
        then(answer)
