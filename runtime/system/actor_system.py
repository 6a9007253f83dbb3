"""Actor system: names, and the current incarnation of each name.

Several systems may run in one process; there is no global state. A Spawner starts the actors: in production on threads,
in the simulator's world as objects whose mailboxes the world empties itself.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pykka

from kcm.protocols.codec import Decoder, decode, encode
from kcm.protocols.messages.lifecycle import ActorFailed
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.system.actor import Actor, ActorSpec, Beginning, Context, Ending, Gate, Journal
from kcm.runtime.system.carriers import Carriers

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from kcm.runtime.system.mailbox_waits import MailboxWaits


class ActorFacts(NamedTuple):
    """State of an actor, as any thread sees it.

    mailbox: number of messages that wait.
    turns: as of Actor: odd while it starts or handles a message.
    hung_threads: threads of earlier incarnations that have not returned.
    has_thread: it has a thread of its own, instead of the carrier's.
    """

    name: str
    incarnation: int
    mailbox: int
    turns: int
    hung_threads: int
    has_thread: bool


Tap = Callable[[str, str, bytes], None]  # (sender, receiver, frame), before delivery
Mishap = Callable[[str, str, str, BaseException], None]  # (actor, activity, key or "", exception)


class Spawner(Protocol):
    """Interface for starting and ending actors, and for putting messages into their mailboxes."""

    def start(self, actor: Actor) -> None: ...

    def post(self, actor: Actor, frame: bytes, sender: str) -> None:
        """Put a frame into an actor's mailbox, on the sender's thread.

        Raises pykka.ActorDeadError if the actor is dead.
        """

    def end(self, actor: Actor, timeout: float | None) -> bool:
        """End an actor after the messages that are now in its mailbox.

        timeout: seconds to wait for that; None does not wait.
        Returns False if the actor did not end in time.
        """

    def repeat(self, every: float, what: Callable[[], None]) -> Callable[[], None]:
        """Call `what` every `every` seconds, on a separate thread that neither actors nor the clock use.

        Return a function that ends the repetition. `what` must not raise.
        """

    def is_idle(self, actor: Actor) -> bool:
        """Report whether the actor has no messages. Thread-safe."""

    def stack(self, actor: Actor) -> str:
        """Return the current stack of the actor's thread, formatted like a traceback; "" without a thread."""


class ThreadSpawner:
    """Spawner with one carrier thread for all actors that never block, and a daemon thread for each other actor."""

    def __init__(self, *, clock: Clock) -> None:
        self._carriers = Carriers(clock=clock)

    @property
    def carriers(self) -> int:
        """Return the number of carrier threads: one, plus the replaced carriers that have not ended."""
        return self._carriers.threads

    def start(self, actor: Actor) -> None:
        if actor.context.never_blocks:
            self._carriers.carry(actor)
        else:
            actor.launch()

    def post(self, actor: Actor, frame: bytes, sender: str) -> None:  # noqa: ARG002
        if actor.actor_stopped.is_set():
            raise pykka.ActorDeadError(f"{actor.name} is dead")
        actor.actor_inbox.put(frame)  # type: ignore[arg-type]  # pykka's envelope is only for requests with a reply
        if actor.idle is not None:
            self._carriers.has_mail(actor)

    def end(self, actor: Actor, timeout: float | None) -> bool:
        try:
            actor.actor_ref.stop(block=timeout is not None, timeout=timeout)
        except pykka.Timeout:
            return False
        return True

    def repeat(self, every: float, what: Callable[[], None]) -> Callable[[], None]:
        ended = threading.Event()

        def run() -> None:
            while not ended.wait(every):
                what()

        threading.Thread(target=run, name="watchdog", daemon=True).start()
        return ended.set

    def is_idle(self, actor: Actor) -> bool:
        return actor.turns % 2 == 0 and actor.actor_inbox.empty()

    def stack(self, actor: Actor) -> str:
        frame = sys._current_frames().get(actor.thread) if actor.thread is not None else None
        return "".join(traceback.format_stack(frame)) if frame is not None else ""


class _Resident:
    __slots__ = ("actor", "context", "ref", "stopped")

    def __init__(self, actor: Actor) -> None:
        self.actor, self.context, self.stopped = actor, actor.context, actor.actor_stopped
        self.ref: pykka.ActorRef[Any] = actor.actor_ref


