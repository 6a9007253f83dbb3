"""Base class of all actors, on pykka.

An actor's name outlives its incarnations: a message that is sent to a name reaches the current incarnation. A mailbox
contains only msgpack frames. An exception in a handler ends the incarnation; the supervisor receives ActorFailed, and
the other actors continue.
"""

from __future__ import annotations

import queue
import threading
import traceback
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import pykka
from msgspec import Struct

from kcm.protocols.codec import DecodeError, Decoder, encode
from kcm.protocols.messages.lifecycle import ActorFailed, Ping, Pong, Wake

if TYPE_CHECKING:
    from pykka._actor import ActorInbox
    from structlog.typing import FilteringBoundLogger

    from kcm.runtime.scheduling.clock import Clock
    from kcm.runtime.system.mailbox_waits import MailboxWaits

WAKE_FRAME = encode(Wake())


Beginning = Callable[[str, str, str], None]  # (controller's actor, queue, key), on its thread before it reconciles
Ending = Callable[[str, str, str, object], None]  # (controller's actor, queue, key, what it returned or raised)
Gate = Callable[[str], None]  # (receiver), on its thread before it handles a message; what it raises ends the actor


class Journal(Protocol):
    """Interface for recording messages, each with the message that was being handled when it was sent. Thread-safe."""

    def sent(self, sender: str, to: str, incarnation: int, frame: bytes, cause: int | None) -> bytes:
        """Record a message. Return the frame for the mailbox, by which handling() recognizes the message.

        cause: number of the message that caused this one; None for the message that this thread is handling.
        """

    def handling(self, frame: bytes, *, last: bool) -> AbstractContextManager[None]:
        """Return a context in which messages that are sent are caused by this frame. last: the mailbox is empty."""

    def current(self) -> int:
        """Return the number of the message that this thread is handling; 0 without one."""


class Carrier(Protocol):
    """Thread that an actor shares with others."""

    @property
    def given_up(self) -> bool:
        """Report whether another carrier has replaced it, so that the actor must handle no further message on it."""


class Context:
    """Context of an actor, passed to its constructor: its name and incarnation, system, clock and log.

    fenced: set by the system once this incarnation has been replaced; messages that it sends are dropped.
    never_blocks: as in ActorSpec.
    """

    __slots__ = ("clock", "fenced", "incarnation", "log", "name", "never_blocks", "system")

    def __init__(
        self,
        *,
        name: str,
        incarnation: int,
        system: System,
        clock: Clock,
        log: FilteringBoundLogger,
        never_blocks: bool = False,
    ) -> None:
        self.name, self.incarnation = name, incarnation
        self.system, self.clock, self.log = system, clock, log
        self.fenced, self.never_blocks = False, never_blocks


class System(Protocol):
    """Interface of the actor system for its actors. ActorSystem implements it.

    supervisor: name of the actor that receives failures.
    undecodable: number of frames that could not be decoded.
    measures_work: actors measure how long they handle messages.
    """

    supervisor: str
    undecodable: int
    measures_work: bool
    decoder: Decoder
    gates: list[Gate]
    beginnings: list[Beginning]
    endings: list[Ending]
    journal: Journal | None
    waits: MailboxWaits | None

    def deliver(self, to: str, frame: bytes, *, sender: str, cause: int | None = None) -> None: ...

    def tell(self, to: str, message: Any, *, sender: str = "outside", cause: int | None = None) -> None: ...

    def handled_now(self) -> int: ...

    def raised(self, actor: str, what: str, key: str, err: BaseException) -> None: ...

    def failed(self, failure: ActorFailed) -> None: ...

    def is_alive(self, name: str) -> bool: ...

    def incarnation(self, name: str) -> int: ...

    def stragglers(self, name: str) -> list[Actor]: ...

    def worked(self, name: str) -> float: ...

    # For the supervisor.

    def spawn(self, spec: ActorSpec) -> int: ...

    def fence(self, name: str) -> None: ...

    def ended(self, names: Iterable[str]) -> set[str]: ...

    def busy(self, names: Iterable[str]) -> dict[str, int]: ...

    def stack(self, name: str) -> str: ...

    def doing(self, name: str) -> str: ...


