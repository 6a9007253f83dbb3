"""The conversation between the supervisor and its children, and the clock's one message."""

from __future__ import annotations

from kcm.protocols.late_methods import dataclass


@dataclass(frozen=True, slots=True)
class Wake:
    """The time that the actor asked its clock for has come. Carries no decision: look at what is due."""


@dataclass(frozen=True, slots=True)
class Ping:
    """Asks any actor for a sign of life, which is a Pong. The manager itself sees who hangs without asking."""

    nonce: int


@dataclass(frozen=True, slots=True)
class Pong:
    """Response to Ping. Any actor → manager."""

    name: str
    incarnation: int
    nonce: int


@dataclass(frozen=True, slots=True)
class ActorFailed:
    """A handler (or the start) of an actor raised, and the actor has stopped. Actor base → manager.

    error: one line, `Type: text`. traceback: the formatted stack.
    """

    name: str
    incarnation: int
    error: str
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class Attach:
    """This incarnation writes under the name from now on: refuse commands of older ones. Controller → dispatcher.

    The dispatcher sends Attached once no command of an older one is under way to the API server.
    """

    name: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class Attached:
    """The controller may begin once its tables have reached these versions. Dispatcher → controller.

    versions: Resource.id → resourceVersion of the newest object that a write or live read under this name returned.
    under_way: [ticket, index] of this incarnation's commands that will still be settled. After a restart of the
    dispatcher the others are lost: they had not been sent.
    """

    incarnation: int
    versions: dict[str, int]
    under_way: list[list[int]]


@dataclass(frozen=True, slots=True)
class Restarted:
    """A peer is a new incarnation with empty state: subscribe or attach again. Manager → all children."""

    name: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class StartChild:
    """Start an actor of this kind as `<kind>:<name>`, unless it is alive; it is supervised like any other.

    Controller → manager. owner: canonical name of the controller that sends this; kind: one of its spec's `children`.
    Disabling the owner stops the child; the owner receives Restarted when the child is a new incarnation.
    """

    owner: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class StopChild:
    """Stop that actor. Controller → manager."""

    owner: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Drain:
    """Start no reconciliation, finish those under way, then send Drained. Manager → controllers."""


@dataclass(frozen=True, slots=True)
class Drained:
    """No reconciliation is under way any more. Controller → manager."""

    name: str


@dataclass(frozen=True, slots=True)
class LeaseHeld:
    """This process leads, and may write until `until` (seconds, monotonic clock). Elector → dispatcher and manager."""

    until: float


@dataclass(frozen=True, slots=True)
class LeaseLost:
    """This process leads no more and may not write. Elector → dispatcher and manager."""

    reason: str


@dataclass(frozen=True, slots=True)
class LeaderObserved:
    """The lease has a new holder, perhaps this process. Elector → manager."""

    holder: str


@dataclass(frozen=True, slots=True)
class Enable:
    """Enable a controller, as `--controllers=name` does. Operator or test → manager."""

    controller: str


@dataclass(frozen=True, slots=True)
class Disable:
    """Disable a controller. Operator or test → manager."""

    controller: str


@dataclass(frozen=True, slots=True)
class Restart:
    """Restart a child without counting a failure. Operator or test → manager."""

    child: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Keep the work queue, start no reconciliation. Operator or test → manager → controller."""

    controller: str


@dataclass(frozen=True, slots=True)
class Resume:
    """Go on after Pause. Operator or test → manager → controller."""

    controller: str


PlainKey = str | int | tuple[str | int | None, ...]  # what a message carries and a work queue can hold


@dataclass(frozen=True, slots=True)
class EnqueueKey:
    """Add a key to this work queue, as if a watch had named it. Program, or a source → controller.

    key: text most often.
    """

    queue: str
    key: PlainKey


@dataclass(frozen=True, slots=True)
class Describe:
    """What are you doing? Asked by people and tests only; the answer is a Description."""


@dataclass(frozen=True, slots=True)
class Description:
    """The state that an actor reports. facts: JSON bytes of a mostly flat object, for dashboards and tests."""

    name: str
    facts: bytes
