"""The world: actor systems in one thread, on virtual time.

It builds the very same actors as the threaded system and starts no thread: a pykka actor that was never started is a
plain object with an inbox. A seeded scheduler picks whose mailbox moves next, and when nobody has mail the clock jumps
to the next alarm. The same seed gives the same run.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pykka

from protocols.codec import decode, encode
from protocols.messages.lifecycle import ActorFailed
from runtime.actor import Actor, CrashedError
from runtime.simulation.clock import VirtualClock
from runtime.system import ActorSystem

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


class World:
    """Any number of actor systems on one clock; two managers of one cluster are two systems."""

    def __init__(self, *, log: FilteringBoundLogger, seed: int = 0) -> None:
        self.clock = VirtualClock()
        self.random = random.Random(seed)
        self.log = log
        self.steps = 0
        self._actors: dict[Actor, None] = {}  # those that live
        self._unstarted: set[Actor] = set()
        self._ready: list[Actor] = []  # those that have to start or have mail, each once
        self._is_ready: set[Actor] = set()

    def system(self, *, supervisor: str = "controller-manager") -> ActorSystem:
        """A new actor system whose actors live in this world."""
        return ActorSystem(clock=self.clock, log=self.log, spawner=self, supervisor=supervisor)

    def start(self, actor: Actor) -> None:
        """The spawner's part: its on_start runs when the scheduler comes to it, as on a thread of its own."""
        self._actors[actor] = None
        self._unstarted.add(actor)
        self.delivered(actor)

    def delivered(self, actor: Actor) -> None:
        """The spawner's part: it has mail."""
        if actor not in self._is_ready:
            self._is_ready.add(actor)
            self._ready.append(actor)

    def end(self, actor: Actor, _timeout: float | None) -> bool:
        """The spawner's part: it ends, its mailbox unread."""
        if actor in self._actors:
            started = actor not in self._unstarted
            self._end(actor)
            if started:
                actor.on_stop()
        return True

    def kill(self, system: ActorSystem, name: str, error: str = "killed") -> None:
        """An actor ends as if a handler had raised, its mailbox unread."""
        for actor in list(self._actors):
            if actor.context.system is system and actor.name == name and not actor.actor_stopped.is_set():
                self._end(actor)
                system.failed(ActorFailed(name, actor.context.incarnation, error))

    def step(self) -> bool:
        """Let one actor take one message, or start. Answers False if there is nothing to do before time goes on."""
        if not self._ready:
            return self.clock.sound_due()
        index = self.random.randrange(len(self._ready))
        actor = self._ready[index]
        self.steps += 1
        if actor in self._unstarted:
            self._unstarted.discard(actor)
            self._guard(actor, actor.on_start)
        elif actor in self._actors:
            envelope = actor.actor_inbox.get()
            self._guard(actor, lambda: self._handle(actor, envelope))
        if actor not in self._actors or actor.actor_inbox.empty():
            self._is_ready.discard(actor)
            self._ready[index] = self._ready[-1]
            self._ready.pop()
        return True

    def run_for(self, seconds: float) -> None:
        """Let so much virtual time pass, and everything happen that happens in it."""
        self._run(until=self.clock.monotonic() + seconds, done=lambda: False)

    def run_until(self, done: Callable[[], bool], *, within: float) -> bool:
        """Run until `done`, at most so many virtual seconds. Answers whether it was done."""
        return self._run(until=self.clock.monotonic() + within, done=done)

    def ask(self, system: ActorSystem, name: str, message: Any) -> Any:
        """The decoded answer, given within one virtual minute. Raises TimeoutError otherwise."""
        actor = next((one for one in self._actors if one.context.system is system and one.name == name), None)
        if actor is None:
            raise TimeoutError(f"nobody is called {name}")
        future = actor.actor_ref.ask(encode(message), block=False)
        self.delivered(actor)
        if not self.run_until(lambda: _is_set(future), within=60.0):
            raise TimeoutError(f"{name} did not answer")
        answer = future.get(timeout=0)
        return decode(answer) if isinstance(answer, bytes) else answer

    def _run(self, *, until: float, done: Callable[[], bool]) -> bool:
        while True:
            while self.step():
                if done():
                    return True
            if done():
                return True
            alarm = self.clock.next_alarm()
            if alarm is None or alarm > until:
                self.clock.advance_to(until)
                return done()
            self.clock.advance_to(alarm)

    def _handle(self, actor: Actor, envelope: Any) -> None:
        response = actor._handle_receive(envelope.message)
        if envelope.reply_to is not None:
            envelope.reply_to.set(response)

    def _guard(self, actor: Actor, act: Callable[[], None]) -> None:
        """What pykka's loop does around a handler."""
        try:
            act()
        except CrashedError as err:
            reported = act == actor.on_start  # on_start reports by itself, since pykka does not
            self._end(actor)
            if not reported:
                actor.on_failure(type(err), err, err.__traceback__)
        except Exception as err:
            self._end(actor)
            actor.on_failure(type(err), err, err.__traceback__)

    def _end(self, actor: Actor) -> None:
        actor.actor_stopped.set()
        self.clock.cancel(actor.context)
        self._actors.pop(actor, None)
        self._unstarted.discard(actor)


def _is_set(future: pykka.Future[Any]) -> bool:
    try:
        future.get(timeout=0)
    except pykka.Timeout:
        return False
    return True
