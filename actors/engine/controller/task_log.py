"""Log of a reconciler: each line contains the key or the pass that is being reconciled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from kcm.actors.engine.controller.sources import Task


class InHand:
    """The task whose generator is running, or None. Each incarnation has one and uses it on its own thread."""

    __slots__ = ("task",)

    def __init__(self) -> None:
        self.task: Task | None = None


def task_log(log: FilteringBoundLogger, in_hand: InHand) -> FilteringBoundLogger:
    """Return a log that adds the key (or the pass) of the running task, unless a line has that fact itself.

    A task is bound at its first line, so that a reconciliation without log lines costs nothing.
    """
    return cast("FilteringBoundLogger", _TaskLog(log, in_hand))


class _TaskLog:
    """Proxy of the bound logger of the running task."""

    __slots__ = ("_bound", "_in_hand", "_log", "_task")

    def __init__(self, log: FilteringBoundLogger, in_hand: InHand) -> None:
        self._log = self._bound = log
        self._in_hand = in_hand
        self._task: Task | None = None  # task of _bound

    def bind(self, **facts: Any) -> _TaskLog:
        return _TaskLog(self._log.bind(**facts), self._in_hand)

    def unbind(self, *names: str) -> _TaskLog:
        return _TaskLog(self._log.unbind(*names), self._in_hand)

    def try_unbind(self, *names: str) -> _TaskLog:
        return _TaskLog(self._log.try_unbind(*names), self._in_hand)

    def new(self, **facts: Any) -> _TaskLog:
        return _TaskLog(self._log.new(**facts), self._in_hand)

    def __getattr__(self, name: str) -> Any:
        task = self._in_hand.task
        if task is not self._task:
            self._task = task
            self._bound = self._log if task is None else self._log.bind(**_facts(task))
        return getattr(self._bound, name)


def _facts(task: Task) -> dict[str, str]:
    return {"key": task.key} if task.key else {"pass": task.queue}