class CrashedError(Exception):
    """Replaces a BaseException (SystemExit, KeyboardInterrupt) that a handler raises.

    With the original exception pykka would stop every actor of the process, including those of the embedding program.
    """


class Actor(pykka.ThreadingActor):
    """Base class of actors. Subclasses implement `receive`, and `started` and `stopped` if necessary.

    The constructor runs on the spawner's thread and only stores its arguments. Connections and subscriptions belong in
    `started`, which runs where messages are handled: on the actor's own thread, or on the carrier.
    """

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self.name = context.name
        self.clock = context.clock
        self.log = context.log
        self.is_last = True  # whether the mailbox was empty when the handler of the current message began
        self.thread: int | None = None  # ident of the thread that the actor is on
        self.idle: threading.Lock | None = None  # on the carrier: locked while the actor is queued or runs
        self.turns = 1  # odd while the actor starts or handles a message; incremented at each start and end
        self.worked = 0.0  # seconds that this incarnation has handled messages, if the system measures that
        self._has_started = False  # whether `started` was called
        self._wake_asked: float | None = None

    def receive(self, message: Any) -> Any:
        """Handle a decoded message. Raises TypeError for a message that this actor does not handle."""
        raise TypeError(f"{self.name} cannot handle {message!r}")

    def pinged(self) -> None:
        """Called after a Ping or a dropped frame, for which `receive` is not called."""

    def doing(self) -> str:
        """Return a short description of the current activity, or "". Thread-safe, even while this actor hangs."""
        return ""

    def waiting(self) -> int:
        """Return the number of messages in the mailbox. Thread-safe."""
        return self.actor_inbox.qsize()  # type: ignore[attr-defined,no-any-return]  # it is a SimpleQueue

    def started(self) -> None:
        """Called before the first message, unless this incarnation has already been replaced."""

    def stopped(self) -> None:
        """Called after the last message, even if the actor failed. Release the actor's resources here.

        Not called if `started` was not called.
        """

    def tell(self, to: str, message: Any) -> None:
        """Send a message to the current incarnation of this name.

        Without a living incarnation it is dropped without an error.
        """
        self.tell_frame(to, encode(message))

    def tell_frame(self, to: str, frame: bytes) -> None:
        """Send an encoded message, so that a fan-out encodes it once."""
        if not self.context.fenced:
            self.context.system.deliver(to, frame, sender=self.name)

    def wake_at(self, when: float) -> None:
        """Request a Wake once the clock's monotonic() has reached `when`; replaces an earlier request."""
        if when != self._wake_asked:
            self._wake_asked = when
            self.clock.call_at(self.context, when, self._wake)

    def _wake(self) -> None:
        # On the clock's thread. This Wake also serves a concurrent wake_at for the same time.
        self._wake_asked = None
        if not self.context.fenced:
            self.context.system.deliver(self.name, WAKE_FRAME, sender="clock")

    # Integration with pykka.

    def launch(self) -> None:
        """Start a thread for this actor.

        Pykka's start() builds and launches an actor at once. Here it is registered under its name between these steps,
        so that it receives replies to its first messages. It is not in pykka's registry, which belongs to the whole
        process: a program that stops or addresses all pykka actors means only its own.
        """
        threading.Thread(target=self._actor_loop, name=self.name, daemon=True).start()

    def handle_some(self, most: int, carrier: Carrier) -> bool:
        """Start, or handle up to `most` messages, on a carrier. Return True if the actor has ended."""
        self.thread, measures = threading.get_ident(), self.context.system.measures_work
        began = self.clock.monotonic() if measures else 0.0
        if self.turns == 1:
            self._actor_loop_setup()
        inbox, ended = self.actor_inbox, self.actor_stopped.is_set
        while most > 0 and not ended() and not carrier.given_up and not inbox.empty():
            self._take(inbox.get())
            most -= 1
        if ended():
            self._actor_loop_teardown()
        self.thread = None
        if measures:
            self.worked += self.clock.monotonic() - began
        return ended()

    def _actor_loop_running(self) -> None:
        inbox, ended, system = self.actor_inbox, self.actor_stopped.is_set, self.context.system
        while not ended():
            item = inbox.get()
            if not system.measures_work:
                self._take(item)
                continue
            began = self.clock.monotonic()
            self._take(item)
            self.worked += self.clock.monotonic() - began

    def _take(self, item: Any) -> None:
        # A frame, or pykka's envelope for a request with a reply and for the end.
        reply_to = None
        try:
            if isinstance(item, bytes):  # including the NumberedFrame of a journal
                self.on_receive(item)
                return
            reply_to = item.reply_to
            reply = self._handle_receive(item.message)
            if reply_to is not None:
                reply_to.set(reply)
        except BaseException as err:
            if reply_to is not None:
                self.turns += self.turns % 2  # even: the actor is idle again
                reply_to.set_exception()
                return
            self._handle_failure(type(err), err, err.__traceback__)
            try:
                self.on_failure(type(err), err, err.__traceback__)
            except BaseException as another:
                self._handle_failure(type(another), another, another.__traceback__)

    def _actor_loop_teardown(self) -> None:
        """Drop the remaining frames. Pykka's remaining requests receive the reply that pykka sends in this case."""
        inbox = self.actor_inbox
        left: list[Any] = []
        while not inbox.empty():
            left.append(inbox.get())
        for item in left:
            if not isinstance(item, bytes):
                inbox.put(item)
        super()._actor_loop_teardown()

    @staticmethod
    def _create_actor_inbox() -> ActorInbox:
        return queue.SimpleQueue()  # in C; pykka's default is the slower queue.Queue

    def on_receive(self, frame: Any) -> Any:
        if self.context.fenced:
            return None  # a hung incarnation has resumed; its successor handles the messages
        self.turns += 1
        self.is_last = self.actor_inbox.empty()
        system = self.context.system
        if system.waits is not None:
            system.waits.received(self.name, frame)
        for gate in system.gates:
            gate(self.name)
        if system.journal is None:
            answer = self._handle(frame)
        else:
            with system.journal.handling(frame, last=self.is_last):
                answer = self._handle(frame)
        self.turns += 1
        return answer

    def _handle(self, frame: Any) -> Any:
        try:
            message = self.context.system.decoder.decode(frame)
        except DecodeError as err:
            self.log.error("frame dropped", error=str(err), size=len(frame))
            self.context.system.undecodable += 1
            self.pinged()
            return None
        try:
            if type(message) is Ping:
                self.tell(self.context.system.supervisor, Pong(self.name, self.context.incarnation, message.nonce))
                self.pinged()
                return None
            return self.receive(message)
        except Exception:
            raise
        except BaseException as err:
            raise CrashedError(f"{type(err).__name__}: {err}") from err

    def on_start(self) -> None:
        self.thread = threading.get_ident()
        if self.context.fenced:
            # This incarnation was replaced before it started. It must not take resources from its successor, such as
            # the table of an informer. The request to stop is in its mailbox.
            self.turns += 1
            return
        self._has_started = True
        try:
            self.started()
        except BaseException as err:
            self._report(err)
            raise CrashedError(f"{type(err).__name__}: {err}") from err
        self.turns += 1

    def on_stop(self) -> None:
        self.clock.cancel(self.context)
        if self._has_started:
            self.stopped()

    def on_failure(
        self,
        _exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.clock.cancel(self.context)
        if exception_value is not None:
            self._report(exception_value)
        if self._has_started:
            self.stopped()

    def _report(self, err: BaseException) -> None:
        self.context.system.raised(self.name, "the actor", "", err)
        text = "".join(traceback.format_exception(err))
        failure = ActorFailed(self.name, self.context.incarnation, f"{type(err).__name__}: {err}", text)
        self.context.system.failed(failure)


class ActorSpec(Struct, frozen=True, kw_only=True):
    """Declaration of an actor, from which each incarnation is built.

    build: makes an incarnation, not yet started.
    never_blocks: the actor never waits (for the network, locks, other actors), so it needs no thread of its own and
        runs on the carrier.
    """

    name: str
    build: Callable[[Context], Actor]
    never_blocks: bool = False
