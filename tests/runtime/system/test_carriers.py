"""Carriers: order of actors, replacement of a blocked carrier, and its end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import Any

import pykka
import pytest
from structlog.typing import FilteringBoundLogger

from kcm.protocols.codec import encode
from kcm.protocols.messages.lifecycle import Describe, Pause, Wake
from kcm.runtime.system.actor import Actor, ActorSpec, Context
from kcm.runtime.system.actor_system import ActorSystem, ThreadSpawner
from kcm.runtime.system.carriers import BATCH, LOOK

WAIT = 10.0
CROWD = 200


class Clock:
    """Clock that stands still until the test triggers its alarms."""

    def __init__(self) -> None:
        self.alarms: dict[Hashable, Callable[[], None]] = {}
        self.time = 0.0

    def monotonic(self) -> float:
        return self.time

    def now(self) -> float:
        return self.time

    def call_at(self, who: Hashable, when: float, what: Callable[[], None]) -> None:
        self.alarms[who] = what

    def cancel(self, who: Hashable) -> None:
        self.alarms.pop(who, None)

    def check(self) -> None:
        """Advance by LOOK seconds and trigger the alarms, which check the carrier."""
        self.time += LOOK
        for who in list(self.alarms):
            self.alarms.pop(who)()


class CarrierFixture:
    """System of actors whose carrier is checked by `clock.check()`. `done` contains the handled words in order."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self.clock = Clock()
        self.spawner = ThreadSpawner(clock=self.clock)
        self.system = ActorSystem(clock=self.clock, log=log, spawner=self.spawner, supervisor="boss")
        self.changed = threading.Condition()
        self.done: list[tuple[str, str]] = []
        self.threads: dict[str, set[int]] = {}
        self.open = threading.Event()  # lets actors continue that handle the word "wait"

    def spawn(self, *names: str, never_blocks: bool = True) -> None:
        for name in names:
            self.system.spawn(ActorSpec(name=name, build=partial(Worker, fixture=self), never_blocks=never_blocks))
        for name in names:
            assert self.system.ask(name, Describe(), timeout=WAIT) == name  # it has handled its first batch

    def tell(self, name: str, *words: str) -> None:
        for word in words:
            self.system.tell(name, Pause(word))

    def did(self, name: str, word: str) -> None:
        with self.changed:
            self.done.append((name, word))
            self.threads.setdefault(name, set()).add(threading.get_ident())
            self.changed.notify_all()

    def wait_for(self, count: int) -> list[tuple[str, str]]:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.done) >= count, WAIT), self.done
            return list(self.done)

    def hold(self, name: str) -> None:
        """Let an actor wait while it handles a message, and return when it waits."""
        count = len(self.done)
        self.tell(name, "wait")
        self.wait_for(count + 1)


class Worker(Actor):
    def __init__(self, context: Context, *, fixture: CarrierFixture) -> None:
        super().__init__(context)
        self._side, self._busy = fixture, threading.Lock()

    def receive(self, message: Any) -> Any:
        assert self._busy.acquire(blocking=False), "it is on two threads"
        try:
            if isinstance(message, Describe):
                return self.name
            self._side.did(self.name, message.controller)
            if message.controller == "work":
                self._side.clock.time += 2.0
            if message.controller == "wait":
                assert self._side.open.wait(WAIT)
        finally:
            self._busy.release()


@pytest.fixture
def fixture(log: FilteringBoundLogger) -> Iterator[CarrierFixture]:
    fixture = CarrierFixture(log)
    yield fixture
    fixture.open.set()
    for name in fixture.system.names():
        assert fixture.system.stop(name, timeout=WAIT)


def carriers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "carrier"]


def test_other_actors_run_after_one_batch_of_a_busy_actor(fixture: CarrierFixture) -> None:
    fixture.spawn("busy", "other")
    fixture.hold("busy")
    fixture.tell("busy", *["more"] * (3 * BATCH))
    fixture.tell("other", "x")
    fixture.open.set()
    done = fixture.wait_for(3 * BATCH + 2)
    assert done.index(("other", "x")) == BATCH  # the first message of the batch was "wait"


