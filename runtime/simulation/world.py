"""World: deterministic execution of actor systems in one thread, on virtual time.

The actors are those of the threaded system, but without threads: a pykka actor that was never started is a plain object
with a mailbox. In each step, a seeded scheduler selects an actor, which handles one message. When all mailboxes are
empty, the clock jumps to the next alarm. The same seed gives the same run. Faults are injected at these steps; see
runtime/faults.
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pykka

from kcm.protocols.codec import decode, encode
from kcm.protocols.messages.lifecycle import ActorFailed
from kcm.runtime.faults.injection import Injector
from kcm.runtime.faults.vocabulary import FaultKind, InjectedError
from kcm.runtime.simulation.clock import VirtualClock
from kcm.runtime.simulation.guard import guard
from kcm.runtime.simulation.lanes import Abandoned, Lane, Lanes
from kcm.runtime.simulation.processes import SimulatedProcess
from kcm.runtime.simulation.trace import Trace
from kcm.runtime.system.actor import Actor, CrashedError
from kcm.runtime.system.actor_system import ActorSystem

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

MOST_STEPS_AT_ONCE = 200_000  # steps without an advance of virtual time; more indicate an endless loop
AT_MESSAGES = (FaultKind.ACTOR_CRASHED, FaultKind.ACTOR_VANISHED, FaultKind.ACTOR_HUNG)
WORK = 0.0001  # seconds of work for which a message counts, although no virtual time passes
STOP = object()  # item of a mailbox that ends the actor; messages behind it are not handled


class HotLoopError(AssertionError):
    """Actors exchange messages without end while virtual time does not advance."""


class World:
    """Simulated processes on one virtual clock. Two managers of a cluster are two processes."""

    def __init__(self, *, log: FilteringBoundLogger, seed: int = 0) -> None:
        guard.install()
        self.clock = VirtualClock()
        self.random = random.Random(seed)
        self.log = log
        self.steps = 0
        self.injector = None
        self.trace: Trace | None = None
        self.current: Actor | None = None  # actor whose handler runs
        self._outside = SimulatedProcess(self, "outside")
        self._actors: dict[Actor, SimulatedProcess] = {}  # living actors
        self._unstarted: set[Actor] = set()
        self._hung: dict[Actor, float] = {}  # end of each hang, in virtual seconds
        self._lanes = Lanes()
        self._thread = threading.get_ident()  # id of the thread that runs handlers without a lane
        self._waiting: dict[Actor, Lane] = {}  # actors whose handler is in wait()
        self.handlers_may_wait = False  # whether handlers may call wait(); this costs two thread switches per message
        self._ready: list[Actor] = []  # actors with pending work, each once
        self._is_ready: set[Actor] = set()

    @property
    def injector(self) -> Injector | None:
        return self._injector

    @injector.setter
    def injector(self, injector: Injector | None) -> None:
        self._injector = injector
        # Each message is an opportunity for these faults, but most plans have none, and a fault is on for a short time.
        plans = injector.plans if injector is not None else lambda _kind: False
        self._next_strike = 0.0 if any(map(plans, AT_MESSAGES)) else math.inf  # no fault AT_MESSAGES strikes before
        self._blocks_reconcilers = plans(FaultKind.RECONCILER_BLOCKED)
        self.breaks_senders, self.delays_messages = plans(FaultKind.ACTOR_BROKEN), plans(FaultKind.MESSAGE_DELAYED)

    def process(self, name: str) -> SimulatedProcess:
        """Create a process that spawns the actors of one system."""
        return SimulatedProcess(self, name)

    def system(self, *, supervisor: str = "controller-manager") -> ActorSystem:
        """Create an actor system whose actors run in this world."""
        process = self.process("system")
        return ActorSystem(clock=process.clock, log=self.log, spawner=process, supervisor=supervisor)

    # World implements Spawner too, for systems without a process of their own.

    def start(self, actor: Actor) -> None:
        self._outside.start(actor)

    def post(self, actor: Actor, frame: bytes, sender: str) -> None:
        self._outside.post(actor, frame, sender)

    def repeat(self, every: float, what: Callable[[], None]) -> Callable[[], None]:
        return self._outside.repeat(every, what)

    def is_idle(self, actor: Actor) -> bool:
        """Report whether an actor has an empty mailbox, has started, and does not hang."""
        return actor.actor_inbox.empty() and actor not in self._hung and actor not in self._unstarted

    def stack(self, actor: Actor) -> str:
        return self._outside.stack(actor)

    def end(self, actor: Actor, timeout: float | None) -> bool:
        """Stop an actor after the messages in its mailbox. Return whether it has ended, or True without a timeout.

        timeout: None to return at once; otherwise the actor handles its messages within this call, while no other actor
          runs and virtual time does not advance, so that a hanging actor does not end
        """
        if actor not in self._actors:
            return True
        self.put(actor, STOP)
        if timeout is not None:
            self._finish(actor)
        return timeout is None or actor not in self._actors

    # Methods for processes.

    def add(self, actor: Actor, process: SimulatedProcess) -> None:
        self._actors[actor] = process
        self._unstarted.add(actor)
        self.schedule(actor)

    def put(self, actor: Actor, frame: bytes | object) -> None:
        """Put an item into an actor's mailbox: an encoded message, or STOP to end the actor.

        Raises pykka.ActorDeadError if the actor is dead.
        """
        if actor not in self._actors:
            raise pykka.ActorDeadError(f"{actor.name} is dead")
        actor.actor_inbox.put(frame)  # type: ignore[arg-type]
        if actor not in self._is_ready and actor not in self._hung:  # as schedule(): one call less for each message
            self._is_ready.add(actor)
            self._ready.append(actor)

    def schedule(self, actor: Actor) -> None:
        """Schedule an actor, because its mailbox is not empty. Does nothing if it hangs."""
        if actor not in self._is_ready and actor not in self._hung:
            self._is_ready.add(actor)
            self._ready.append(actor)

    def remove(self, process: SimulatedProcess) -> None:
        for actor in [actor for actor, owner in self._actors.items() if owner is process]:
            self._end(actor)

    def break_sender(self, process: SimulatedProcess, sender: str, frame: bytes) -> None:
        """Raise InjectedError if the fault ACTOR_BROKEN strikes the actor that is sending a message."""
        actor, injector = self.current, self.injector
        if actor is None or injector is None or actor.name != sender:
            return
        fault = injector.strike(FaultKind.ACTOR_BROKEN, process=process.name, actor=sender, at=frame)
        if fault is not None:
            raise InjectedError(str(fault))

    def strike_idle(self) -> None:
        """Give the faults of the plan an opportunity to strike each idle actor. Called periodically."""
        for actor, process in list(self._actors.items()):
            if self.clock.elapsed < self._next_strike:
                return
            if actor in self._actors and self.is_idle(actor):
                self._strike(actor, process)

    def kill(self, system: ActorSystem, name: str, error: str = "killed") -> None:
        """End an actor as if its handler had raised an exception. The messages in its mailbox are not handled."""
        for actor in list(self._actors):
            if actor.context.system is system and actor.name == name and not actor.actor_stopped.is_set():
                self._end(actor)
                system.failed(ActorFailed(name, actor.context.incarnation, error))

    def hang(self, system: ActorSystem, name: str, seconds: float = 0.0) -> None:
        """Make an actor hang: it handles no messages for a number of virtual seconds; 0 means forever."""
        for actor in list(self._actors):
            if actor.context.system is system and actor.name == name:
                self._hang(actor, seconds)

    def wait(self, seconds: float) -> None:
        """Block the current handler for a number of virtual seconds, as a call that waits would; 0 means forever.

        The actor handles no other message meanwhile; all other actors continue. Raises RuntimeError outside of a
        handler, and if the world has no lanes (see handlers_may_wait).
        """
        actor, lane = self.current, self._lanes.current
        if actor is None or lane is None:
            raise RuntimeError("only a handler may wait, and only if the world's handlers_may_wait is True")
        self._hung[actor] = self._time_after(seconds)
        self._waiting[actor] = lane
        if seconds > 0:
            self.clock.call_after(seconds, lambda: self._resume(actor, lane))
        lane.wait()
        self.current, guard.thread = actor, threading.get_ident()

    def close(self) -> None:
        """End all threads of handlers, and the actors whose handlers wait. Called at the end of a run."""
        for actor in list(self._waiting):
            self._end(actor)
        self._lanes.close()

    def pause(self, process: SimulatedProcess, seconds: float) -> None:
        """Pause a process, with its actors, threads and alarms, for a number of virtual seconds; 0 means forever.

        Its clock advances meanwhile.
        """
        until = self.clock.monotonic() + (seconds or math.inf)
        process.clock.paused_until = until
        process.http.hold(until)
        process.calls.hold(until)
        for actor in [actor for actor, owner in self._actors.items() if owner is process]:
            self._hang(actor, seconds)

    # Time and steps.

    def step(self) -> bool:
        """Run one step: an actor starts or handles one message, or, if all mailboxes are empty, an alarm that is due.

        Returns False if nothing is left to do at the current virtual time.
        """
        if not self._ready:
            return self.clock.run_due()
        ready = self._ready
        index = int(self.random.random() * len(ready))
        actor = ready[index]
        ready[index] = ready[-1]
        ready.pop()
        self._is_ready.discard(actor)
        self.steps += 1
        process = self._actors.get(actor)
        if process is None or (self.clock.elapsed >= self._next_strike and self._strike(actor, process)):
            return True
        self._run_actor(actor, process)
        if not actor.actor_inbox.empty() and actor in self._actors:
            self.schedule(actor)
        return True

    def run_for(self, seconds: float) -> None:
        """Run for a number of virtual seconds."""
        self._run(until=self.clock.monotonic() + seconds, done=None)

    def run_until(self, done: Callable[[], bool], *, within: float) -> bool:
        """Run until `done` returns True, for at most `within` virtual seconds. Return whether `done` returned True."""
        return self._run(until=self.clock.monotonic() + within, done=done)

    def actor(self, system: ActorSystem, name: str) -> Actor | None:
        """Return the living actor of a system by its name; None if there is none."""
        return next((actor for actor in self._actors if actor.context.system is system and actor.name == name), None)

    def ask(self, system: ActorSystem, name: str, message: Any) -> Any:
        """Send a message to an actor, and run until it responds. Return the decoded result.

        Raises TimeoutError after one virtual minute, or if there is no such actor.
        """
        actor = self.actor(system, name)
        if actor is None:
            raise TimeoutError(f"there is no actor {name}")
        future = actor.actor_ref.ask(encode(message), block=False)
        self.schedule(actor)
        if not self.run_until(lambda: _is_set(future), within=60.0):
            raise TimeoutError(f"{name} did not respond")
        answer = future.get(timeout=0)
        return decode(answer) if isinstance(answer, bytes) else answer

    def _run(self, *, until: float, done: Callable[[], bool] | None) -> bool:
        self._thread = threading.get_ident()
        while True:
            steps = 0
            while self.step():
                steps += 1
                if steps > MOST_STEPS_AT_ONCE:
                    raise HotLoopError(
                        f"{steps} steps at {self.clock.monotonic():.3f} s without advance of virtual time"
                    )
                if done is not None and done():
                    return True
            if done is not None and done():
                return True
            alarm = self.clock.next_alarm()
            if alarm is None or alarm > until:
                self.clock.advance_to(until)
                return done is not None and done()
            self.clock.advance_to(alarm)

    # Implementation of a step.

    def _run_actor(self, actor: Actor, process: SimulatedProcess) -> None:
        """Start an actor, or have it handle the next message in its mailbox, as pykka's loop does."""
        item: Any = None
        if actor in self._unstarted:
            self._unstarted.discard(actor)
        elif actor.actor_inbox.empty():
            return
        else:
            item = actor.actor_inbox.get()
            if item is STOP:
                self._end(actor)
                actor.on_stop()
                return
            if self.trace is not None:
                frame = item if isinstance(item, bytes) else item.message
                self.trace.handled(self.clock.monotonic(), process.name, actor.name, frame)
        if self.handlers_may_wait or self._blocks_reconcilers:
            self._lanes.run(lambda: self._handle(actor, item, threading.get_ident()))
        else:
            self._handle(actor, item, self._thread)

    def _finish(self, actor: Actor) -> None:
        """Have an actor handle its messages until it ends or hangs. Does nothing if its own handler calls this."""
        running = self.current, guard.thread
        self.current, guard.thread = None, 0  # the actor handles messages now, not the caller
        while actor in self._actors and actor not in self._hung and actor is not running[0]:
            self._run_actor(actor, self._actors[actor])
        self.current, guard.thread = running

    def _strike(self, actor: Actor, process: SimulatedProcess) -> bool:
        """Crash, end or hang an actor if a fault strikes before it handles its next message. Return whether one did."""
        injector = self.injector
        if injector is None or actor in self._unstarted:
            return False
        self._next_strike = injector.next_on(AT_MESSAGES)
        if self.clock.elapsed < self._next_strike:
            return False
        where: dict[str, Any] = {"process": process.name, "actor": actor.name, "at": actor}
        if injector.strike(FaultKind.ACTOR_CRASHED, **where) is not None:
            error = InjectedError("crashed")
            self._end(actor)
            actor.on_failure(InjectedError, error, None)
        elif injector.strike(FaultKind.ACTOR_VANISHED, **where) is not None:
            self._end(actor)
        elif (fault := injector.strike(FaultKind.ACTOR_HUNG, **where)) is not None:
            self._hang(actor, fault.seconds)
        else:
            return False
        self._note(process, actor, "crashed, vanished or hung by the plan")
        return True

    def _note(self, process: SimulatedProcess, actor: Actor, text: str) -> None:
        if self.trace is not None:
            self.trace.note(self.clock.monotonic(), process.name, actor.name, text)

    def _hang(self, actor: Actor, seconds: float) -> None:
        # A hang continues after a shorter pause of the process has ended.
        self._hung[actor] = until = max(self._time_after(seconds), self._hung.get(actor, 0.0))
        if actor in self._is_ready:
            self._is_ready.discard(actor)
            self._ready.remove(actor)
        if until < math.inf:
            self.clock.call_once(until, lambda: self._wake(actor))

    def _time_after(self, seconds: float) -> float:
        return self.clock.monotonic() + seconds if seconds > 0 else math.inf

    def _resume(self, actor: Actor, lane: Lane) -> None:
        if self._waiting.get(actor) is not lane:
            return
        del self._waiting[actor]
        self._lanes.resume(lane)
        if actor not in self._waiting:
            self._wake(actor)

    def _wake(self, actor: Actor) -> None:
        if self._hung.get(actor, 0.0) > self.clock.monotonic():
            return
        self._hung.pop(actor, None)
        if actor in self._actors:
            self.schedule(actor)

    def _handle(self, actor: Actor, item: Any, thread: int) -> None:
        """Have an actor handle an item of its mailbox, or start it if the item is None.

        thread: id of the current thread, on which blocking calls raise
        """
        self.current = actor
        guard.thread = thread
        try:
            if item is None:
                actor.on_start()
            elif isinstance(item, bytes):  # also a numbered frame of a journal
                actor.worked += WORK
                actor.on_receive(item)
            else:
                item.reply_to.set(actor.on_receive(item.message))
        except CrashedError as err:
            if isinstance(err.__cause__, Abandoned):
                return
            self.current = None
            self._end(actor)
            if item is not None:  # the actor itself reports a failure of on_start
                actor.on_failure(type(err), err, err.__traceback__)
        except Exception as err:
            self.current = None
            self._end(actor)
            actor.on_failure(type(err), err, err.__traceback__)
        finally:
            self.current = None
            guard.thread = 0

    def _end(self, actor: Actor) -> None:
        actor.actor_stopped.set()
        self.clock.cancel(actor.context)
        self._actors.pop(actor, None)
        self._unstarted.discard(actor)
        self._hung.pop(actor, None)
        lane = self._waiting.pop(actor, None)
        if lane is not None:
            running = self.current, guard.thread  # of the handler that ends this actor, if there is one
            lane.abandon()
            self.current, guard.thread = running


def next_frame(actor: Actor) -> bytes | None:
    """Return the encoded message that an actor would handle next; None if its mailbox is empty."""
    inbox: Any = actor.actor_inbox
    waiting = [inbox.get() for _ in range(inbox.qsize())]  # the queue has no method to peek
    for item in waiting:
        inbox.put(item)
    first = waiting[0] if waiting else None
    return first if first is None or isinstance(first, bytes) else getattr(first, "message", None)


def _is_set(future: pykka.Future[Any]) -> bool:
    try:
        future.get(timeout=0)
    except pykka.Timeout:
        return False
    return True
