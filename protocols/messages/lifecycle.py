"""Messages between the supervisor and its children, and the message of an expired timer."""

from __future__ import annotations

import math

from kcm.protocols.messages.message import Message


class Wake(Message, frozen=True, tag=80):
    """A timer of the actor has expired. The receiver checks what is due."""


class Ping(Message, frozen=True, tag=81):
    """Request a Pong from an actor. The manager detects hanging actors without it."""

    nonce: int


class Pong(Message, frozen=True, tag=82):
    """Response to Ping. Any actor → manager."""

    name: str
    incarnation: int
    nonce: int


class ActorFailed(Message, frozen=True, tag=83):
    """A handler or the start of an actor raised an exception, and the actor has stopped. Actor base → manager.

    error: one line, `Type: text`. traceback: the formatted stack.
    """

    name: str
    incarnation: int
    error: str
    traceback: str = ""


class Attach(Message, frozen=True, tag=84):
    """Make this the incarnation that writes under the name: refuse commands of older ones. Controller → dispatcher.

    The dispatcher sends Attached once no command of an older incarnation is in flight.
    """

    name: str
    incarnation: int


class Attached(Message, frozen=True, tag=97):
    """The controller may begin once its tables have reached these versions. Dispatcher → controller.

    versions: Resource.id → resourceVersion of the newest object that a write or live read under this name returned.
    under_way: [ticket, index] of this incarnation's commands for which a Settled will follow. After a restart of the
    dispatcher all other commands are lost: they had not been sent.
    """

    incarnation: int
    versions: dict[str, int]
    under_way: list[list[int]]


class Restarted(Message, frozen=True, tag=98):
    """A peer is a new incarnation with empty state: subscribe or attach again. Manager → all children."""

    name: str
    incarnation: int


class StartChild(Message, frozen=True, tag=99):
    """Start an actor of this kind as `<kind>:<name>`, unless it is alive; it is supervised like any other.

    Controller → manager. owner: canonical name of the controller that sends this; kind: one of its spec's `children`.
    Disabling the owner stops the child; the owner receives Restarted when the child is a new incarnation.
    """

    owner: str
    kind: str
    name: str


class StopChild(Message, frozen=True, tag=100):
    """Stop that actor. Controller → manager."""

    owner: str
    kind: str
    name: str


class Drain(Message, frozen=True, tag=85):
    """Start no reconciliation, finish those in progress, then send Drained. Manager → controllers."""


class Drained(Message, frozen=True, tag=86):
    """No reconciliation is in progress after a Drain. Controller → manager."""

    name: str


class LeaseHeld(Message, frozen=True, tag=87):
    """This process is the leader, and may write until `until` (seconds, monotonic clock).

    Elector → dispatcher and manager.
    """

    until: float
    elector: str = "elector"  # name of the sender; there are several with leader migration or groups of controllers


class LeaseLost(Message, frozen=True, tag=88):
    """This process is no longer the leader and must not write. Elector → dispatcher and manager."""

    reason: str
    elector: str = "elector"  # as in LeaseHeld


class LeaderObserved(Message, frozen=True, tag=89):
    """The lease has a new holder, perhaps this process. Elector → manager."""

    holder: str
    elector: str = "elector"  # as in LeaseHeld


class Compete(Message, frozen=True, tag=104):
    """Compete for the Lease, and hold it at most until `until`, unless this message is repeated. Coordinator → elector.

    lease: the Lease as JSON, as the coordinator has seen it; b"" if it has not. It has not changed since `seen`.
    Times are monotonic seconds.
    """

    lease: bytes = b""
    seen: float = 0.0
    until: float = math.inf


class Withdraw(Message, frozen=True, tag=105):
    """Stop competing for the Lease. Manager or coordinator → elector.

    drained: the controllers under it have finished their work, so it is released; otherwise a Lease that is held is
    kept.
    """

    drained: bool


class YieldGroup(Message, frozen=True, tag=106):
    """Drain the controllers under the Lease of this elector, then release it. Coordinator → manager."""

    elector: str


class Enable(Message, frozen=True, tag=90):
    """Enable a controller, as `--controllers=name` does. Operator or test → manager."""

    controller: str


class Disable(Message, frozen=True, tag=91):
    """Disable a controller. Operator or test → manager."""

    controller: str


class Restart(Message, frozen=True, tag=92):
    """Restart a child without counting a failure. Operator or test → manager."""

    child: str


class Pause(Message, frozen=True, tag=93):
    """Keep the work queue, but start no reconciliation. Operator or test → manager → controller."""

    controller: str


class Resume(Message, frozen=True, tag=94):
    """Resume after Pause. Operator or test → manager → controller."""

    controller: str


PlainKey = str | int | tuple[str | int | None, ...]  # keys that a message can contain


class EnqueueKey(Message, frozen=True, tag=101):
    """Add a key to this work queue, as a watch would. Program, or a source → controller.

    key: in most controllers a string, "namespace/name".
    """

    queue: str
    key: PlainKey


class Describe(Message, frozen=True, tag=95):
    """Request a Description. Sent only for people and tests."""


class Description(Message, frozen=True, tag=96):
    """The state that an actor reports. facts: JSON bytes of a mostly flat object, for dashboards and tests."""

    name: str
    facts: bytes
