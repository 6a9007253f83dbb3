"""What a reconciler is, what it may yield, and what it may return."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from protocols.messages.commands import Command
from protocols.messages.recording import Record
from protocols.objects import Key


@dataclass(frozen=True, slots=True)
class RequeueAfter:
    """Returned by reconcile: done, and look again after so many seconds (an earlier event looks earlier)."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Tell:
    """Yielded: send a message to another actor (a child, or the manager), and do not wait for it."""

    to: str
    message: Any


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Add a key to one of the controller's own queues, now or after so many seconds.

    Yielded by a reconciliation, which does not wait for it, and returned by on_message. queue: its name in the spec.
    """

    queue: str
    key: Hashable
    after: float = 0.0


Yielded = Command | Record | Tell | Enqueue | Sequence[Command]
Reconciliation = Generator[Yielded, Any, RequeueAfter | None]
T = TypeVar("T")
Step = Generator[Yielded, Any, T]  # a part of a reconciliation that returns a T


class Reconciler(Protocol):
    """What a controller with one queue, whose keys are "namespace/name" or a name, is driven by."""

    def reconcile(self, key: Key) -> Reconciliation: ...


@runtime_checkable
class Receiver(Protocol):
    """A reconciler that other actors send messages to: its children, or the manager."""

    def on_message(self, message: Any) -> Iterable[Enqueue]:
        """A message for this controller that is not the driver's own business (also Restarted, for any peer).

        Returns the keys that it concerns. Raises TypeError on a message that the reconciler does not handle.
        """
