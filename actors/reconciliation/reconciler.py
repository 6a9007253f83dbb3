"""What a reconciler is, what it may yield or await, and what it may return."""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar, cast, runtime_checkable

from kcm.protocols.late_methods import dataclass
from kcm.protocols.messages.awaitables import Awaited
from kcm.protocols.messages.commands import Command
from kcm.protocols.messages.events import Record
from kcm.protocols.objects import Key


def check_seconds(what: str, seconds: Any) -> None:
    """Raise TypeError if this is no number, ValueError if it is negative or not finite."""
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        raise TypeError(f"{what} takes a number of seconds, not {seconds!r:.80}")
    if not (seconds >= 0 and math.isfinite(seconds)):
        raise ValueError(f"{what} takes a number of seconds, 0 or more, not {seconds!r}")


@dataclass(frozen=True, slots=True)
class RequeueAfter:
    """Returned by reconcile: done, and look again after so many seconds (an earlier event looks earlier).

    Raises TypeError or ValueError on what is no number of seconds, 0 or more.
    """

    seconds: float

    def __post_init__(self) -> None:
        check_seconds("RequeueAfter", self.seconds)


@dataclass(frozen=True, slots=True)
class Tell(Awaited[None]):
    """Yielded: send a message to another actor (a child, or the manager), and do not wait for it."""

    to: str
    message: Any


@dataclass(frozen=True, slots=True)
class Enqueue(Awaited[None]):
    """Add a key to one of the controller's own queues, now or after so many seconds.

    Yielded by a reconciliation, which does not wait for it, and returned by on_message. queue: its name in the spec.
    Raises TypeError or ValueError on what is no number of seconds, 0 or more.
    """

    queue: str
    key: Hashable
    after: float = 0.0

    def __post_init__(self) -> None:
        if self.after != 0.0:
            check_seconds("Enqueue: after", self.after)


Yielded = Command | Record | Tell | Enqueue | Sequence[Command]
Reconciliation = Generator[Yielded, Any, RequeueAfter | None]
AsyncReconciliation = Coroutine[Any, Any, RequeueAfter | None]  # what an `async def reconcile` makes
Running = Reconciliation | AsyncReconciliation  # both are driven by send() and throw()
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
P = ParamSpec("P")
Step = Generator[Yielded, Any, T]  # a part of a reconciliation that returns a T


class Word(Generator[Yielded, Any, T_co], Awaitable[T_co]):
    """What a `step` returns, for type checkers: a Step that can be awaited too."""


def step(function: Callable[P, Step[T]]) -> Callable[P, Word[T]]:
    """Decorates a generator function that a generator may `yield from` and a coroutine `await`. It may do the same with
    either. Calling it costs nothing more. Raises TypeError on what is no generator function.
    """
    if not inspect.isgeneratorfunction(function):
        raise TypeError(f"a step is a generator function, not {function!r}")
    return cast("Callable[P, Word[T]]", types.coroutine(function))


class Reconciler(Protocol):
    """What a controller with one queue, whose keys are "namespace/name" or a name, is driven by."""

    def reconcile(self, key: Key) -> Running: ...


@runtime_checkable
class Receiver(Protocol):
    """A reconciler that other actors send messages to: its children, or the manager."""

    def on_message(self, message: Any) -> Iterable[Enqueue]:
        """A message for this controller that is not the driver's own business (also Restarted, for any peer).

        Returns the keys that it concerns. Raises TypeError on a message that the reconciler does not handle.
        """


class DebugPage(NamedTuple):
    """What a controller shows people, for their eyes or for a tool that draws it."""

    body: str
    content_type: str = "text/plain; charset=utf-8"


@runtime_checkable
class Debuggable(Protocol):
    """A reconciler with pages of its own: `/debug/controllers/<its name>/…`, where run-kcm or `serve` serves pages."""

    def debug_page(self, path: str, query: Mapping[str, Sequence[str]]) -> DebugPage | None:
        """None where there is no such page. It is called between two reconciliations, and writes nothing.

        path: what follows the controller's name, "/graph". query: the values of each parameter, in order.
        """