class ActorSystem:
    """Actors by name. All messages between actors pass through it.

    supervisor: name of the actor that receives failures. Its own failure is passed to `orphaned`, which the owner of
        the system sets.
    mishaps: called with errors that end an actor, and with errors of a reconciler that its actor survives.
    undecodable: number of frames that could not be decoded.
    dropped: number of frames without a receiver.
    fenced: number of incarnations that have been fenced.

    waits: time that messages wait in mailboxes, if that is measured.
    measures_work: actors measure how long they handle messages; see `worked`.

    Set gates, mishaps, journal, waits and measures_work before the first actor is spawned.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        log: FilteringBoundLogger,
        spawner: Spawner | None = None,
        supervisor: str = "controller-manager",
    ) -> None:
        self.clock, self.log, self.supervisor = clock, log, supervisor
        self.undecodable = self.dropped = self.fenced = 0
        self.taps: list[Tap] = []
        self.gates: list[Gate] = []
        self.beginnings: list[Beginning] = []
        self.endings: list[Ending] = []
        self.mishaps: list[Mishap] = []
        self.journal: Journal | None = None
        self.waits: MailboxWaits | None = None
        self.measures_work = False
        self.orphaned: Callable[[ActorFailed], None] = lambda _failure: None
        self._sealed = False
        self._spawner = spawner if spawner is not None else ThreadSpawner(clock=clock)
        self.decoder = Decoder()
        self._residents: dict[str, _Resident] = {}
        self._stragglers: dict[str, list[Actor]] = {}
        self._incarnations: dict[str, int] = {}

    def spawn(self, spec: ActorSpec) -> int:
        """Start an actor under its name, fence its earlier incarnation, and return the number of the incarnation.

        Raises RuntimeError once the system is sealed.
        """
        if self._sealed:
            raise RuntimeError(f"{spec.name} is not started: the system is at its end")
        self.fence(spec.name)
        incarnation = self._incarnations.get(spec.name, 0) + 1
        self._incarnations[spec.name] = incarnation
        log = self.log.bind(source=spec.name)
        if incarnation > 1:
            log = log.bind(incarnation=incarnation)
        context = Context(
            name=spec.name,
            incarnation=incarnation,
            system=self,
            clock=self.clock,
            log=log,
            never_blocks=spec.never_blocks,
        )
        actor = spec.build(context)
        self._residents[spec.name] = _Resident(actor)
        try:
            self._spawner.start(actor)
        except BaseException:  # no thread could be started, so the actor is neither alive nor hung
            del self._residents[spec.name]
            raise
        return incarnation

    def seal(self) -> None:
        """Refuse to start further actors, for example by a manager that resumes after it was hung."""
        self._sealed = True

    def repeat(self, every: float, what: Callable[[], None]) -> Callable[[], None]:
        return self._spawner.repeat(every, what)

    def fence(self, name: str) -> None:
        """Fence the current incarnation of a name: deliver nothing to it, and drop the messages that it sends.

        It also receives the request to stop, in case it resumes.
        """
        resident = self._residents.pop(name, None)
        if resident is not None:
            resident.context.fenced = True
            self.fenced += 1
            self.clock.cancel(resident.context)
            if resident.ref.is_alive():
                self._stragglers[name] = [*self.stragglers(name), resident.actor]
                self._spawner.end(resident.actor, None)

    def stack(self, name: str) -> str:
        """Return the current stack of the incarnation's thread, formatted like a traceback; "" without a thread."""
        resident = self._residents.get(name)
        return self._spawner.stack(resident.actor) if resident is not None else ""

    def doing(self, name: str) -> str:
        """Return Actor.doing of the current incarnation."""
        resident = self._residents.get(name)
        return resident.actor.doing() if resident is not None else ""

    def hung_threads(self) -> dict[str, int]:
        """Return the number of stragglers by name."""
        return {name: len(self.stragglers(name)) for name in list(self._stragglers)}

    def stragglers(self, name: str) -> list[Actor]:
        """Return the fenced incarnations of a name whose threads hang, or are about to end."""
        return [actor for actor in self._stragglers.get(name, ()) if not actor.actor_stopped.is_set()]

    def stop(self, name: str, *, timeout: float | None = None) -> bool:
        """End an actor after the messages in its mailbox. timeout: seconds to wait for that; None does not wait.

        Returns False if the actor did not end in time; then it is fenced.
        """
        resident = self._residents.get(name)
        if resident is None or not resident.ref.is_alive():
            self._residents.pop(name, None)
            return True
        ended = self._spawner.end(resident.actor, timeout)
        if not ended:
            resident.context.fenced = True
        self._residents.pop(name, None)
        return ended

    def is_alive(self, name: str) -> bool:
        resident = self._residents.get(name)
        return resident is not None and not resident.stopped.is_set()

    def ended(self, names: Iterable[str]) -> set[str]:
        """Return those of the names that are not alive, in one call for all children of a supervisor."""
        for name, stragglers in list(self._stragglers.items()):
            if stragglers:  # an incarnation that has ended would keep its tables and connections in memory
                self._stragglers[name] = self.stragglers(name)
        residents = self._residents
        ended = set()
        for name in names:
            resident = residents.get(name)
            if resident is None or resident.stopped.is_set():
                ended.add(name)
        return ended

    def busy(self, names: Iterable[str]) -> dict[str, int]:
        """Return the actors that have messages, each with a number that changes with its progress.

        While the number stays the same, the actor is handling the same message, or handles none.
        """
        residents, is_idle = self._residents, self._spawner.is_idle
        busy = {}
        for name in names:
            resident = residents.get(name)
            if resident is not None and not is_idle(resident.actor):
                busy[name] = resident.actor.turns
        return busy

    def worked(self, name: str) -> float:
        """Return the seconds that the current incarnation has handled messages, on its thread or the carrier.

        0 unless the system measures work.
        """
        resident = self._residents.get(name)
        return resident.actor.worked if resident is not None else 0.0

    def active(self) -> dict[int, str]:
        """Return the names of the actors that are starting or handling a message, by the ident of their thread."""
        residents = list(self._residents.items())
        threads = ((name, resident.actor.thread) for name, resident in residents if resident.actor.turns % 2)
        return {thread: name for name, thread in threads if thread is not None}

    def facts(self) -> list[ActorFacts]:
        """Return the state of each living actor. Any thread; sends no message."""
        return [
            ActorFacts(
                name=name,
                incarnation=resident.context.incarnation,
                mailbox=resident.actor.waiting(),
                turns=resident.actor.turns,
                hung_threads=len(self.stragglers(name)),
                has_thread=not resident.context.never_blocks,
            )
            for name, resident in list(self._residents.items())
            if not resident.stopped.is_set()
        ]

    def incarnation(self, name: str) -> int:
        """Return the number of the newest incarnation of this name, alive or not; 0 if there was none."""
        return self._incarnations.get(name, 0)

    def names(self) -> list[str]:
        return list(self._residents)

    def tell(self, to: str, message: Any, *, sender: str = "outside", cause: int | None = None) -> None:
        self.deliver(to, encode(message), sender=sender, cause=cause)

    def handled_now(self) -> int:
        """Return the number of the message that this thread is handling, as `cause` of messages that are sent later."""
        return self.journal.current() if self.journal is not None else 0

    def deliver(self, to: str, frame: bytes, *, sender: str, cause: int | None = None) -> None:
        """Put a frame into a mailbox. Thread-safe. A frame without a receiver is dropped and counted.

        cause: as in Journal.sent.
        """
        for tap in self.taps:
            tap(sender, to, frame)
        resident = self._residents.get(to)
        if self.journal is not None:
            incarnation = resident.context.incarnation if resident is not None else 0
            frame = self.journal.sent(sender, to, incarnation, frame, cause)
        if resident is None:
            self.dropped += 1
            return
        if self.waits is not None:
            frame = self.waits.stamped(frame)
        try:
            self._spawner.post(resident.actor, frame, sender)
        except pykka.ActorDeadError:
            self.dropped += 1

    def ask(self, name: str, message: Any, *, timeout: float) -> Any:
        """Send a message and return the decoded reply. For status pages and tests, not between actors.

        Raises pykka.ActorDeadError if no actor has the name, pykka.Timeout after `timeout` seconds.
        """
        resident = self._residents.get(name)
        if resident is None:
            raise pykka.ActorDeadError(f"no actor is called {name!r}")
        frame = encode(message)
        if self.journal is not None:
            frame = self.journal.sent("outside", name, resident.context.incarnation, frame, 0)
        answer = resident.ref.ask(frame, timeout=timeout)
        return decode(answer) if isinstance(answer, bytes) else answer

    def raised(self, actor: str, what: str, key: str, err: BaseException) -> None:
        """Pass an unexpected exception to the mishaps. Called where it is caught, on the actor's thread."""
        for see in self.mishaps:
            see(actor, what, key, err)

    def failed(self, failure: ActorFailed) -> None:
        """Report a failure to the supervisor. Called by Actor when it ends with an error."""
        resident = self._residents.get(failure.name)
        if resident is not None and resident.context.incarnation != failure.incarnation:
            return  # the incarnation had been replaced already
        if failure.name == self.supervisor:
            self.orphaned(failure)
        else:
            self.tell(self.supervisor, failure, sender=failure.name)
