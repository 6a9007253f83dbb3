"""When each call into a cloud begins, and which ones hang: the decisions, without threads.

A provider's code may hang for ever, and a thread cannot be ended from outside. So a call that has not returned in time
counts as hung: its sender is told, and a further worker is started in place of the one that it holds, up to a bound.
Beyond that a call waits for its turn no longer than a call ever does, and is refused.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from protocols.messages.cloud import CloudCall
from protocols.messages.outcomes import Outcome, Refused, Unknown
from runtime.cloud.calls import HungCall, OnOutcome, subject_of
from runtime.scheduling.clock import Clock
from runtime.scheduling.permits import Permit

NOT_HELD = "the lease is not held any more"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """workers: calls at once, but for those that hang. most: workers in all.

    wait: seconds that a call may wait for a worker. timeout: seconds from its begin until it counts as hung; a load
    balancer may take a minute to make.
    """

    workers: int = 16
    most: int = 64
    wait: float = 30.0
    timeout: float = 120.0


@dataclass(slots=True)
class _Given:
    """began: None while it waits for a worker. settled: its sender has the outcome."""

    call: CloudCall
    on_outcome: OnOutcome
    permit: Permit
    began: float | None = None
    hangs: bool = False
    settled: bool = False


class CallPool:
    """The calls of one process, by number. Thread-safe.

    add() a call and put its number in line; a worker takes the next one, and make()s it if it may begin: then it has to
    finish() it, which says whether the worker goes on.
    """

    def __init__(self, *, clock: Clock, limits: PoolLimits, start: Callable[[], None]) -> None:
        """start: starts one worker more."""
        self._clock, self._limits, self._start = clock, limits, start
        self._lock = threading.Lock()  # around all below
        self._numbers = itertools.count()
        self._given: dict[int, _Given] = {}  # that wait or are at work, in order
        self._workers = self._waiting = self._hung = 0

    def add(self, call: CloudCall, on_outcome: OnOutcome, permit: Permit) -> int:
        with self._lock:
            number = next(self._numbers)
            self._given[number] = _Given(call, on_outcome, permit)
            self._waiting += 1
        self._clock.call_at((self, number), self._clock.monotonic() + self._limits.wait, lambda: self._refuse(number))
        self._start_missing()
        return number

    def begin(self, number: int) -> CloudCall | None:
        """The call, to be made at once; None where it may not begin, or was given up."""
        now = self._clock.monotonic()
        with self._lock:
            given = self._given.get(number)
            if given is None:
                return None
            self._waiting -= 1
            given.began = now
        self._clock.call_at((self, number), now + self._limits.timeout, lambda: self._overdue(number))
        if not given.permit.is_over(self._clock.monotonic()):  # the last thing before it is made
            return given.call
        self._clock.cancel((self, number))
        with self._lock:
            del self._given[number]
        given.on_outcome(Refused(NOT_HELD))
        return None

    def finish(self, number: int, outcome: Outcome) -> bool:
        """The call has returned. False: there are enough other workers, and this one ends."""
        self._clock.cancel((self, number))
        with self._lock:
            given = self._given.pop(number)
            settled, given.settled = given.settled, True
            if given.hangs:
                self._hung -= 1
            goes_on = self._workers - self._hung <= self._limits.workers
            if not goes_on:
                self._workers -= 1
        if not settled:
            given.on_outcome(outcome)
        return goes_on

    def hung(self) -> Sequence[HungCall]:
        with self._lock:
            hanging = [(given.call, given.began or 0.0) for given in self._given.values() if given.hangs]
        named = (HungCall(f"{type(call).__name__} {subject_of(call)}".rstrip(), began) for call, began in hanging)
        return sorted(named, key=lambda one: one.since)

    def _start_missing(self) -> None:
        """One worker more, if there is a call that none of those there are will come to soon."""
        with self._lock:
            idle = self._workers - (len(self._given) - self._waiting)
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
        given.on_outcome(Refused(f"the cloud was busy for {self._limits.wait:.0f} s{hanging}"))

    def _overdue(self, number: int) -> None:
        with self._lock:
            given = self._given.get(number)
            if given is None or given.settled:
                return
            given.hangs = given.settled = True
            self._hung += 1
        given.on_outcome(Unknown(f"the cloud did not respond within {self._limits.timeout:.0f} s"))
        self._start_missing()
