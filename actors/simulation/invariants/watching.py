"""Watching a simulated cluster: everything that happens, told to invariants, and what they object to.

An invariant is an object with a name and `see`; controllers bring their own next to their code. It keeps what it needs
to remember in itself, and a run has new ones.

    watch = Watchman(cluster, [SinglePodOwner(), ...])
    cluster.run_until(lambda: bool(watch.violations), within=60.0)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

from actors.app.system import ControllerSystem
from actors.reconciliation.actor_names import DISPATCHER
from actors.simulation import SimulatedCluster
from protocols.codec import decode
from protocols.messages.commands import Command, Submit
from protocols.messages.lifecycle import Attached
from protocols.messages.outcomes import Outcome, Settled
from runtime.apiserver.storage.store import Change
from runtime.client.api import Request, Response

MOST_VIOLATIONS = 20  # that are kept


class ProcessStarted(NamedTuple):
    """A process starts, maybe again; it remembers nothing of what it was before."""

    process: str
    system: ControllerSystem


class Submitted(NamedTuple):
    """An actor asks for commands, at the moment of its decision."""

    process: str
    system: ControllerSystem
    submit: Submit


class Answered(NamedTuple):
    """An actor is told the outcome of one of its commands. command: None if nobody saw it submitted."""

    process: str
    system: ControllerSystem
    sender: str
    command: Command | None
    outcome: Outcome


class LetIn(NamedTuple):
    """The dispatcher lets an incarnation write, and none that is older; be it that the dispatcher itself is new.

    lost: what was asked for under that name and will not be answered any more.
    """

    process: str
    name: str
    incarnation: int
    lost: Sequence[Command]


class Sent(NamedTuple):
    """A request leaves a process. by_fenced: the actor that sends it had been replaced."""

    process: str
    client: str
    request: Request
    by_fenced: bool


class CarriedOut(NamedTuple):
    """The server has handled a request of a process. changes: what it committed for it, as was told just before."""

    process: str
    client: str
    request: Request
    response: Response
    changes: Sequence[Change]


class Committed(NamedTuple):
    """The server's state has changed."""

    changes: Sequence[Change]


Happening = ProcessStarted | Submitted | Answered | LetIn | Sent | CarriedOut | Committed
ObjectTo = Callable[[str], None]  # takes what is wrong


class Invariant(Protocol):
    """Something that must always hold."""

    @property
    def name(self) -> str: ...

    def see(self, happening: Happening, object_to: ObjectTo) -> None:
        """Look at what happens, and object to what must not."""


@dataclass(frozen=True, slots=True)
class Violation:
    """at: virtual seconds."""

    at: float
    invariant: str
    text: str

    def __str__(self) -> str:
        return f"at {self.at:.3f} s, {self.invariant}: {self.text}"


class Watchman:
    """See the module. checked: how often each invariant was told of something."""

    def __init__(self, cluster: SimulatedCluster, invariants: Iterable[Invariant]) -> None:
        """To be called before any process starts."""
        self.violations: list[Violation] = []
        self.checked: Counter[str] = Counter()
        self._cluster = cluster
        self._posts = [(each.name, each.see, partial(self.object_to, each.name)) for each in invariants]
        self._commands: dict[tuple[str, str, int, int], Command] = {}  # (process, sender, ticket, index)
        cluster.network.witnesses.append(self)
        self._latest: tuple[float, Sequence[Change]] = (0.0, ())  # when the server committed what at last
        cluster.disk.observers.append(self._committed)
        cluster.started.append(self._started)

    def _tell(self, happening: Happening) -> None:
        for name, see, object_to in self._posts:
            self.checked[name] += 1
            see(happening, object_to)

    def _committed(self, changes: Sequence[Change]) -> None:
        self._latest = (self._cluster.clock.monotonic(), changes)
        self._tell(Committed(changes))

    def object_to(self, invariant: str, text: str) -> None:
        violation = Violation(self._cluster.clock.monotonic(), invariant, text)
        if len(self.violations) < MOST_VIOLATIONS:
            self.violations.append(violation)
            self._cluster.note("", f"VIOLATION {violation}")

    def _started(self, process: str, system: ControllerSystem) -> None:
        self._tell(ProcessStarted(process, system))

        def tap(sender: str, receiver: str, frame: bytes) -> None:
            if self._cluster.processes[process].system is not system:
                return  # a process that is gone: what its requests are answered reaches nobody
            if receiver == DISPATCHER:
                message = decode(frame)
                if isinstance(message, Submit):
                    for index, command in enumerate(message.commands):
                        self._commands[process, message.sender, message.ticket, index] = command
                    self._tell(Submitted(process, system, message))
            elif sender == DISPATCHER:
                message = decode(frame)
                if isinstance(message, Settled):
                    asked = (process, receiver, message.ticket, message.index)
                    known = self._commands.pop(asked) if asked in self._commands else None
                    self._tell(Answered(process, system, receiver, known, message.outcome))
                elif isinstance(message, Attached):
                    lost = self._lost(process, receiver, message)
                    self._tell(LetIn(process, receiver, message.incarnation, lost))

        system.actors.taps.append(tap)

    def _lost(self, process: str, name: str, attached: Attached) -> list[Command]:
        asked = [key for key in self._commands if key[:2] == (process, name) and [*key[2:]] not in attached.under_way]
        return [self._commands.pop(key) for key in asked]

    # The network's Witness.

    def sent(self, process: str, client: str, request: Request) -> None:
        actor = self._cluster.world.current
        fenced = actor is not None and actor.context.fenced
        self._tell(Sent(process, client, request, fenced))

    def carried_out(self, process: str, client: str, request: Request, response: Response) -> None:
        # A request is handled in no time; what was committed before it came was somebody else's.
        (when, changes), self._latest = self._latest, (0.0, ())
        mine = changes if when == self._cluster.clock.monotonic() else ()
        self._tell(CarriedOut(process, client, request, response, mine))
