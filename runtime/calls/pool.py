"""Pool of calls: decides when each call begins and which calls hang. Does not use threads itself.

A function may never return, and a thread cannot be ended from outside. So a call that has not returned in time counts
as hung: its sender receives the outcome Unknown, and an additional worker replaces the blocked one, up to a limit. Once
the limit is reached, a call that waits longer than `wait` is refused. A call is also refused while a hung call may
still change the same object: otherwise a load balancer that is created after its Service was cleaned up would never be
deleted.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence

from msgspec import Struct

from kcm.protocols.messages.outcomes import Outcome, Refused, Unknown
from kcm.runtime.calls.prepared_calls import HungCall, OnOutcome, PreparedCall
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.scheduling.permits import Permit

NOT_HELD = "the lease is not held any more"
ENDS = "the system ends"


class PoolLimits(Struct, frozen=True, kw_only=True):
    # Calls at once, except those that hang.
    workers: int = 16
    # Workers in total.
    most: int = 64
    # Seconds that a call may wait for a worker.
    wait: float = 30.0


class _Given(Struct):
    """State of one call."""

    prepared: PreparedCall
    on_outcome: OnOutcome
    permit: Permit
    # It waits for a worker, not for other calls of its sender.
    in_line: bool = False
    # None while it waits.
    began: float | None = None
    hangs: bool = False
    # Its sender has received the outcome.
    settled: bool = False


class CallPool:
    """Calls of one process, by number. Thread-safe.

    add() queues a call. A worker takes the next number, and makes the call that begin() returns; then it must call
    finish(), which returns whether the worker continues.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        limits: PoolLimits,
        start: Callable[[], None],
        line_up: Callable[[int], None],
        interrupt: Callable[[int], None] = lambda _number: None,
    ) -> None:
        """Create an empty pool.

        start: starts another worker.
        line_up: appends a number to the queue of the workers.
        interrupt: ends a call whose outcome is no longer needed, if that is possible; finish() is called anyway.
        """
        self._clock, self._limits = clock, limits
        self._start, self._line_up, self._interrupt = start, line_up, interrupt
        self._lock = threading.Lock()  # protects all attributes below
        self._numbers = itertools.count()
        self._given: dict[int, _Given] = {}  # waiting and running calls, in order
        self._busy: Counter[str] = Counter()  # by sender with a limit: calls in line or running, not settled
        self._held: dict[
            str, deque[int]
        ] = {}  # by sender with a limit: calls that wait until one of its calls is settled
        self._workers = self._waiting = self._at_work = self._hung = 0
        self._closed = False

    def add(self, prepared: PreparedCall, on_outcome: OnOutcome, permit: Permit) -> int:
        with self._lock:
            closed = self._closed
            if not closed:
                number = next(self._numbers)
                given = self._given[number] = _Given(prepared, on_outcome, permit)
                goes = prepared.most is None or self._busy[prepared.sender] < prepared.most
                if goes:
                    self._enter(given)
                else:
                    self._held.setdefault(prepared.sender, deque()).append(number)
        if closed:
            on_outcome(Refused(ENDS))
            return -1
        if goes:
            self._queue(number)
        return number

    def begin(self, number: int) -> PreparedCall | None:
        """Return the call, which must be made at once, or None if it may not begin or was cancelled."""
        now = self._clock.monotonic()
        with self._lock:
            given = self._given.get(number)
            if given is None:
                return None
            self._waiting -= 1
            self._at_work += 1
            given.began, given.in_line = now, False
            before = self._hanging_before(given.prepared)
        prepared = given.prepared
        self._clock.call_at((self, number), now + prepared.timeout, lambda: self._overdue(number))
        because = f"{before} has not returned yet" if before else NOT_HELD
        if not before and not given.permit.is_over(self._clock.monotonic()):  # checked last, just before the call
            return prepared
        self._clock.cancel((self, number))
        with self._lock:
            del self._given[number]
            self._at_work -= 1
        self._settle(given, Refused(because))
        return None

    def finish(self, number: int, outcome: Outcome) -> bool:
        """Record that the call has returned. Return False if the worker must end because there are enough others."""
        self._clock.cancel((self, number))
        with self._lock:
            given = self._given.pop(number)
            self._at_work -= 1
            settled, given.settled = given.settled, True
            if given.hangs:
                self._hung -= 1
            goes_on = self._workers - self._hung <= self._limits.workers
            if not goes_on:
                self._workers -= 1
        if not settled:
            self._settle(given, outcome)
        return goes_on

    def cancel(self, sender: str, before: int) -> None:
        """Implement Calls.cancel."""
        self._cancel(
            lambda prepared: prepared.sender == sender and prepared.incarnation < before, f"{sender} was replaced"
        )

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._cancel(lambda _prepared: True, ENDS)

    def hung(self) -> Sequence[HungCall]:
        with self._lock:
            hanging = [(given.prepared.what, given.began or 0.0) for given in self._given.values() if given.hangs]
        return sorted((HungCall(what, began) for what, began in hanging), key=lambda call: call.since)

    def _cancel(self, concerns: Callable[[PreparedCall], bool], why: str) -> None:
        with self._lock:
            if not self._given:
                return
            concerned = [(number, given) for number, given in self._given.items() if concerns(given.prepared)]
            unbegun = [(number, given) for number, given in concerned if given.began is None]
            for number, given in unbegun:
                del self._given[number]
                if given.in_line:
                    self._waiting -= 1
                else:
                    self._held[given.prepared.sender].remove(number)
        for number, given in unbegun:
            self._clock.cancel((self, number))
            if given.in_line:
                self._settle(given, Refused(why))
            else:
                given.on_outcome(Refused(why))
        for number, given in concerned:
            if given.began is not None:
                self._interrupt(number)

    def _hanging_before(self, prepared: PreparedCall) -> str:
        """Return the hung call that may still change the same object; "" without one. Requires the lock."""
        for given in self._given.values() if self._hung else ():
            if given.hangs and given.prepared.alone and given.prepared.scope == prepared.scope:
                return given.prepared.what
        return ""

    def _enter(self, given: _Given) -> None:
        """Queue a call. Requires the lock."""
        given.in_line = True
        self._waiting += 1
        if given.prepared.most is not None:
            self._busy[given.prepared.sender] += 1

    def _queue(self, number: int) -> None:
        self._clock.call_at((self, number), self._clock.monotonic() + self._limits.wait, lambda: self._refuse(number))
        self._start_missing()
        self._line_up(number)

    def _settle(self, given: _Given, outcome: Outcome) -> None:
        """Send the outcome to the sender, and queue the sender's next waiting call."""
        following = -1
        if given.prepared.most is not None:
            sender = given.prepared.sender
            with self._lock:
                self._busy[sender] -= 1
                held = self._held.get(sender)
                if held:
                    following = held.popleft()
                    self._enter(self._given[following])
        given.on_outcome(outcome)
        if following >= 0:
            self._queue(following)

    def _start_missing(self) -> None:
        """Start another worker if more calls wait than workers are idle."""
        with self._lock:
            idle = self._workers - self._at_work
            room = min(self._limits.workers + self._hung, self._limits.most) - self._workers
            missing = self._waiting > idle and room > 0
            if missing:
                self._workers += 1
        if missing:
            self._start()

    def _refuse(self, number: int) -> None:
        with self._lock:
            given = self._given.get(number)
            if given is None or given.began is not None:
                return
            del self._given[number]
            self._waiting -= 1
            hung = self._hung
        hanging = f", in which {hung} calls hang" if hung else ""
        self._settle(given, Refused(f"no worker was free for {self._limits.wait:.0f} s{hanging}"))

    def _overdue(self, number: int) -> None:
        with self._lock:
            given = self._given.get(number)
            if given is None or given.settled:
                return
            given.hangs = given.settled = True
            self._hung += 1
        self._settle(given, Unknown(f"{given.prepared.what} did not return within {given.prepared.timeout:g} s"))
        self._interrupt(number)
        self._start_missing()


