"""Carrier: one thread for all actors that never block.

An actor with messages is queued once. The carrier takes the first actor of the queue, lets it handle up to BATCH
messages, and queues it again if there are more. So no actor starves another, an actor is never on two threads at once,
and the messages of one sender stay in order.

A hung actor does not block the others. While the carrier works, the clock checks it every LOOK seconds: if it is in the
same batch at two checks while other actors are queued, a new carrier replaces it and takes over the queue. The replaced
carrier keeps its actor until the handler returns, queues it again for further messages, and ends. The same happens if
the actor is only slow: there is one more thread in that time. So an actor may also wait for the reply of another.

docs/decisions/2026-11-22-carriers.md contains the reasons for a single carrier.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Any

from kcm.runtime.scheduling.clock import Clock

if TYPE_CHECKING:
    from kcm.runtime.system.actor import Actor

    Line = queue.SimpleQueue[Actor | None]  # None ends the carriers

BATCH = 32  # messages that an actor handles before the next one does
LOOK = 0.05  # seconds between two checks of a working carrier


class _Carrier:
    """State of one carrier.

    actor: the actor on it now.
    batches: number of batches begun.
    seen: `batches` at the last check.
    given_up: it has been replaced, and ends after the message that is handled.
    """

    __slots__ = ("actor", "batches", "given_up", "seen")

    def __init__(self) -> None:
        self.actor: Actor | None = None
        self.batches = self.seen = 0
        self.given_up = False


class Carriers:
    """Carrier thread, and replaced carriers that have not ended. The carrier exists while there are actors."""

    def __init__(self, *, clock: Clock) -> None:
        self.threads = 0  # carriers, including replaced ones that have not ended
        self._clock = clock
        self._lock = threading.Lock()
        self._actors = 0  # actors that have not ended
        self._carrier: _Carrier | None = None
        self._line: Line = queue.SimpleQueue()
        self._watched = False  # the alarm is set

    def carry(self, actor: Actor) -> None:
        """Add an actor, whose first batch is its start. Raises RuntimeError if no thread can be started."""
        actor.idle = threading.Lock()
        actor.idle.acquire()
        actor.actor_ref.actor_inbox = _Doorway(actor, self)
        with self._lock:
            if self._carrier is None:
                self._start_carrier()
            self._actors += 1
            self._line.put(actor)

    def has_mail(self, actor: Actor) -> None:
        """Queue an actor after a message was put into its inbox. Thread-safe."""
        if actor.idle is not None and actor.idle.acquire(False):
            self._line.put(actor)

    def _start_carrier(self) -> None:
        carrier = _Carrier()
        threading.Thread(target=self._run, args=(carrier, self._line), name="carrier", daemon=True).start()
        self._carrier = carrier
        self.threads += 1

    def _run(self, carrier: _Carrier, line: Line) -> None:
        self._carry_on(carrier, line)
        with self._lock:
            self.threads -= 1

    def _carry_on(self, carrier: _Carrier, line: Line) -> None:
        while not carrier.given_up:
            actor = line.get()
            if actor is None:
                line.put(None)  # for a carrier that was replaced just before it returned to the queue
                return
            carrier.actor = actor
            carrier.batches += 1
            if not self._watched:
                self._watch()
            if actor.handle_some(BATCH, carrier):
                self._has_ended()
            elif not actor.actor_inbox.empty():
                line.put(actor)
            elif actor.idle is not None:
                actor.idle.release()
                if (
                    not actor.actor_inbox.empty()
                ):  # a message may have arrived meanwhile, whose sender saw the actor as not idle
                    self.has_mail(actor)
            carrier.actor = None

    def _has_ended(self) -> None:
        with self._lock:
            self._actors -= 1
            if self._actors == 0:
                self._line.put(None)
                self._carrier, self._line = None, queue.SimpleQueue()

    # Checks of the carrier, on the clock's thread.

    def _watch(self) -> None:
        self._watched = True
        self._clock.call_at(self, self._clock.monotonic() + LOOK, self._look)

    def _look(self) -> None:
        self._watched = False  # reset first: a batch that begins from now on sets the alarm itself
        with self._lock:
            carrier = self._carrier
            if carrier is None or carrier.actor is None:
                return
            self._watch()
            if carrier.batches == carrier.seen and not self._line.empty():
                self._start_carrier()
                carrier.given_up = True
            carrier.seen = carrier.batches


class _Doorway:
    """Inbox of an actor on the carrier, through which pykka's references reach it."""

    __slots__ = ("_actor", "_carriers")

    def __init__(self, actor: Actor, carriers: Carriers) -> None:
        self._actor, self._carriers = actor, carriers

    def put(self, envelope: Any, /) -> None:
        self._actor.actor_inbox.put(envelope)
        self._carriers.has_mail(self._actor)

    def get(self) -> Any:
        return self._actor.actor_inbox.get()

    def empty(self) -> bool:
        return self._actor.actor_inbox.empty()
