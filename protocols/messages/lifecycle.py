"""The conversation between the supervisor and its children, and the clock's one message."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wake:
    """The time that the actor asked its clock for has come. Carries no decision: look at what is due."""


@dataclass(frozen=True, slots=True)
class Ping:
    """Are you there? Manager → child; answered by Pong from its own loop, so a hung handler does not answer."""

    nonce: int


@dataclass(frozen=True, slots=True)
class Pong:
    """Here. Child → manager."""

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
    """I am the incarnation that writes under this name now: refuse what older ones still send. Controller → dispatcher.

    Answered by Attached once nothing of an older one is on its way to the API server any more.
    """

    name: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class Attached:
    """Go ahead, once your tables have reached what was answered under your name before. Dispatcher → controller.

    versions: Resource.id → resourceVersion of the newest object that a write or a live look was answered with.
    under_way: [ticket, index] of this incarnation's own commands that are still to be answered (after the dispatcher
    was restarted: those that it had not sent yet are lost, and will not be).
    """

    incarnation: int
    versions: dict[str, int]
    under_way: list[list[int]]


@dataclass(frozen=True, slots=True)
class Restarted:
    """A peer is a new incarnation, and remembers nothing of you: subscribe or attach again. Manager → all children."""

    name: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class StartChild:
    """Bring an actor of this kind to life, as `<kind>:<name>`, unless it lives; supervised like any other.

    Controller → manager. owner: the controller that asks, by its canonical name; kind: one of its spec's `children`.
    The child is stopped with its owner's being switched off; the owner hears Restarted when it is a new incarnation.
    """

    owner: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class StopChild:
    """That actor is needed no more. Controller → manager."""

    owner: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Drain:
    """Begin nothing new, finish what is under way, then answer Drained. Manager → controllers."""


@dataclass(frozen=True, slots=True)
class Drained:
    """Nothing is under way any more. Controller → manager."""

    name: str


@dataclass(frozen=True, slots=True)
class LeaseHeld:
    """We lead, and may write until `until` (our monotonic clock, seconds). Elector → dispatcher and manager."""

    until: float


@dataclass(frozen=True, slots=True)
class LeaseLost:
    """We do not lead any more; nothing may be written. Elector → dispatcher and manager."""

    reason: str


@dataclass(frozen=True, slots=True)
class LeaderObserved:
    """Somebody (perhaps us) holds the lease now. Elector → manager."""

    holder: str


@dataclass(frozen=True, slots=True)
class Enable:
    """Switch a controller on, as `--controllers=name` does. Operator or test → manager."""

    controller: str


@dataclass(frozen=True, slots=True)
class Disable:
    """Switch a controller off. Operator or test → manager."""

    controller: str


@dataclass(frozen=True, slots=True)
class Restart:
    """Stop a child and start it anew, without counting a failure. Operator or test → manager."""

    child: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Keep the queue, begin nothing. Operator or test → manager → controller."""

    controller: str


@dataclass(frozen=True, slots=True)
class Resume:
    """Go on after Pause. Operator or test → manager → controller."""

    controller: str


@dataclass(frozen=True, slots=True)
class Describe:
    """What are you doing? Asked by people and tests only; the answer is a Description."""


@dataclass(frozen=True, slots=True)
class Description:
    """An actor's own words on its state. facts: JSON bytes of a flat-ish object, for people, dashboards and tests."""

    name: str
    facts: bytes