def test_many_actors_share_one_thread_and_receive_messages_in_order(fixture: CarrierFixture) -> None:
    names = [f"worker-{number}" for number in range(CROWD)]
    fixture.spawn(*names)

    def send(sender: str) -> None:
        for number in range(10):
            for name in names:
                fixture.tell(name, f"{sender} {number}")

    senders = [threading.Thread(target=send, args=(sender,)) for sender in "xy"]
    for thread in senders:
        thread.start()
    for thread in senders:
        thread.join(WAIT)
    done = fixture.wait_for(2 * 10 * CROWD)
    assert len(set.union(*fixture.threads.values())) == 1
    for name in names:
        for sender in "xy":
            words = [word for who, word in done if who == name and word.startswith(sender)]
            assert words == [f"{sender} {number}" for number in range(10)]


def test_actor_that_may_block_has_its_own_thread(fixture: CarrierFixture) -> None:
    fixture.spawn("author's", never_blocks=False)
    fixture.spawn("ours")
    fixture.hold("author's")
    fixture.tell("ours", "x")
    fixture.wait_for(2)
    assert fixture.threads["author's"].isdisjoint(fixture.threads["ours"])
    assert "author's" in [thread.name for thread in threading.enumerate()]


def test_blocked_carrier_is_replaced_at_the_second_check(fixture: CarrierFixture) -> None:
    fixture.spawn("stuck", "other")
    fixture.hold("stuck")
    fixture.tell("other", "x")
    fixture.clock.check()
    assert fixture.spawner.carriers == 1
    assert "open.wait" in fixture.system.stack("stuck")
    fixture.clock.check()
    fixture.wait_for(2)
    assert fixture.spawner.carriers == 2
    assert fixture.threads["other"].isdisjoint(fixture.threads["stuck"])


def test_carrier_that_blocks_no_actor_stays(fixture: CarrierFixture) -> None:
    fixture.spawn("slow", "other")
    fixture.hold("slow")
    for _ in range(5):
        fixture.clock.check()
    fixture.open.set()
    fixture.tell("other", "x")
    fixture.wait_for(2)
    assert fixture.spawner.carriers == 1
    assert fixture.threads["other"] == fixture.threads["slow"]


def test_actor_that_recovers_late_continues_on_the_new_carrier(fixture: CarrierFixture) -> None:
    fixture.spawn("late", "other")
    fixture.hold("late")
    fixture.tell("late", "after")
    fixture.tell("other", "x")
    fixture.clock.check()
    fixture.clock.check()
    assert fixture.wait_for(2) == [("late", "wait"), ("other", "x")]
    fixture.open.set()
    assert fixture.wait_for(3)[2] == ("late", "after")
    assert len(fixture.threads["late"]) == 2  # the old carrier handles no further message
    fixture.tell("late", "again")
    fixture.wait_for(4)
    old = carriers()
    assert fixture.system.stop("late", timeout=WAIT)
    assert len(carriers()) <= len(old)


def test_each_hung_actor_occupies_a_carrier_and_others_share_one(fixture: CarrierFixture) -> None:
    fixture.spawn("a", "b", "c", "other")
    for number, name in enumerate("abc", start=1):
        fixture.hold(name)
        fixture.tell("other", "x")
        fixture.clock.check()
        fixture.clock.check()
        fixture.wait_for(2 * number)
    assert fixture.spawner.carriers == 4
    assert len(set.union(*(fixture.threads[name] for name in "abc"))) == 3


def test_successor_of_a_hung_actor_starts_at_once(fixture: CarrierFixture) -> None:
    fixture.spawn("a", "b")
    fixture.hold("a")
    (before,) = fixture.threads["a"]
    fixture.tell("b", "x")
    fixture.clock.check()
    fixture.clock.check()
    fixture.wait_for(2)
    fixture.system.fence("a")
    assert fixture.system.hung_threads() == {"a": 1}
    fixture.spawn("a")
    fixture.tell("a", "y")
    fixture.wait_for(3)
    assert fixture.threads["a"] > {before}
    (straggler,) = fixture.system.stragglers("a")
    fixture.open.set()
    assert straggler.actor_stopped.wait(WAIT)
    assert fixture.system.hung_threads() == {"a": 0}


