"""The carrier: whose turn it is, who gets another carrier, and what is left of it in the end."""

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
    """Stands still; its alarms sound when the test says so."""

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

    def look(self) -> None:
        """At the carrier, LOOK seconds later."""
        self.time += LOOK
        for who in list(self.alarms):
            self.alarms.pop(who)()


class Side:
    """A system whose carrier is looked at when the test says so, and what its actors did, in order."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self.clock = Clock()
        self.spawner = ThreadSpawner(clock=self.clock)
        self.system = ActorSystem(clock=self.clock, log=log, spawner=self.spawner, supervisor="boss")
        self.changed = threading.Condition()
        self.done: list[tuple[str, str]] = []
        self.threads: dict[str, set[int]] = {}
        self.open = threading.Event()  # lets those go on that were told to wait

    def spawn(self, *names: str, never_blocks: bool = True) -> None:
        for name in names:
            self.system.spawn(ActorSpec(name=name, build=partial(Worker, side=self), never_blocks=never_blocks))
        for name in names:
            assert self.system.ask(name, Describe(), timeout=WAIT) == name  # it has had its first batch

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
        """Have it wait in the middle of a message, and return once it does."""
        count = len(self.done)
        self.tell(name, "wait")
        self.wait_for(count + 1)


class Worker(Actor):
    def __init__(self, context: Context, *, side: Side) -> None:
        super().__init__(context)
        self._side, self._busy = side, threading.Lock()

    def receive(self, message: Any) -> Any:
        assert self._busy.acquire(blocking=False), "it is on two threads"
        try:
            if isinstance(message, Describe):
                return self.name
            self._side.did(self.name, message.controller)
            if message.controller == "wait":
                assert self._side.open.wait(WAIT)
        finally:
            self._busy.release()


@pytest.fixture
def side(log: FilteringBoundLogger) -> Iterator[Side]:
    side = Side(log)
    yield side
    side.open.set()
    for name in side.system.names():
        assert side.system.stop(name, timeout=WAIT)


def carriers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "carrier"]


def test_an_actor_with_much_to_do_is_followed_by_the_others_after_a_batch(side: Side) -> None:
    side.spawn("busy", "other")
    side.hold("busy")
    side.tell("busy", *["more"] * (3 * BATCH))
    side.tell("other", "x")
    side.open.set()
    done = side.wait_for(3 * BATCH + 2)
    assert done.index(("other", "x")) == BATCH  # of which the first was to wait


def test_all_of_a_crowd_are_on_one_thread_and_each_has_its_messages_in_order(side: Side) -> None:
    names = [f"worker-{number}" for number in range(CROWD)]
    side.spawn(*names)

    def send(sender: str) -> None:
        for number in range(10):
            for name in names:
                side.tell(name, f"{sender} {number}")

    senders = [threading.Thread(target=send, args=(sender,)) for sender in "xy"]
    for thread in senders:
        thread.start()
    for thread in senders:
        thread.join(WAIT)
    done = side.wait_for(2 * 10 * CROWD)
    assert len(set.union(*side.threads.values())) == 1
    for name in names:
        for sender in "xy":
            heard = [word for who, word in done if who == name and word.startswith(sender)]
            assert heard == [f"{sender} {number}" for number in range(10)]


def test_who_may_block_has_a_thread_of_its_own(side: Side) -> None:
    side.spawn("author's", never_blocks=False)
    side.spawn("ours")
    side.hold("author's")
    side.tell("ours", "x")
    side.wait_for(2)
    assert side.threads["author's"].isdisjoint(side.threads["ours"])
    assert "author's" in [thread.name for thread in threading.enumerate()]


def test_a_carrier_that_is_held_up_is_given_up_at_the_second_look(side: Side) -> None:
    side.spawn("stuck", "other")
    side.hold("stuck")
    side.tell("other", "x")
    side.clock.look()
    assert side.spawner.carriers == 1
    assert "open.wait" in side.system.stack("stuck")
    side.clock.look()
    side.wait_for(2)
    assert side.spawner.carriers == 2
    assert side.threads["other"].isdisjoint(side.threads["stuck"])


def test_a_carrier_that_holds_up_nobody_stays(side: Side) -> None:
    side.spawn("slow", "other")
    side.hold("slow")
    for _ in range(5):
        side.clock.look()
    side.open.set()
    side.tell("other", "x")
    side.wait_for(2)
    assert side.spawner.carriers == 1
    assert side.threads["other"] == side.threads["slow"]


def test_an_actor_that_comes_back_late_goes_on_with_the_others(side: Side) -> None:
    side.spawn("late", "other")
    side.hold("late")
    side.tell("late", "after")
    side.tell("other", "x")
    side.clock.look()
    side.clock.look()
    assert side.wait_for(2) == [("late", "wait"), ("other", "x")]
    side.open.set()
    assert side.wait_for(3)[2] == ("late", "after")
    side.tell("late", "again")
    side.wait_for(4)
    old = carriers()
    assert side.system.stop("late", timeout=WAIT)
    assert len(carriers()) <= len(old)


def test_several_that_hang_have_a_carrier_each_and_the_others_one_more(side: Side) -> None:
    side.spawn("a", "b", "c", "other")
    for number, name in enumerate("abc", start=1):
        side.hold(name)
        side.tell("other", "x")
        side.clock.look()
        side.clock.look()
        side.wait_for(2 * number)
    assert side.spawner.carriers == 4
    assert len(set.union(*(side.threads[name] for name in "abc"))) == 3


def test_who_hangs_is_replaced_and_its_successor_does_not_wait_for_it(side: Side) -> None:
    side.spawn("a", "b")
    side.hold("a")
    (before,) = side.threads["a"]
    side.tell("b", "x")
    side.clock.look()
    side.clock.look()
    side.wait_for(2)
    side.system.fence("a")
    assert side.system.hung_threads() == {"a": 1}
    side.spawn("a")
    side.tell("a", "y")
    side.wait_for(3)
    assert side.threads["a"] > {before}
    (straggler,) = side.system.stragglers("a")
    side.open.set()
    assert straggler.actor_stopped.wait(WAIT)
    assert side.system.hung_threads() == {"a": 0}


def test_the_carrier_ends_with_the_last_actor_and_a_later_one_has_another(log: FilteringBoundLogger) -> None:
    before = set(carriers())
    side = Side(log)
    for round_ in range(1, 4):
        side.spawn("a", "b")
        side.tell("a", "x")
        side.wait_for(round_)
        (thread,) = set(carriers()) - before
        for name in "ab":
            assert side.system.stop(name, timeout=WAIT)
        thread.join(WAIT)
        assert not thread.is_alive()


def test_those_that_were_given_up_end_too(log: FilteringBoundLogger) -> None:
    before = set(carriers())
    side = Side(log)
    side.spawn("stuck", "other")
    side.hold("stuck")
    side.tell("other", "x")
    side.clock.look()
    side.clock.look()
    side.wait_for(2)
    threads = set(carriers()) - before
    assert len(threads) == 2
    side.open.set()
    for name in ("stuck", "other"):
        assert side.system.stop(name, timeout=WAIT)
    for thread in threads:
        thread.join(WAIT)
        assert not thread.is_alive()


def test_pykkas_references_reach_a_carried_actor(side: Side) -> None:
    side.spawn("a")
    ref = side.system._residents["a"].actor.actor_ref
    assert ref.ask(encode(Describe()), timeout=WAIT) == "a"
    assert ref.proxy().name.get(timeout=WAIT) == "a"
    ref.tell(encode(Pause("told")))
    side.wait_for(1)
    pykka.ActorRegistry.register(ref)
    pykka.ActorRegistry.broadcast(encode(Pause("to all")), target_class=Worker)
    assert side.wait_for(2) == [("a", "told"), ("a", "to all")]
    assert ref.stop(timeout=WAIT)
    assert pykka.ActorRegistry.get_by_urn(ref.actor_urn) is None
    with pytest.raises(pykka.ActorDeadError):
        ref.tell(encode(Pause("late")))


def test_what_was_asked_of_one_that_has_ended_is_replied_to(side: Side) -> None:
    side.spawn("a")
    side.hold("a")
    ref = side.system._residents["a"].actor.actor_ref
    end = ref.stop(block=False)
    late = ref.ask(encode(Describe()), block=False)
    side.tell("a", "late")
    side.open.set()
    assert end.get(timeout=WAIT)
    with pytest.raises(pykka.ActorDeadError):
        late.get(timeout=WAIT)
    assert side.done == [("a", "wait")]


def test_one_that_could_not_reply_is_idle_again_and_not_taken_for_one_that_hangs(side: Side) -> None:
    side.spawn("carried")
    side.spawn("own", never_blocks=False)
    for name in ("carried", "own"):
        ref = side.system._residents[name].actor.actor_ref
        with pytest.raises(AttributeError):
            ref.ask(encode(Wake()), timeout=WAIT)
    assert side.system.busy(["carried", "own"]) == {}


def test_one_that_waits_for_the_carrier_is_busy_with_the_same_turn(side: Side) -> None:
    side.spawn("stuck", "other")
    side.hold("stuck")
    side.tell("other", "x")
    busy = side.system.busy(["stuck", "other"])
    assert set(busy) == {"stuck", "other"}
    side.clock.look()
    assert side.system.busy(["stuck", "other"]) == busy
    side.clock.look()
    side.wait_for(2)
    assert side.system.busy(["stuck"])["stuck"] == busy["stuck"]
