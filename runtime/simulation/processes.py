"""Simulated processes: groups of actors that crash together, and faults of the messages between them."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import pykka

from kcm.protocols.codec import Decoder, decode
from kcm.protocols.messages.commands import Submit
from kcm.protocols.messages.outcomes import Settled
from kcm.runtime.faults.injection import Injector
from kcm.runtime.faults.vocabulary import FaultKind
from kcm.runtime.simulation.clock import ProcessClock, VirtualClock
from kcm.runtime.simulation.side_threads import SideThread
from kcm.runtime.system.actor import Actor

DECODED = 12  # decoded messages to keep
SHARED = frozenset((*Decoder.SENT_TO_MANY, Submit, Settled))  # others have one receiver


class ProcessWorld(Protocol):
    """Interface of World that its processes use. For the methods see World."""

    clock: VirtualClock
    injector: Injector | None
    breaks_senders: bool  # whether the plan contains ACTOR_BROKEN
    delays_messages: bool  # whether the plan contains MESSAGE_DELAYED

    def add(self, actor: Actor, process: SimulatedProcess) -> None: ...

    def put(self, actor: Actor, frame: bytes | object) -> None: ...

    def end(self, actor: Actor, timeout: float | None) -> bool: ...

    def is_idle(self, actor: Actor) -> bool: ...

    def remove(self, process: SimulatedProcess) -> None: ...

    def break_sender(self, process: SimulatedProcess, sender: str, frame: bytes) -> None: ...

    def wait(self, seconds: float) -> None: ...


class SharedDecoder(Decoder):
    """Decoder of one simulated process, which decodes a frame once for all its receivers and observers.

    Unlike threads, the actors of a world take turns after each message, so several frames are on their way to many
    actors at the same time.
    """

    __slots__ = ("_left", "_recent")

    def __init__(self) -> None:
        super().__init__()
        self._recent: dict[int, tuple[bytes, Any]] = {}  # by id of the frame
        self._left = DECODED  # number of messages to keep until all are dropped

    def decode(self, frame: bytes) -> Any:
        latest, message = self._latest
        if frame is latest:
            return message
        number = id(frame)
        known = self._recent.get(number)
        if known is not None and known[0] is frame:
            self._latest = known
            return known[1]
        message = decode(frame)
        if type(message) in SHARED:
            self._left -= 1
            if self._left < 0:
                self._recent, self._left = {}, DECODED
            self._recent[number] = self._latest = frame, message
        return message


class SimulatedProcess:
    """Simulated process: the Spawner of its actors.

    clock: clock of its actors
    http: thread that sends requests and receives responses
    calls: thread that makes calls outside the cluster
    alive: False after `crash`
    """

    def __init__(self, world: ProcessWorld, name: str) -> None:
        self.world, self.name = world, name
        self.clock = ProcessClock(world.clock)
        self.http, self.calls = SideThread(world.clock, self.clock), SideThread(world.clock, self.clock)
        self.alive = True
        self._held: dict[tuple[str, Actor], deque[bytes]] = {}  # delayed frames in order, by (sender, receiver)

    def start(self, actor: Actor) -> None:
        """Start an actor. Its on_start runs when the scheduler selects the actor."""
        if self.alive:
            self.world.add(actor, self)

    def post(self, actor: Actor, frame: bytes, sender: str) -> None:
        """Put an encoded message into the mailbox of an actor, possibly after an injected delay.

        Raises InjectedError if a fault crashes the sender, and pykka.ActorDeadError if the receiver is dead.
        """
        world = self.world
        if world.breaks_senders:
            world.break_sender(self, sender, frame)
        if world.delays_messages and self._is_delayed(actor, frame, sender):
            return
        world.put(actor, frame)

    def end(self, actor: Actor, timeout: float | None) -> bool:
        return self.world.end(actor, timeout)

    def repeat(self, every: float, what: Callable[[], None]) -> Callable[[], None]:
        ended = False

        def again() -> None:
            if ended or not self.alive:
                return
            if self.world.clock.monotonic() >= self.clock.paused_until:
                what()
            self.world.clock.call_after(every, again)

        def end() -> None:
            nonlocal ended
            ended = True

        self.world.clock.call_after(every, again)
        return end

    def is_idle(self, actor: Actor) -> bool:
        return self.world.is_idle(actor)

    def stack(self, actor: Actor) -> str:  # noqa: ARG002 - it has no thread
        return ""

    def crash(self) -> None:
        """End all actors immediately, without calling their on_stop, and drop their alarms and delayed messages."""
        self.alive = False
        self.clock.stop()
        self.http.stop()
        self.calls.stop()
        self._held.clear()
        self.world.remove(self)

    def begins(self, actor: str, queue: str, key: str) -> None:  # noqa: ARG002
        """Block a reconciliation that begins, if the fault RECONCILER_BLOCKED strikes. A hook of ActorSystem."""
        injector = self.world.injector
        if injector is not None and injector.plans(FaultKind.RECONCILER_BLOCKED):
            fault = injector.strike(FaultKind.RECONCILER_BLOCKED, process=self.name, actor=actor, key=key)
            if fault is not None:
                self.world.wait(fault.seconds)

    def _is_delayed(self, actor: Actor, frame: bytes, sender: str) -> bool:
        """Delay a frame if the fault MESSAGE_DELAYED strikes, or if an earlier one of this sender is delayed."""
        held = self._held.get((sender, actor))
        if held is not None:
            held.append(frame)
            return True
        injector = self.world.injector
        if injector is None:
            return False
        fault = injector.strike(FaultKind.MESSAGE_DELAYED, process=self.name, actor=actor.name, at=frame)
        if fault is None:
            return False
        self._hold(actor, frame, sender, fault.seconds * injector.share(fault))
        return True

    def _hold(self, actor: Actor, frame: bytes, sender: str, seconds: float) -> None:
        self._held[sender, actor] = deque([frame])

        def release() -> None:
            for frame in self._held.pop((sender, actor), ()):
                with contextlib.suppress(pykka.ActorDeadError):
                    self.world.put(actor, frame)

        self.world.clock.call_after(seconds, release)
