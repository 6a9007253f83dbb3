"""Where the reconciliations of a controller come from: its work queues."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Hashable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from actors.engine.controller.retries import Traces, retry
from actors.engine.controller.settings import QueueSettings
from actors.reconciliation import Reconciliation, RequeueAfter
from runtime.scheduling.work_queue import WorkQueue

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

SOONEST = 0.001  # seconds until a key is looked at again: `due - now` may fall a float's rounding short of due


class Task(Protocol):
    """One reconciliation that was taken from its source. Exactly one of the two ends is called, once."""

    def begin(self) -> Reconciliation:
        """The generator, not begun. Raises whatever the reconciler raises."""

    def succeed(self, again: RequeueAfter | None, now: float) -> None: ...

    def fail(self, err: Exception, now: float) -> None: ...


class Source(Protocol):
    def take(self, now: float) -> Task | None:
        """The next task; None if nothing is due, or as much is in work as may be."""

    def next_due(self) -> float | None:
        """When take() has something by itself, without an event or an end of what is in work; None: never."""


class KeyQueue:
    """A work queue of the controller, and what becomes of a key that is taken from it."""

    def __init__(
        self,
        settings: QueueSettings,
        *,
        reconciler: Any,
        queue: WorkQueue[Any],
        traces: Traces,
        log: FilteringBoundLogger,
    ) -> None:
        """log: bound to the controller. traces: one for all queues of a controller."""
        self.settings, self.queue = settings, queue
        self.reconciler, self.traces, self.log = reconciler, traces, log.bind(queue=settings.name)

    def take(self, now: float) -> Task | None:
        if self.queue.processing >= self.settings.concurrency:
            return None
        key = self.queue.take(now)
        return None if key is None else _KeyTask(self, key)

    def next_due(self) -> float | None:
        return self.queue.next_due() if self.queue.processing < self.settings.concurrency else None


class _KeyTask:
    __slots__ = ("_key", "_source")

    def __init__(self, source: KeyQueue, key: Hashable) -> None:
        self._source, self._key = source, key

    def begin(self) -> Reconciliation:
        source = self._source
        made = source.settings.reconcile(source.reconciler, self._key)
        if not isinstance(made, Generator):
            raise TypeError(
                f"reconcile() of {type(source.reconciler).__name__} is no generator: it needs a yield, "
                f"and returned {made!r}"
            )
        return made

    def succeed(self, again: RequeueAfter | None, now: float) -> None:
        queue, key = self._source.queue, self._key
        queue.forget(key)
        queue.done(key, now)
        if again is not None:
            queue.add_after(key, max(again.seconds, SOONEST), now)

    def fail(self, err: Exception, now: float) -> None:
        source = self._source
        source.queue.done(self._key, now)
        retry(
            source.queue,
            self._key,
            err,
            now=now,
            max_retries=source.settings.max_retries,
            traces=source.traces,
            log=source.log,
        )


class Sources:
    """All sources of one controller, taken from in turn, so that a full queue starves no other."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self._turns = deque(sources)

    def take(self, now: float) -> Task | None:
        for _ in range(len(self._turns)):
            source = self._turns[0]
            self._turns.rotate(-1)
            task = source.take(now)
            if task is not None:
                return task
        return None

    def next_due(self) -> float | None:
        return min((due for source in self._turns if (due := source.next_due()) is not None), default=None)
