"""Calls outside the actors: to a cloud, and of a controller's functions. A slow call blocks no actor.

A reconciler does no I/O: it yields a call like any other command, and the Dispatcher passes the call on once the sender
may act (the lease is held, and no newer incarnation has replaced the sender). The outcome is sent directly to the
sender's mailbox. Meanwhile only the key that made the call waits.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from kcm.protocols.codec import pack
from kcm.protocols.messages.calls import Call
from kcm.protocols.messages.cloud import CloudCall
from kcm.protocols.messages.outcomes import Done, Outcome, Raised, qualified_name
from kcm.runtime.calls.listeners import Ended
from kcm.runtime.scheduling.permits import ALWAYS, Permit

OnOutcome = Callable[[Outcome], None]


class PreparedCall(Struct, frozen=True, kw_only=True):
    """Call that is ready to be made.

    command: as submitted.
    what: description for logs and errors.
    scope: (resource, object), by which faults and health checks refer to the call.
    run: makes the call and raises no Exception; for an async function (is_async) it returns a coroutine that does so.
    timeout: seconds from its start.
    sender, incarnation: the actor that submitted it.
    most: maximum number of concurrent calls of this sender; None: no limit.
    alone: while this call hangs, no other call of its scope is made, because it may still change the object.
    """

    command: Call | CloudCall
    what: str
    scope: tuple[str, str]
    run: Callable[[], Any]
    timeout: float
    is_async: bool = False
    sender: str = ""
    incarnation: int = 0
    most: int | None = None
    alone: bool = False


class HungCall(NamedTuple):
    """Call that has not returned in time. what: "InstanceExists n1". since: time of its start, by monotonic()."""

    what: str
    since: float


class Calls(Protocol):
    """Interface for making prepared calls."""

    def send(self, prepared: PreparedCall, on_outcome: OnOutcome, *, permit: Permit = ALWAYS) -> None:
        """Make a call later. on_outcome is called exactly once, on any thread, and must not block.

        permit: checked just before the call begins; if it has expired, the outcome is Refused.
        """

    def cancel(self, sender: str, before: int) -> None:
        """Refuse waiting calls of older incarnations of a sender, and cancel their async functions.

        A call on a thread cannot be cancelled: its outcome follows when it returns or times out.
        """

    def hung(self) -> Sequence[HungCall]:
        """Return the calls that hang, the oldest first. Thread-safe."""

    def listen(self, name: str, run: Callable[[], Any], ended: Ended, *, is_async: bool) -> Callable[[], None]:
        """Run a source; see kcm.runtime.calls.listeners.SourceHost."""

    def close(self) -> None:
        """Cancel all calls, and refuse later ones. Returns at once."""


# Functions of controllers.


def carry_out(function: Callable[[], Any], name: str) -> Outcome:
    """Call a function. Never raises."""
    try:
        returned = function()
    except BaseException as err:  # also a SystemExit, which must not end the worker
        return raised(err)
    return _returned(returned, name)


async def carry_out_async(function: Callable[[], Coroutine[Any, Any, Any]], name: str) -> Outcome:
    """Await a function. Raises only CancelledError."""
    try:
        returned = await function()
    except (Exception, SystemExit, KeyboardInterrupt) as err:
        return raised(err)
    return _returned(returned, name)


def raised(err: BaseException) -> Raised:
    kinds = tuple(
        qualified_name(class_) for class_ in type(err).__mro__ if class_ not in (Exception, BaseException, object)
    )
    message = f"{type(err).__name__}: {err}" if str(err) else type(err).__name__
    step = err.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    if step is None:
        return Raised(kinds, message)
    code = step.tb_frame.f_code
    return Raised(kinds, message, f"{Path(code.co_filename).name}:{step.tb_lineno} in {code.co_name}")


def _returned(returned: Any, name: str) -> Outcome:
    if inspect.isawaitable(returned):
        if inspect.iscoroutine(returned):
            returned.close()
        return raised(TypeError(f"{name} returned a {type(returned).__name__}: call the async function itself"))
    try:
        return Done(pack(returned))
    except (TypeError, ValueError) as err:
        return raised(TypeError(f"{name} returned what cannot be passed on: {err}"))
