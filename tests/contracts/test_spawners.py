"""Contract of `Spawner`: a thread for each actor, actors on one carrier, and processes of the simulator."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pykka
import pytest
from structlog.typing import FilteringBoundLogger

from kcm.protocols.messages.lifecycle import ActorFailed, Describe, Pause
from kcm.runtime.faults.actors import FaultySpawner
from kcm.runtime.faults.plan_file import FaultPlan
from kcm.runtime.faults.triggers import Strikes
from kcm.runtime.faults.vocabulary import parse_faults
from kcm.runtime.scheduling.clock import SystemClock
from kcm.runtime.simulation.world import World
from kcm.runtime.system.actor import Actor, ActorSpec, Context
from kcm.runtime.system.actor_system import ActorSystem, Spawner, ThreadSpawner

PATIENCE = 10.0  # seconds
MANY = 200  # messages; more than a thread handles while they are being posted


class Receiver(Actor):
    """Actor that keeps its messages; some messages trigger an action."""

    def __init__(self, context: Context, *, side: Side, born_to_fail: bool = False) -> None:
        super().__init__(context)
        self._side, self._born_to_fail = side, born_to_fail
        self._words = side.words[context.name]

    def started(self) -> None:
        self._side.heard(self._words, "started")
        if self._born_to_fail:
            raise ValueError("failed on request")

    def receive(self, message: Any) -> Any:
        match message:
            case Pause("fail"):
                raise ValueError("failed on request")
            case Pause(word) if word.startswith("ask "):
                reply = self.context.system.ask(word.removeprefix("ask "), Describe(), timeout=PATIENCE)
                self._side.heard(self._words, f"{word}: {reply}")
            case Describe():
                return self.name
            case Pause(word) if word.startswith("end "):
                ended = self.context.system.stop(word.removeprefix("end "), timeout=PATIENCE)
                self._side.heard(self._words, f"{word}: {ended}")
            case Pause(word):
                self._side.heard(self._words, word)
            case ActorFailed(name=name, error=error):
                self._side.heard(self._words, f"{name}: {error}")
        return None

    def stopped(self) -> None:
        self._side.heard(self._words, "stopped")


class Side:
    """System on one kind of spawner, with a supervisor named `boss`. words: messages that each actor received."""

    system: ActorSystem
    never_blocks = False  # the actors of this side

    def __init__(self) -> None:
        self.words: dict[str, list[str]] = {}
        self.moved = threading.Condition()

    def heard(self, words: list[str], word: str) -> None:
        with self.moved:
            words.append(word)
            self.moved.notify_all()

    def spawn(self, *names: str, **how: Any) -> None:
        for name in names:
            self.words[name] = []
            build = partial(Receiver, side=self, **how)
            self.system.spawn(ActorSpec(name=name, build=build, never_blocks=self.never_blocks))

    def tell(self, name: str, *words: str) -> None:
        for word in words:
            self.system.tell(name, Pause(word))

    def wait(self, done: Callable[[], bool]) -> bool:
        raise NotImplementedError

    def hang(self, name: str) -> None:
        """Make the actor hang: it receives no further message."""
        raise NotImplementedError

    def let_be(self, name: str) -> None:
        """Let later incarnations of the actor run without hanging."""

    def close(self) -> None:
        return None


class Threads(Side):
    def __init__(self, log: FilteringBoundLogger) -> None:
        super().__init__()
        self.clock, self._over = SystemClock(), threading.Event()
        self._hung: set[str] = set()
        self.system = ActorSystem(clock=self.clock, log=log, spawner=self.spawner(), supervisor="boss")
        self.system.gates.append(self._gate)

    def spawner(self) -> Spawner:
        return ThreadSpawner(clock=self.clock)

    def _gate(self, name: str) -> None:
        if name in self._hung:
            self._over.wait(PATIENCE)

    def wait(self, done: Callable[[], bool]) -> bool:
        with self.moved:
            return self.moved.wait_for(done, PATIENCE)

    def hang(self, name: str) -> None:
        self._hung.add(name)

    def let_be(self, name: str) -> None:
        self._hung.discard(name)

    def close(self) -> None:
        self._over.set()
        for name in self.system.names():
            self.system.stop(name, timeout=PATIENCE)
        self.clock.close()


class Carried(Threads):
    never_blocks = True


class ThreadsUnderAPlan(Threads):
    def spawner(self) -> Spawner:
        plan = FaultPlan(seed=1, faults=parse_faults("message-delayed actor=nobody seconds=1"))
        return FaultySpawner(Strikes(plan, clock=self.clock), clock=self.clock)


class CarriedUnderAPlan(ThreadsUnderAPlan):
    never_blocks = True


class Simulated(Side):
    def __init__(self, log: FilteringBoundLogger, *, handlers_may_wait: bool = False) -> None:
        super().__init__()
        self.world = World(log=log, seed=1)
        self.world.handlers_may_wait = handlers_may_wait
        self.system = self.world.system(supervisor="boss")

    def wait(self, done: Callable[[], bool]) -> bool:
        return self.world.run_until(done, within=PATIENCE)

    def hang(self, name: str) -> None:
        self.world.hang(self.system, name)

    def close(self) -> None:
        self.world.close()


SIDES: dict[str, Callable[[FilteringBoundLogger], Side]] = {
    "threads": Threads,
    "carried": Carried,
    "threads under a fault plan": ThreadsUnderAPlan,
    "carried under a fault plan": CarriedUnderAPlan,
    "simulated": Simulated,
    "simulated, and handlers may wait": partial(Simulated, handlers_may_wait=True),
}


@pytest.fixture(params=SIDES.values(), ids=SIDES.keys())
def side(request: pytest.FixtureRequest, log: FilteringBoundLogger) -> Iterator[Side]:
    made: Side = request.param(log)
    made.spawn("boss", "a")
    yield made
    made.close()


WORDS = [str(number) for number in range(MANY)]


def test_messages_come_in_order_after_the_start(side: Side) -> None:
    side.tell("a", *WORDS)
    assert side.wait(lambda: len(side.words["a"]) > MANY)
    assert side.words["a"] == ["started", *WORDS]


def test_with_a_time_out_it_has_finished_its_mailbox_when_the_call_returns(side: Side) -> None:
    side.tell("a", *WORDS)
    assert side.system.stop("a", timeout=PATIENCE)
    assert side.words["a"] == ["started", *WORDS, "stopped"]


def test_without_a_time_out_it_finishes_its_mailbox_by_and_by(side: Side) -> None:
    side.tell("a", *WORDS)
    assert side.system.stop("a", timeout=None)
    assert side.wait(lambda: "stopped" in side.words["a"])
    assert side.words["a"] == ["started", *WORDS, "stopped"]


def test_message_after_stop_is_not_read(side: Side) -> None:
    spawner, actor = side.system._spawner, side.system._residents["a"].actor
    side.tell("a", *WORDS)
    spawner.end(actor, None)
    try:
        side.tell("a", "late")
        assert side.wait(lambda: "stopped" in side.words["a"])
    finally:
        assert spawner.end(actor, PATIENCE), "a second time"
    assert side.words["a"] == ["started", *WORDS, "stopped"]


def test_messages_of_each_sender_come_in_order_whatever_the_others_send(side: Side) -> None:
    def send(sender: str) -> None:
        side.tell("a", *(f"{sender} {number}" for number in range(MANY)))

    senders = [threading.Thread(target=send, args=(sender,)) for sender in "xyz"]
    for sender in senders:
        sender.start()
        if isinstance(side, Simulated):
            sender.join()
    for sender in senders:
        sender.join()
    assert side.wait(lambda: len(side.words["a"]) > 3 * MANY)
    for name in "xyz":
        heard = [word for word in side.words["a"] if word.startswith(name)]
        assert heard == [f"{name} {number}" for number in range(MANY)]


def test_nothing_can_be_posted_to_one_that_has_ended(side: Side) -> None:
    spawner, actor = side.system._spawner, side.system._residents["a"].actor
    assert spawner.end(actor, PATIENCE)
    with pytest.raises(pykka.ActorDeadError):
        spawner.post(actor, b"", "outside")
    side.tell("a", "late")
    assert side.system.dropped == 1


def test_one_that_hangs_does_not_end_in_time_and_is_fenced(side: Side) -> None:
    assert side.wait(lambda: side.words["a"] == ["started"])
    side.hang("a")
    side.tell("a", "x")
    actor = side.system._residents["a"].actor
    assert not side.system.stop("a", timeout=0.01)
    assert actor.context.fenced
    assert side.words["a"] == ["started"]


def test_other_actors_and_the_successor_work_while_one_hangs(side: Side) -> None:
    assert side.wait(lambda: side.words["a"] == ["started"])
    side.spawn("b", "c")
    side.hang("a")
    side.tell("a", "x")
    side.tell("b", *WORDS)
    side.tell("c", *WORDS)
    assert side.wait(lambda: len(side.words["b"]) > MANY and len(side.words["c"]) > MANY)
    assert side.words["b"] == side.words["c"] == ["started", *WORDS]
    side.let_be("a")
    side.spawn("a")
    side.tell("a", "y")
    assert side.wait(lambda: "y" in side.words["a"])
    assert side.words["a"] == ["started", "y"]


def test_exception_of_a_handler_ends_the_actor_with_its_mailbox_unread(side: Side) -> None:
    side.tell("a", "x", "fail", "y")
    assert side.wait(lambda: bool(side.words["boss"][1:]) and "stopped" in side.words["a"])
    assert side.words["a"] == ["started", "x", "stopped"]
    assert side.words["boss"] == ["started", "a: ValueError: failed on request"]
    assert side.system.stop("a", timeout=PATIENCE)


def test_one_that_fails_in_its_mailbox_has_ended_too(side: Side) -> None:
    side.tell("a", *WORDS, "fail", "y")
    assert side.system.stop("a", timeout=PATIENCE)
    assert side.words["a"] == ["started", *WORDS, "stopped"]


def test_exception_at_start_ends_the_actor(side: Side) -> None:
    side.spawn("b", born_to_fail=True)
    side.tell("b", "x")
    assert side.wait(lambda: bool(side.words["boss"][1:]))
    assert side.words["b"] == ["started"]
    assert side.words["boss"] == ["started", "b: ValueError: failed on request"]
    assert side.system.stop("b", timeout=PATIENCE)


def test_an_actor_may_wait_for_the_end_of_another(side: Side) -> None:
    side.spawn("b")
    side.tell("b", *WORDS)
    side.tell("a", "end b", "x")
    assert side.wait(lambda: "x" in side.words["a"])
    assert side.words["a"] == ["started", "end b: True", "x"]
    assert side.words["b"] == ["started", *WORDS, "stopped"]


def test_an_actor_that_asks_another_gets_its_reply(side: Side) -> None:
    if isinstance(side, Simulated):
        pytest.skip("in the simulator no handler waits for a reply")
    side.spawn("b")
    side.tell("a", "ask b", "x")
    assert side.wait(lambda: "x" in side.words["a"])
    assert side.words["a"] == ["started", "ask b: b", "x"]


def test_exception_ends_no_other_actor(side: Side) -> None:
    side.spawn("b")
    side.tell("a", "fail")
    side.tell("b", *WORDS)
    assert side.wait(lambda: len(side.words["b"]) > MANY and "stopped" in side.words["a"])
    assert side.words["b"] == ["started", *WORDS]


def test_something_repeats_until_it_is_ended(side: Side) -> None:
    beats: list[str] = []
    end = side.system.repeat(0.01, lambda: side.heard(beats, "beat"))
    assert side.wait(lambda: len(beats) >= 3)
    end()
    end()


def test_where_an_actor_is_can_be_asked_at_any_time(side: Side) -> None:
    side.hang("a")
    side.tell("a", "x")
    assert isinstance(side.system.stack("a"), str)
    side.system.fence("a")
    assert side.system.stack("a") == ""
