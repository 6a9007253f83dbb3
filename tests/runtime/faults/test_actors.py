"""Faults of started actors, on their own threads."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest

from kcm.protocols.messages.lifecycle import ActorFailed, Pause
from kcm.runtime.faults.actors import FaultyClock, FaultyGate, FaultySpawner
from kcm.runtime.faults.plan_file import FaultPlan
from kcm.runtime.faults.triggers import Strikes
from kcm.runtime.faults.vocabulary import FaultKind, parse_faults
from kcm.runtime.scheduling.clock import SystemClock
from kcm.runtime.simulation.clock import START, VirtualClock
from kcm.runtime.system.actor import Actor, ActorSpec
from kcm.runtime.system.actor_system import ActorSystem

TIMEOUT = 20.0  # seconds


class Receiver(Actor):
    """Records the text of each message that it receives."""

    def __init__(self, context: Any, *, received: list[str], done: threading.Semaphore) -> None:
        super().__init__(context)
        self._received, self._done = received, done

    def receive(self, message: Any) -> None:
        self._received.append(message.error if isinstance(message, ActorFailed) else message.controller)
        self._done.release()


class FaultySystem:
    """Actors on their own threads, with a plan of faults."""

    def __init__(self, faults: str, log: Any) -> None:
        self.clock = SystemClock()
        self.strikes = Strikes(FaultPlan(seed=1, faults=parse_faults(faults)), clock=self.clock)
        spawner = FaultySpawner(self.strikes, clock=self.clock)
        self.system = ActorSystem(clock=self.clock, log=log, spawner=spawner, supervisor="supervisor")
        self.system.gates.append(FaultyGate(self.strikes))
        self.received: dict[str, list[str]] = {}
        self.done = threading.Semaphore(0)

    def spawn(self, name: str) -> None:
        received = self.received[name] = []
        self.system.spawn(ActorSpec(name=name, build=partial(Receiver, received=received, done=self.done)))

    def wait(self, times: int) -> None:
        """Wait until `times` messages have been handled."""
        for _ in range(times):
            assert self.done.acquire(timeout=TIMEOUT)

    def close(self) -> None:
        for name in self.system.names():
            self.system.stop(name, timeout=TIMEOUT)
        self.clock.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_crash_ends_one_actor_and_notifies_its_supervisor(log: Any) -> None:
    faulty = FaultySystem("actor-crashed actor=victim most=1", log)
    for name in ("supervisor", "victim", "other"):
        faulty.spawn(name)
    faulty.system.tell("victim", Pause("x"))
    faulty.wait(1)
    faulty.system.tell("other", Pause("y"))
    faulty.wait(1)
    assert faulty.received == {
        "supervisor": ["InjectedError: crashed by the fault plan"],
        "victim": [],
        "other": ["y"],
    }
    assert faulty.strikes.struck == {FaultKind.ACTOR_CRASHED: 1}
    faulty.close()


def test_a_hung_actor_handles_its_message_later(log: Any) -> None:
    faulty = FaultySystem("actor-hung actor=victim seconds=0.05 most=1", log)
    faulty.spawn("victim")
    began = faulty.clock.monotonic()
    faulty.system.tell("victim", Pause("x"))
    faulty.wait(1)
    assert faulty.clock.monotonic() - began >= 0.05
    assert faulty.received["victim"] == ["x"]
    faulty.close()


def test_delayed_messages_of_one_sender_stay_in_order(log: Any) -> None:
    faulty = FaultySystem("message-delayed actor=victim seconds=0.05 rate=0.5", log)
    faulty.spawn("victim")
    sent = [str(number) for number in range(50)]
    for word in sent:
        faulty.system.tell("victim", Pause(word), sender="somebody")
    faulty.wait(50)
    assert faulty.received["victim"] == sent
    assert faulty.strikes.struck[FaultKind.MESSAGE_DELAYED] > 0
    faulty.close()


def test_the_wall_clock_is_wrong_while_the_fault_lasts() -> None:
    clock = VirtualClock()
    plan = FaultPlan(seed=1, faults=parse_faults("clock-jumped 5..10 seconds=-3600; clock-jumped process=hollow"))
    faulty = FaultyClock(clock, Strikes(plan, clock=clock))
    seen = []
    for _ in range(3):
        seen.append((faulty.monotonic(), faulty.now() - START))
        clock.advance_to(clock.monotonic() + 6)
    assert seen == [(0.0, 0.0), (6.0, 6.0 - 3600), (12.0, 12.0)]
