"""Messages between the supervisor and its children, and the message of an expired timer."""

from __future__ import annotations

import math

from msgspec import Struct


class Wake(Struct, frozen=True):
    """A timer of the actor has expired. The receiver checks what is due."""


class Ping(Struct, frozen=True):
    """Request a Pong from an actor. The manager detects hanging actors without it."""

    nonce: int


class Pong(Struct, frozen=True):
    """Response to Ping. Any actor → manager."""

    name: str
    incarnation: int
    nonce: int


class ActorFailed(Struct, frozen=True):
    """A handler or the start of an actor raised an exception, and the actor has stopped. Actor base → manager.

    error: one line, `Type: text`. traceback: the formatted stack.
    """

    name: str
    incarnation: int
    error: str
    traceback: str = ""


class Attach(Struct, frozen=True):
    """Make this the incarnation that writes under the name: refuse commands of older ones. Controller → dispatcher.

    The dispatcher sends Attached once no command of an older incarnation is in flight.
    """

    name: str
    incarnation: int


class Attached(Struct, frozen=True):
    """The controller may begin once its tables have reached these versions. Dispatcher → controller.

    versions: Resource.id → resourceVersion of the newest object that a write or live read under this name returned.
    under_way: [ticket, index] of this incarnation's commands for which a Settled will follow. After a restart of the
    dispatcher all other commands are lost: they had not been sent.
    """

    incarnation: int
    versions: dict[str, int]
    under_way: list[list[int]]


class Restarted(Struct, frozen=True):
    """A peer is a new incarnation with empty state: subscribe or attach again. Manager → all children."""

    name: str
    incarnation: int


class StartChild(Struct, frozen=True):
    """Start an actor of this kind as `<kind>:<name>`, unless it is alive; it is supervised like any other.

    Controller → manager. owner: canonical name of the controller that sends this; kind: one of its spec's `children`.
    Disabling the owner stops the child; the owner receives Restarted when the child is a new incarnation.
    """

    owner: str
    kind: str
    name: str


class StopChild(Struct, frozen=True):
    """Stop that actor. Controller → manager."""

    owner: str
    kind: str
    name: str


class Drain(Struct, frozen=True):
    """Start no reconciliation, finish those in progress, then send Drained. Manager → controllers."""


class Drained(Struct, frozen=True):
    """No reconciliation is in progress after a Drain. Controller → manager."""

    name: str


class LeaseHeld(Struct, frozen=True):
    """This process is the leader, and may write until `until` (seconds, monotonic clock).

    Elector → dispatcher and manager.
    """

    until: float
    elector: str = "elector"  # name of the sender; there are several with leader migration or groups of controllers


class LeaseLost(Struct, frozen=True):
    """This process is no longer the leader and must not write. Elector → dispatcher and manager."""

    reason: str
    elector: str = "elector"  # as in LeaseHeld


class LeaderObserved(Struct, frozen=True):
    """The lease has a new holder, perhaps this process. Elector → manager."""

    holder: str
    elector: str = "elector"  # as in LeaseHeld


class Compete(Struct, frozen=True):
    """Compete for the Lease, and hold it at most until `until`, unless this message is repeated. Coordinator → elector.

    lease: the Lease as JSON, as the coordinator has seen it; b"" if it has not. It has not changed since `seen`.
    Times are monotonic seconds.
    """

    lease: bytes = b""
    seen: float = 0.0
    until: float = math.inf


class Withdraw(Struct, frozen=True):
    """Stop competing for the Lease. Manager or coordinator → elector.

    drained: the controllers under it have finished their work, so it is released; otherwise a Lease that is held is
    kept.
    """

    drained: bool


class YieldGroup(Struct, frozen=True):
    """Drain the controllers under the Lease of this elector, then release it. Coordinator → manager."""

    elector: str


class Enable(Struct, frozen=True):
    """Enable a controller, as `--controllers=name` does. Operator or test → manager."""

    controller: str


class Disable(Struct, frozen=True):
    """Disable a controller. Operator or test → manager."""

    controller: str


class Restart(Struct, frozen=True):
    """Restart a child without counting a failure. Operator or test → manager."""

    child: str


class Pause(Struct, frozen=True):
    """Keep the work queue, but start no reconciliation. Operator or test → manager → controller."""

    controller: str


class Resume(Struct, frozen=True):
    """Resume after Pause. Operator or test → manager → controller."""

    controller: str


PlainKey = str | int | tuple[str | int | None, ...]  # keys that a message can contain


class EnqueueKey(Struct, frozen=True):
    """Add a key to this work queue, as a watch would. Program, or a source → controller.

    key: in most controllers a string, "namespace/name".
    """

    queue: str
    key: PlainKey


class Describe(Struct, frozen=True):
    """Request a Description. Sent only for people and tests."""


class Description(Struct, frozen=True):
    """The state that an actor reports. facts: JSON bytes of a mostly flat object, for dashboards and tests."""

    name: str
    facts: bytes
