"""Protocols of reconcilers, and the values that they yield and return."""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar, cast, runtime_checkable

from msgspec import Struct

from kcm.protocols.messages.awaitables import Awaited
from kcm.protocols.messages.commands import Command
from kcm.protocols.messages.events import Record
from kcm.protocols.objects import Key


def check_seconds(what: str, seconds: Any) -> None:
    """Raise TypeError unless this is a number, ValueError if it is negative or not finite."""
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        raise TypeError(f"{what} takes a number of seconds, not {seconds!r:.80}")
    if not (seconds >= 0 and math.isfinite(seconds)):
        raise ValueError(f"{what} takes a number of seconds, 0 or more, not {seconds!r}")


class RequeueAfter(Struct, frozen=True):
    """Result of a reconciliation that succeeded: reconcile the key again after this delay, or earlier at an event.

    Raises TypeError or ValueError unless the delay is a number of seconds, 0 or more.
    """

    seconds: float

    def __post_init__(self) -> None:
        check_seconds("RequeueAfter", self.seconds)


class Tell(Struct, Awaited[None], frozen=True):
    """Message to another actor (a child, or the manager). The reconciliation that yields it does not wait."""

    to: str
    message: Any


class Because(Struct, Awaited[None], frozen=True):
    """Reason of a decision, in one line. The reconciliation that yields it does not wait.

    The engine keeps the reasons of the latest reconciliation of each key, with its commands and their outcomes, for
    `run-kcm why`. No message is sent, so that a reason costs hardly more than its text.

    text: begins with a lower-case letter and has no full stop, as in "waiting for 2 of 3 pods to be available". It
        names values of this moment, and at most 400 characters of it are kept.
    """

    text: str


class Enqueue(Struct, Awaited[None], frozen=True):
    """Key to add to a queue of the controller, now or after a delay.

    It is yielded by a reconciliation, which does not wait, or returned by on_message.

    queue: name of the queue in the spec.
    after: seconds. Raises TypeError or ValueError unless it is a number, 0 or more.
    """

    queue: str
    key: Hashable
    after: float = 0.0

    def __post_init__(self) -> None:
        if self.after != 0.0:
            check_seconds("Enqueue: after", self.after)


Yielded = Command | Record | Tell | Enqueue | Because | Sequence[Command]
Reconciliation = Generator[Yielded, Any, RequeueAfter | None]
AsyncReconciliation = Coroutine[Any, Any, RequeueAfter | None]  # returned by an `async def reconcile`
Running = Reconciliation | AsyncReconciliation  # both are driven by send() and throw()
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
P = ParamSpec("P")
Step = Generator[Yielded, Any, T]  # part of a reconciliation, which returns a T


class Word(Generator[Yielded, Any, T_co], Awaitable[T_co]):
    """Result of a `step` for type checkers: a Step that can also be awaited."""


def step(function: Callable[P, Step[T]]) -> Callable[P, Word[T]]:
    """Make a generator function usable with both `yield from` and `await`. It may itself use both kinds of steps.

    A call costs no more than before. Raises TypeError for anything but a generator function.
    """
    if not inspect.isgeneratorfunction(function):
        raise TypeError(f"a step is a generator function, not {function!r}")
    return cast("Callable[P, Word[T]]", types.coroutine(function))


class Reconciler(Protocol):
    """Reconciler of a controller with one queue of keys "namespace/name", or "name" if cluster-scoped."""

    def reconcile(self, key: Key) -> Running: ...


@runtime_checkable
class Receiver(Protocol):
    """Reconciler that receives messages from other actors: its children, or the manager."""

    def on_message(self, message: Any) -> Iterable[Enqueue]:
        """Handle a message that the controller actor does not handle itself, or Restarted of a peer.

        Returns the keys to enqueue. Raises TypeError for a message that the reconciler does not support.
        """


class DebugPage(NamedTuple):
    """Debug page of a controller, for people or for a tool that draws it."""

    body: str
    content_type: str = "text/plain; charset=utf-8"


@runtime_checkable
class Debuggable(Protocol):
    """Reconciler with debug pages at `/debug/controllers/NAME/…`, where run-kcm or `serve` serves pages."""

    def debug_page(self, path: str, query: Mapping[str, Sequence[str]]) -> DebugPage | None:
        """Return a page, or None if there is no such page. Called between two reconciliations; must not write.

        path: part of the path after the controller's name, for example "/graph".
        query: values of each parameter, in order.
        """