class Line:
    """Workers without threads: begins calls in order on the caller's thread, as long as a worker is free."""

    def __init__(
        self,
        *,
        clock: Clock,
        limits: PoolLimits,
        do: Callable[[Callable[[], None]], None],
        make: Callable[[int, PreparedCall], None],
        interrupt: Callable[[int], None] = lambda _number: None,
    ) -> None:
        """Create the workers.

        do: calls its argument on the thread on which all of this runs.
        make: makes a call. Afterwards `returned` is called on that thread, with its number and outcome.
        interrupt: as for CallPool, on that thread.
        """
        self._do, self._make = do, make
        self._in_line: deque[int] = deque()
        self._idle = 0  # idle workers
        self.pool = CallPool(
            clock=clock,
            limits=limits,
            start=self._start,
            line_up=self._line_up,
            interrupt=lambda number: do(lambda: interrupt(number)),
        )

    def returned(self, number: int, outcome: Outcome) -> None:
        if self.pool.finish(number, outcome):
            self._idle += 1
            self._go_on()

    def _line_up(self, number: int) -> None:
        self._in_line.append(number)
        self._do(self._go_on)

    def _start(self) -> None:
        self._do(self._one_more)

    def _one_more(self) -> None:
        self._idle += 1
        self._go_on()

    def _go_on(self) -> None:
        while self._idle and self._in_line:
            number = self._in_line.popleft()
            prepared = self.pool.begin(number)
            if prepared is not None:
                self._idle -= 1
                self._make(number, prepared)
