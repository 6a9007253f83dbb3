"""Calls of the world outside: of what is neither the API server's nor decided in a function.

    answer = yield from call(self._directory.remove, uid, timeout=10)  # `await` in a coroutine

The function is called apart from the actors: a plain one in a thread, an async one on an event loop. Only the key that
called it waits. It may be called again with the same arguments, as every step of a reconciliation: after a crash, or if
its answer was lost.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar, overload

from kcm.actors.reconciliation.reconciler import Step, Word, step
from kcm.protocols.arguments import check_number, check_text
from kcm.protocols.codec import pack, unpack
from kcm.protocols.messages.calls import Call
from kcm.protocols.messages.outcomes import FAILURES, CommandError, Done, Outcome, Raised, Refused, Unknown
from kcm.runtime.calls.prepared_calls import PreparedCall, carry_out, carry_out_async

T = TypeVar("T")
Unmade = TypeVar("Unmade", Unknown, Refused)
Exceptions = type[Exception] | type[Raised]
MATCHED = (Exception, *FAILURES)
But = type[Exception] | type[Outcome]  # an exception that the function raises, or an outcome of the call


class Outside(Call, frozen=True, kw_only=True):
    """A Call with its function, which no message contains: on the wire it is a Call."""

    target: Callable[[], Any]
    is_async: bool

    def prepare(self, *, sender: str, incarnation: int, most: int | None) -> PreparedCall:
        make = carry_out_async if self.is_async else carry_out
        return PreparedCall(
            command=Call(self.function, self.arguments, self.timeout, self.key),
            what=f"{self.function} {self.key}".rstrip(),
            scope=(self.function, self.key),
            run=partial(make, self.target, self.function),
            timeout=self.timeout,
            is_async=self.is_async,
            sender=sender,
            incarnation=incarnation,
            most=most,
        )


def outside(
    function: Callable[..., Any], /, *args: Any, timeout: float = 30.0, key: str = "", **kwargs: Any
) -> Outside:
    """The command that calls function(*args, **kwargs) outside; it may stand in a list with others, which go together.

    Its outcomes: Done, whose body `answer_of` reads; Raised; Unknown: it did not return in time, was cancelled or lost,
    and may have done what it does; Refused: it was not made. For what to pass and the rest, see `call`.
    """
    if not callable(function):
        raise TypeError(
            f"call takes a function and its arguments apart, call(f, x), not what it returned: {function!r:.80}"
        )
    check_number("timeout of call", timeout, above=0)
    check_text("key of call", key, may_be_empty=True)
    name = _name_of(function)
    for what, value in [*((f"argument {n}", one) for n, one in enumerate(args, start=1)), *kwargs.items()]:
        try:
            pack(value)
        except (TypeError, ValueError) as err:
            hint = "; a function may bring it along, as a method or by functools.partial"
            raise type(err)(f"{what} of {name}: {err}{hint}") from err
    return Outside(
        name,
        pack([args, kwargs]),
        float(timeout),
        key,
        target=partial(function, *args, **kwargs),
        is_async=_is_async(function),
    )


# What `but` lets through is part of the type. The overloads with `but` come first: in the others it would be one more
# keyword argument of the function.
@overload
def call(
    function: Callable[..., Awaitable[T]],
    /,
    *args: Any,
    but: tuple[Exceptions, ...],
    timeout: float = ...,
    key: str = ...,
    **kwargs: Any,
) -> Word[T | Raised]: ...
@overload
def call(
    function: Callable[..., T],
    /,
    *args: Any,
    but: tuple[Exceptions, ...],
    timeout: float = ...,
    key: str = ...,
    **kwargs: Any,
) -> Word[T | Raised]: ...
@overload
def call(
    function: Callable[..., Awaitable[T]],
    /,
    *args: Any,
    but: tuple[type[Unmade], ...],
    timeout: float = ...,
    key: str = ...,
    **kwargs: Any,
) -> Word[T | Unmade]: ...
@overload
def call(
    function: Callable[..., T],
    /,
    *args: Any,
    but: tuple[type[Unmade], ...],
    timeout: float = ...,
    key: str = ...,
    **kwargs: Any,
) -> Word[T | Unmade]: ...
@overload
def call(
    function: Callable[..., Awaitable[T]],
    /,
    *args: Any,
    but: tuple[Exceptions | type[Unmade], ...],
    timeout: float = ...,
    key: str = ...,
    **kwargs: Any,
) -> Word[T | Raised | Unmade]: ...
@overload
def call(
    function: Callable[..., T],
    /,
    *args: Any,
    but: tuple[Exceptions | type[Unmade], ...],
    timeout: float = ...,
    key: str = ...,
    **kwargs: Any,
) -> Word[T | Raised | Unmade]: ...
@overload
def call(
    function: Callable[..., Awaitable[T]],
    /,
    *args: Any,
    but: tuple[But, ...],
    timeout: float = ...,
    key: str = ...,
    **kwargs: Any,
) -> Word[T | Raised | Unknown | Refused]: ...
@overload
def call(
    function: Callable[..., T],
    /,
    *args: Any,
    but: tuple[But, ...],
    timeout: float = ...,
    key: str = ...,
    **kwargs: Any,
) -> Word[T | Raised | Unknown | Refused]: ...
@overload
def call(
    function: Callable[..., Awaitable[T]],
    /,
    *args: Any,
    timeout: float = ...,
    key: str = ...,
    **kwargs: Any,
) -> Word[T]: ...
@overload
def call(
    function: Callable[..., T],
    /,
    *args: Any,
    timeout: float = ...,
    key: str = ...,
    **kwargs: Any,
) -> Word[T]: ...
def call(
    function: Callable[..., Any],
    /,
    *args: Any,
    timeout: float = 30.0,
    key: str = "",
    but: Any = (),
    **kwargs: Any,
) -> Word[Any]:
    """What function(*args, **kwargs) returns, called outside of the actor.

    Arguments and what it returns are plain values: None, numbers, text, bytes, and lists and maps of them, since they
    go into the journal, from which a replay takes them in place of the call. A tuple comes back as a list.

    timeout: seconds from its begin; before that it waits for a thread 30 s at most, and without a bound for other calls
    of its controller (ControllerSpec.calls). An async function is cancelled then, and when its controller is replaced
    or ends; a thread cannot be, and what it does it does. key: what it is about, for journals, health checks and the
    scopes of faults; empty: the key that is reconciled.

    Raises CommandError, with failure Raised, Unknown or Refused (see `outside`). but: exceptions of the function and
    types of outcomes that are returned instead; `Raised.is_a(KeyError)` tells which it was.
    Raises TypeError and ValueError at once on what cannot be called or passed.
    """
    if not (isinstance(but, tuple) and all(isinstance(one, type) and issubclass(one, MATCHED) for one in but)):
        raise TypeError(
            f"but is a tuple of exception types and outcome types, as in call(f, x, but=(KeyError,)), not {but!r:.80}"
        )
    return _called(outside(function, *args, timeout=timeout, key=key, **kwargs), but)


@step
def _called(command: Outside, but: tuple[But, ...]) -> Step[Any]:
    outcome: Outcome = yield command
    if isinstance(outcome, Done):
        return unpack(outcome.body)
    for one in but:
        if isinstance(outcome, one) or (
            isinstance(outcome, Raised) and issubclass(one, Exception) and outcome.is_a(one)
        ):
            return outcome
    raise CommandError(command, outcome)


def answer_of(outcome: Done) -> Any:
    """What the function of an `outside` command returned."""
    return unpack(outcome.body)


def _bare(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _name_of(function: Any) -> str:
    function = _bare(function)
    name: str = getattr(function, "__qualname__", None) or type(function).__qualname__
    return name.rpartition("<locals>.")[2]


def _is_async(function: Any) -> bool:
    function = _bare(function)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


class Functions:
    """Where the dispatcher finds the functions of the calls that were submitted to it. For any thread."""

    def __init__(self) -> None:
        self._lent: dict[tuple[str, int], tuple[Callable[[int, int], object], int | None]] = {}

    def lend(self, sender: str, incarnation: int, find: Callable[[int, int], object], *, most: int | None) -> None:
        """find: returns the command of a ticket and index that waits for its outcome, None without one.

        most: calls of this sender at a time; None: as many as there are.
        """
        self._lent[sender, incarnation] = find, most

    def withdraw(self, sender: str, incarnation: int) -> None:
        self._lent.pop((sender, incarnation), None)

    def prepare(self, sender: str, incarnation: int, ticket: int, index: int) -> PreparedCall | None:
        """None if nobody waits for it any more."""
        find, most = self._lent.get((sender, incarnation), (None, None))
        command = None if find is None else find(ticket, index)
        if not isinstance(command, Outside):
            return None
        return command.prepare(sender=sender, incarnation=incarnation, most=most)
