"""Calls outside the actors, so that a slow call blocks nothing else: to a cloud, and of functions of a controller.

A reconciler does no I/O: it yields a call as it yields any command, and the Dispatcher hands it on to here once its
sender may act at all (the lease is held, no newer incarnation has replaced it). The outcome goes straight to the
sender's mailbox. Only the key that made the call waits meanwhile.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from kcm.protocols.codec import pack
from kcm.protocols.late_methods import dataclass
from kcm.protocols.messages.calls import Call
from kcm.protocols.messages.cloud import CloudCall
from kcm.protocols.messages.outcomes import Done, Outcome, Raised, qualified_name
from kcm.runtime.calls.listeners import Ended
from kcm.runtime.scheduling.permits import ALWAYS, Permit

OnOutcome = Callable[[Outcome], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCall:
    """One call, ready to be made.

    command: as it was submitted. what: in words. scope: (resource, object) that faults and health name it by.
    run: makes it, and raises no Exception; of an async function (is_async) it returns a coroutine that makes it.
    timeout: seconds from its begin. sender, incarnation: whose it is. most: of this sender's at a time; None: no bound.
    alone: while it hangs, no other call of its scope is made, as what it changes may still come.
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
    """A call that has not returned in time. what: "InstanceExists n1". since: when it began, by monotonic()."""

    what: str
    since: float


class Calls(Protocol):
    """Makes prepared calls."""

    def send(self, prepared: PreparedCall, on_outcome: OnOutcome, *, permit: Permit = ALWAYS) -> None:
        """Make a call later. on_outcome is called exactly once, on any thread, and must not block.

        permit: checked just before the call begins; if it has expired, the outcome is Refused.
        """

    def cancel(self, sender: str, before: int) -> None:
        """Refuse waiting calls of older incarnations of a sender, and cancel their async functions.

        A call on a thread cannot be cancelled: its outcome follows when it returns or times out.
        """

    def hung(self) -> Sequence[HungCall]:
        """Return the calls that hang, the oldest first. For any thread."""

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
