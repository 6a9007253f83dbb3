"""The log that a reconciler is given: each line says which key, or pass, is being worked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from kcm.actors.engine.controller.sources import Task


class InHand:
    """The task whose generator is running; None between two. One for each incarnation, used on its thread."""

    __slots__ = ("task",)

    def __init__(self) -> None:
        self.task: Task | None = None


def task_log(log: FilteringBoundLogger, in_hand: InHand) -> FilteringBoundLogger:
    """The log, with the key (or the pass) of the task in hand; what a line says itself takes precedence.

    A task is bound at its first line: a reconciliation that says nothing costs nothing.
    """
    return cast("FilteringBoundLogger", _TaskLog(log, in_hand))


class _TaskLog:
    """Looks like the bound logger that it makes for each task: its methods are that one's own."""

    __slots__ = ("_bound", "_in_hand", "_log", "_task")

    def __init__(self, log: FilteringBoundLogger, in_hand: InHand) -> None:
        self._log = self._bound = log
        self._in_hand = in_hand
        self._task: Task | None = None  # that _bound is bound to

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