def test_carrier_ends_with_the_last_actor_and_a_new_actor_gets_a_new_one(log: FilteringBoundLogger) -> None:
    before = set(carriers())
    fixture = CarrierFixture(log)
    for round_ in range(1, 4):
        fixture.spawn("a", "b")
        fixture.tell("a", "x")
        fixture.wait_for(round_)
        (thread,) = set(carriers()) - before
        for name in "ab":
            assert fixture.system.stop(name, timeout=WAIT)
        thread.join(WAIT)
        assert not thread.is_alive()


def test_abandoned_carriers_end_too(log: FilteringBoundLogger) -> None:
    before = set(carriers())
    fixture = CarrierFixture(log)
    fixture.spawn("stuck", "other")
    fixture.hold("stuck")
    fixture.tell("other", "x")
    fixture.clock.check()
    fixture.clock.check()
    fixture.wait_for(2)
    threads = set(carriers()) - before
    assert len(threads) == 2
    fixture.open.set()
    for name in ("stuck", "other"):
        assert fixture.system.stop(name, timeout=WAIT)
    for thread in threads:
        thread.join(WAIT)
        assert not thread.is_alive()


def test_pykkas_references_reach_a_carried_actor(fixture: CarrierFixture) -> None:
    fixture.spawn("a")
    ref = fixture.system._residents["a"].actor.actor_ref
    assert ref.ask(encode(Describe()), timeout=WAIT) == "a"
    assert ref.proxy().name.get(timeout=WAIT) == "a"
    ref.tell(encode(Pause("told")))
    fixture.wait_for(1)
    pykka.ActorRegistry.register(ref)
    pykka.ActorRegistry.broadcast(encode(Pause("to all")), target_class=Worker)
    assert fixture.wait_for(2) == [("a", "told"), ("a", "to all")]
    assert ref.stop(timeout=WAIT)
    assert pykka.ActorRegistry.get_by_urn(ref.actor_urn) is None
    with pytest.raises(pykka.ActorDeadError):
        ref.tell(encode(Pause("late")))


def test_ask_of_an_ended_actor_raises_actor_dead_error(fixture: CarrierFixture) -> None:
    fixture.spawn("a")
    fixture.hold("a")
    ref = fixture.system._residents["a"].actor.actor_ref
    end = ref.stop(block=False)
    late = ref.ask(encode(Describe()), block=False)
    fixture.tell("a", "late")
    fixture.open.set()
    assert end.get(timeout=WAIT)
    with pytest.raises(pykka.ActorDeadError):
        late.get(timeout=WAIT)
    assert fixture.done == [("a", "wait")]


def test_actor_is_idle_after_a_failed_reply(fixture: CarrierFixture) -> None:
    fixture.spawn("carried")
    fixture.spawn("own", never_blocks=False)
    for name in ("carried", "own"):
        ref = fixture.system._residents[name].actor.actor_ref
        with pytest.raises(AttributeError):
            ref.ask(encode(Wake()), timeout=WAIT)
    assert fixture.system.busy(["carried", "own"]) == {}


def test_actor_that_waits_for_the_carrier_is_busy_with_the_same_turn(fixture: CarrierFixture) -> None:
    fixture.spawn("stuck", "other")
    fixture.hold("stuck")
    fixture.tell("other", "x")
    busy = fixture.system.busy(["stuck", "other"])
    assert set(busy) == {"stuck", "other"}
    fixture.clock.check()
    assert fixture.system.busy(["stuck", "other"]) == busy
    fixture.clock.check()
    fixture.wait_for(2)
    assert fixture.system.busy(["stuck"])["stuck"] == busy["stuck"]


@pytest.mark.parametrize("measures", [True, False])
def test_time_in_handlers_is_measured_if_the_system_asks_for_it(fixture: CarrierFixture, *, measures: bool) -> None:
    fixture.system.measures_work = measures
    fixture.spawn("carried", "other")
    fixture.spawn("own", never_blocks=False)
    fixture.tell("carried", "work", "work")
    fixture.wait_for(2)
    fixture.tell("other", "x")  # is handled after the batch of the first
    fixture.wait_for(3)
    fixture.tell("own", "work")
    assert fixture.system.ask("own", Describe(), timeout=WAIT) == "own"
    worked = [fixture.system.worked(name) for name in ("carried", "own")]
    assert worked == ([4.0, 2.0] if measures else [0.0, 0.0])
