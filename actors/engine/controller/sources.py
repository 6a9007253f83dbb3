"""Sources of reconciliations of a controller: its work queues and its periodic passes."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncGenerator, Collection, Coroutine, Generator, Hashable, Iterable
from types import CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, Protocol

from kcm.actors.engine.controller.decisions import MOST_KEYS, DecisionMemory, Remembered, SyncDecision, remember
from kcm.actors.engine.controller.held_back import HeldBack
from kcm.actors.engine.controller.retries import (
    SOONEST,
    KeyRetries,
    Traces,
    is_failure,
    one_line,
    pass_delay,
    report_pass,
)
from kcm.actors.engine.controller.settings import PassSettings, QueueSettings
from kcm.actors.engine.vitals import (
    InWork,
    KeyProgress,
    PassDescription,
    QueueDescription,
    SourceLoad,
    SyncHistory,
)
from kcm.actors.reconciliation import RequeueAfter, Running
from kcm.runtime.scheduling.work_queue import WorkQueue
from kcm.runtime.tables.view import AnyTable

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

RUNNING = (GeneratorType, CoroutineType, Generator, Coroutine)  # the exact types first: they need no protocol's check


class Task(Protocol):
    """Reconciliation that was taken from its source. Either succeed or fail is called, once.

    queue: name of the source.
    key: as text; "" for a pass.
    """

    @property
    def queue(self) -> str: ...

    @property
    def key(self) -> str: ...

    def begin(self) -> Running:
        """Return the generator or coroutine, which has not begun. Raises what the reconciler raises."""

    def succeed(self, again: RequeueAfter | None, now: float, decision: Remembered) -> None: ...

    def fail(self, err: Exception, now: float) -> float | None:
        """End it with an error. Return the seconds until it is retried; None: not before its next event."""

    def remember(self, decision: SyncDecision) -> None:
        """Remember the decision of a task that has failed."""


class TaskSource(Protocol):
    def take(self, now: float) -> Task | None:
        """Return the next task; None if no task is due, or the limit of running tasks is reached."""

    def next_due(self) -> float | None:
        """Return the monotonic time at which take() has a task if no event comes and no task ends; None: never."""


class KeyQueue:
    """Work queue of the controller, with the retries of its keys."""

    is_pass = False

    def __init__(
        self,
        settings: QueueSettings,
        *,
        reconciler: Any,
        queue: WorkQueue[Any],
        traces: Traces,
        held_back: HeldBack,
        log: FilteringBoundLogger,
        objects: Collection[AnyTable] = (),
        decisions: DecisionMemory,
    ) -> None:
        """Create the source.

        traces, held_back: shared by all sources of a controller.
        log: bound to the controller.
        objects: tables with one object per key; empty if keys do not name objects of a table.
        """
        self.settings, self.reconciler, self.queue, self.held_back = settings, reconciler, queue, held_back
        self.name, self.history, self._objects = settings.name, SyncHistory(), objects
        self.retries = KeyRetries(
            queue,
            max_retries=settings.max_retries,
            terminal=settings.terminal,
            traces=traces,
            log=log.bind(queue=settings.name),
        )
        self.latest = decisions.latest_of(settings.name)
        self._concurrency = settings.concurrency

    def take(self, now: float) -> Task | None:
        queue = self.queue
        if queue.processing >= self._concurrency:
            return None
        key = queue.take(now)
        if key is not None and self.held_back.hangs:
            key = self._not_held_back(key, now)
        return None if key is None else _KeyTask(self, key)

    def _not_held_back(self, key: Hashable | None, now: float) -> Hashable | None:
        """Return this key, or the next key that is not held back. Keys that are held back are enqueued again."""
        while key is not None:
            wait = self.held_back.wait(self.settings.name, str(key), now)
            if wait <= 0:
                return key
            self.queue.done(key, now)
            self.queue.add_after(key, wait, now)
            key = self.queue.take(now)
        return None

    def oldest_waiting(self) -> InWork | None:
        oldest = self.queue.oldest_waiting()
        return None if oldest is None else InWork(self.name, str(oldest[0]), oldest[1])

    def pending(self) -> int:
        queue = self.queue
        return len(queue) + queue.delayed + queue.processing

    def counted(self) -> SourceLoad:
        queue = self.queue
        oldest = queue.oldest()
        longest = None if oldest is None else InWork(self.name, str(oldest[0]), oldest[1])
        return SourceLoad(len(queue), queue.delayed, queue.processing, longest)

    def known_keys(self) -> int | None:
        return sum(map(len, self._objects)) if self._objects else None

    def state_of(self, key: str) -> KeyProgress | None:
        queue = self.queue
        state = queue.state_of(key)
        return None if state is None else KeyProgress(*state, failures=queue.failures(key))

    def description(self, now: float) -> QueueDescription:
        queue, history = self.queue, self.history
        load, waiting = self.counted(), self.oldest_waiting()
        return QueueDescription(
            queued=load.queued,
            delayed=load.delayed,
            in_work=load.in_work,
            oldest=None if load.longest is None else load.longest.key,
            longest_running_seconds=round(queue.longest_running(now), 3),
            oldest_waiting=None if waiting is None else waiting.key,
            longest_waiting_seconds=0.0 if waiting is None else round(now - waiting.since, 3),
            failures_in_a_row=history.failures,
            since_success_seconds=None if history.succeeded_at is None else round(now - history.succeeded_at, 3),
        )

    def next_due(self) -> float | None:
        return self.queue.next_due() if self.queue.processing < self._concurrency else None


class _KeyTask:
    __slots__ = ("_key", "_source")

    def __init__(self, source: KeyQueue, key: Hashable) -> None:
        self._source, self._key = source, key

    @property
    def queue(self) -> str:
        return self._source.settings.name

    @property
    def key(self) -> str:
        return str(self._key)

    def begin(self) -> Running:
        source = self._source
        return _running(source.settings.reconcile(source.reconciler, self._key), "reconcile()", source.reconciler)

    def succeed(self, again: RequeueAfter | None, now: float, decision: Remembered) -> None:
        source, key = self._source, self._key
        queue, latest = source.queue, source.latest
        latest.pop(key, None)  # as `remember` does
        latest[key] = decision
        if len(latest) > MOST_KEYS:
            latest.pop(next(iter(latest)), None)
        source.history.succeed(now)
        if source.held_back.hangs:
            source.held_back.succeeded(self.queue, self.key)
        queue.forget(key)
        if again is not None:
            queue.add_after(key, max(again.seconds, SOONEST), now)
        queue.done(key, now)

    def fail(self, err: Exception, now: float) -> float | None:
        source, key = self._source, self._key
        if is_failure(err):
            source.history.fail(self.key, one_line(err), now)
        again = source.retries.failed(key, err, now)
        source.queue.done(key, now)
        return again

    def remember(self, decision: SyncDecision) -> None:
        remember(self._source.latest, self._key, decision)


class PeriodicPass:
    """Periodic pass of the controller: a source with one task, which is the pass itself."""

    is_pass = True
    key = ""

    def __init__(
        self,
        settings: PassSettings,
        *,
        reconciler: Any,
        traces: Traces,
        held_back: HeldBack,
        log: FilteringBoundLogger,
        decisions: DecisionMemory,
    ) -> None:
        """Create the source.

        traces, held_back: shared by all sources of a controller.
        log: bound to the controller.
        """
        self.settings, self._reconciler, self._traces = settings, reconciler, traces
        self.name, self.history = settings.name, SyncHistory()
        self._held_back = held_back
        self._log = log.bind(**{"pass": settings.name})
        self._latest = decisions.latest_of(settings.name)
        self._due = math.inf  # set by make_due
        self._running_since: float | None = None  # by the monotonic clock; None while it does not run
        self._failures = 0  # in a row

    @property
    def queue(self) -> str:
        return self.settings.name

    def make_due(self, now: float) -> None:
        """Make the pass due, as the controller is ready."""
        self._due = now

    def oldest_waiting(self) -> InWork | None:
        due = self._due
        is_waiting = self._running_since is None and due != math.inf
        return InWork(self.queue, self.key, due) if is_waiting else None

    def pending(self) -> int:
        return 0 if self._due == math.inf else 1

    def counted(self) -> SourceLoad:
        since, due = self._running_since, self._due
        if since is not None:
            return SourceLoad(0, 0, 1, InWork(self.queue, self.key, since))
        return SourceLoad(0, 0, 0, None, due=None if due == math.inf else due)

    def known_keys(self) -> int | None:
        return None

    def state_of(self, key: str) -> KeyProgress | None:
        if key:
            return None
        since, due = self._running_since, self._due
        return KeyProgress(None, None if due == math.inf else due, since, failures=self._failures)

    def description(self, now: float) -> PassDescription:
        due = self.next_due()
        return PassDescription(
            running_seconds=round(self.longest_running(now), 3),
            due_in_seconds=None if due is None else round(max(0.0, due - now), 3),
            failures=self._failures,
        )

    def take(self, now: float) -> Task | None:
        if now < self._due or self._running_since is not None:
            return None
        if self._held_back.hangs and (wait := self._held_back.wait(self.queue, self.key, now)) > 0:
            self._due = now + wait
            return None
        meter = self.settings.meter
        meter.added(1)
        meter.taken(0, now - self._due)
        self._running_since = now
        return self

    def next_due(self) -> float | None:
        return None if self._running_since is not None or self._due == math.inf else self._due

    def begin(self) -> Running:
        return _running(self.settings.run(self._reconciler), f"pass {self.settings.name!r}", self._reconciler)

    def succeed(self, again: RequeueAfter | None, now: float, decision: Remembered) -> None:
        self.remember(decision)
        self._failures = 0
        self.history.succeed(now)
        self._held_back.succeeded(self.queue, self.key)
        self._finish(self.settings.every if again is None else again.seconds, now)

    def fail(self, err: Exception, now: float) -> float | None:
        delay = pass_delay(err, self._failures, every=self.settings.every)
        self._failures += 1
        if is_failure(err):
            self.history.fail(self.key, one_line(err), now)
        report_pass(err, delay=delay, attempt=self._failures, traces=self._traces, log=self._log)
        self._finish(delay, now)
        return delay

    def remember(self, decision: Remembered) -> None:
        remember(self._latest, "", decision)

    def longest_running(self, now: float) -> float:
        """Return for how many seconds the pass has been running. Called from any thread."""
        since = self._running_since
        return 0.0 if since is None else now - since

    unfinished = longest_running

    def _finish(self, delay: float, now: float) -> None:
        assert self._running_since is not None
        meter = self.settings.meter
        meter.finished(now - self._running_since)
        meter.retried()
        self._running_since = None
        self._due = now + max(delay, SOONEST)


class TaskSources:
    """All sources of one controller. Tasks are taken round-robin, so that a full queue does not starve the others."""

    def __init__(self, sources: Iterable[TaskSource]) -> None:
        self._turns = deque(sources)
        self._only = self._turns[0] if len(self._turns) == 1 else None  # most controllers have one queue and no pass

    # Called several times for each message: plain loops take half the time of generators.

    def take(self, now: float) -> Task | None:
        if self._only is not None:
            return self._only.take(now)
        turns = self._turns
        for _ in range(len(turns)):
            source = turns[0]
            turns.rotate(-1)
            task = source.take(now)
            if task is not None:
                return task
        return None

    def next_due(self) -> float | None:
        soonest: float | None = None
        for source in self._turns:
            due = source.next_due()
            if due is not None and (soonest is None or due < soonest):
                soonest = due
        return soonest


def _running(made: Any, what: str, reconciler: Any) -> Running:
    """Raise TypeError if a function of the reconciler returned neither a generator nor a coroutine."""
    if not isinstance(made, RUNNING):
        name = type(reconciler).__name__
        if isinstance(made, AsyncGenerator):
            raise TypeError(f"{what} of {name} is `async def`: it awaits its commands and steps, and yields nothing")
        raise TypeError(f"{what} of {name} is no generator: it needs a yield, and returned {made!r}")
    return made
