"""Faults of actors on their threads (crashes, hangs, late messages) and of the clock."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable

from kcm.runtime.faults.triggers import PROCESS, Strikes
from kcm.runtime.faults.vocabulary import FaultKind, InjectedError
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.system.actor import Actor
from kcm.runtime.system.actor_system import ThreadSpawner


class FaultyGate:
    """Gate of ActorSystem that makes the actor crash or hang before it handles a message."""

    def __init__(self, strikes: Strikes) -> None:
        self._strikes = strikes

    def __call__(self, actor: str) -> None:
        if self._strikes.strike(FaultKind.ACTOR_CRASHED, actor=actor) is not None:
            raise InjectedError("crashed by the fault plan")
        hung = self._strikes.strike(FaultKind.ACTOR_HUNG, actor=actor)
        if hung is not None:
            threading.Event().wait(hung.seconds or None)


class FaultyBeginning:
    """Beginning of ActorSystem that blocks a reconciliation before it begins, and with it its actor."""

    def __init__(self, strikes: Strikes) -> None:
        self._strikes = strikes

    def __call__(self, actor: str, queue: str, key: str) -> None:  # noqa: ARG002
        blocked = self._strikes.strike(FaultKind.RECONCILER_BLOCKED, actor=actor, key=key)
        if blocked is not None:
            threading.Event().wait(blocked.seconds or None)


class FaultySpawner(ThreadSpawner):
    """Spawner that delivers some messages late. Messages from one sender to one receiver stay in order."""

    def __init__(self, strikes: Strikes, *, clock: Clock) -> None:
        super().__init__(clock=clock)
        self._strikes, self._clock = strikes, clock
        self._lock = threading.Lock()
        self._held: dict[tuple[str, Actor], deque[bytes]] = {}

    def post(self, actor: Actor, frame: bytes, sender: str) -> None:
        if not self._strikes.plans(FaultKind.MESSAGE_DELAYED):
            super().post(actor, frame, sender)
            return
        way = (sender, actor)
        with self._lock:
            held = self._held.get(way)
            if held is not None:
                held.append(frame)
                return
            fault = self._strikes.strike(FaultKind.MESSAGE_DELAYED, actor=actor.name)
            if fault is None:
                super().post(actor, frame, sender)
                return
            self._held[way] = deque([frame])
            when = self._clock.monotonic() + fault.seconds * self._strikes.share(fault)
        self._clock.call_at(way, when, lambda: self._release(way))

    def _release(self, way: tuple[str, Actor]) -> None:
        sender, actor = way
        with self._lock:
            for frame in self._held.pop(way):
                if not actor.actor_stopped.is_set():
                    super().post(actor, frame, sender)


class FaultyClock:
    """Clock whose wall time is shifted while a clock-jumped fault lasts."""

    def __init__(self, clock: Clock, strikes: Strikes) -> None:
        self._clock, self._strikes = clock, strikes
        jumps = (fault for fault in strikes.faults if fault.kind is FaultKind.CLOCK_JUMPED)
        self._jumps = [fault for fault in jumps if fault.concerns(process=PROCESS)]

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def now(self) -> float:
        elapsed = self._strikes.monotonic()
        return self._clock.now() + sum(fault.seconds for fault in self._jumps if fault.is_on(elapsed))

    def call_at(self, who: Hashable, when: float, what: Callable[[], None]) -> None:
        self._clock.call_at(who, when, what)

    def cancel(self, who: Hashable) -> None:
        self._clock.cancel(who)
