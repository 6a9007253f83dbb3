"""External calls: functions with side effects outside the API server, such as requests to another service.

    result = yield from call(self._directory.remove, uid, timeout=10)  # `await` in a coroutine

A plain function runs in a thread, an async function on an event loop, so only the calling key waits. Like every step of
a reconciliation, it may be called again with the same arguments: after a crash, or if its result was lost.
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
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import FAILURES, Done, Outcome, Raised, Refused, Unknown
from kcm.runtime.calls.prepared_calls import PreparedCall, carry_out, carry_out_async

T = TypeVar("T")
Unmade = TypeVar("Unmade", Unknown, Refused)
Exceptions = type[Exception] | type[Raised]
MATCHED = (Exception, *FAILURES)
But = type[Exception] | type[Outcome]  # an exception of the function, or an outcome of the call


class Outside(Call, frozen=True, kw_only=True):
    """Call with its function. Messages contain only the Call, not the function."""

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
    """Return the command that calls function(*args, **kwargs). It can be yielded in a list with other commands.

    Its outcomes are Done (`answer_of` returns the result), Raised, Unknown (it timed out, was cancelled or lost, and
    may have had its effect) and Refused (it was not called). For the parameters see `call`.
    """
    if not callable(function):
        raise TypeError(
            f"call takes a function and its arguments apart, call(f, x), not what it returned: {function!r:.80}"
        )
    check_number("timeout of call", timeout, above=0)
    check_text("key of call", key, may_be_empty=True)
    name = _name_of(function)
    for what, value in [*((f"argument {n}", argument) for n, argument in enumerate(args, start=1)), *kwargs.items()]:
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


# The types in `but` are part of the result type. The overloads with `but` come first: in the others `but` would be
# another keyword argument of the function.
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
    """Call function(*args, **kwargs) outside the actor, and return its result.

    Arguments and result are plain values: None, numbers, text, bytes, and lists and maps of them. They are stored in
    the journal, and a replay uses the stored result instead of the call. A tuple is returned as a list.

    timeout: seconds from the start of the function. Before that the call waits at most 30 s for a thread, and without a
        limit for other calls of its controller (ControllerSpec.calls). After the timeout, and when the controller is
        replaced or stopped, an async function is cancelled; a plain function continues in its thread.
    key: subject of the call in journals, health checks and scopes of faults; empty: the key that is reconciled.
    but: exceptions of the function and types of outcomes to return instead of raising them;
        `Raised.is_a(KeyError)` distinguishes exceptions.

    Raises CommandError with failure Raised, Unknown or Refused (see `outside`); TypeError or ValueError immediately if
    the function is not callable or an argument is not a plain value.
    """
    if not (isinstance(but, tuple) and all(isinstance(type_, type) and issubclass(type_, MATCHED) for type_ in but)):
        raise TypeError(
            f"but is a tuple of exception types and outcome types, as in call(f, x, but=(KeyError,)), not {but!r:.80}"
        )
    return _called(outside(function, *args, timeout=timeout, key=key, **kwargs), but)


@step
def _called(command: Outside, but: tuple[But, ...]) -> Step[Any]:
    outcome: Outcome = yield command
    if isinstance(outcome, Done):
        return unpack(outcome.body)
    for type_ in but:
        if isinstance(outcome, type_) or (
            isinstance(outcome, Raised) and issubclass(type_, Exception) and outcome.is_a(type_)
        ):
            return outcome
    raise CommandError(command, outcome)


def answer_of(outcome: Done) -> Any:
    """Return the result of an `outside` command."""
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
    """Functions of submitted calls, through which the dispatcher finds them. Thread-safe."""

    def __init__(self) -> None:
        self._lent: dict[tuple[str, int], tuple[Callable[[int, int], object], int | None]] = {}

    def lend(self, sender: str, incarnation: int, find: Callable[[int, int], object], *, most: int | None) -> None:
        """Register a sender.

        find: returns the command of a ticket and index that waits for its outcome, or None.
        most: maximum number of concurrent calls of this sender; None: no limit.
        """
        self._lent[sender, incarnation] = find, most

    def withdraw(self, sender: str, incarnation: int) -> None:
        self._lent.pop((sender, incarnation), None)

    def prepare(self, sender: str, incarnation: int, ticket: int, index: int) -> PreparedCall | None:
        """Return the call to run, or None if its sender no longer waits for it."""
        find, most = self._lent.get((sender, incarnation), (None, None))
        command = None if find is None else find(ticket, index)
        if not isinstance(command, Outside):
            return None
        return command.prepare(sender=sender, incarnation=incarnation, most=most)
