"""Names and incarnations of actors, on real threads."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pykka
import pytest
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from kcm.protocols.codec import encode
from kcm.protocols.messages.lifecycle import ActorFailed, Describe, Pause, Ping, Pong, Wake
from kcm.runtime.scheduling.clock import SystemClock
from kcm.runtime.system.actor import Actor, ActorSpec, Context
from kcm.runtime.system.actor_system import ActorSystem, ThreadSpawner
from kcm.runtime.system.journal import JournalWriter, RecordedRun
from kcm.runtime.system.mailbox_waits import MailboxWaits

WAIT = 10.0


class Mail:
    """Received messages, for which the test's thread can wait."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.messages: list[Any] = []

    def add(self, message: Any) -> None:
        with self._changed:
            self.messages.append(message)
            self._changed.notify_all()

    def wait_for(self, count: int) -> list[Any]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.messages) >= count, timeout=WAIT), self.messages
            return list(self.messages)


class RecordingActor(Actor):
    """Records its messages, and raises `raises` on a Pause if it is set."""

    def __init__(self, context: Context, *, mail: Mail, raises: BaseException | None = None) -> None:
        super().__init__(context)
        self._mail, self._raises = mail, raises

    def receive(self, message: Any) -> Any:
        if isinstance(message, Pause) and self._raises is not None:
            raise self._raises
        if isinstance(message, Describe):
            return self.context.incarnation
        self._mail.add((self.context.incarnation, message))
        return None


class FailingStart(Actor):
    def started(self) -> None:
        raise RuntimeError("cannot begin")


@pytest.fixture
def mail() -> Mail:
    return Mail()


@pytest.fixture
def supervisor() -> Mail:
    return Mail()


@pytest.fixture
def system(log: FilteringBoundLogger, supervisor: Mail) -> Iterator[ActorSystem]:
    clock = SystemClock()
    system = ActorSystem(clock=clock, log=log)
    system.spawn(ActorSpec(name="controller-manager", build=partial(RecordingActor, mail=supervisor)))
    yield system
    for name in system.names():
        assert system.stop(name, timeout=WAIT)
    clock.close()


def keeper(mail: Mail, **more: Any) -> ActorSpec:
    return ActorSpec(name="keeper", build=partial(RecordingActor, mail=mail, **more))


def test_message_to_a_name_reaches_the_current_incarnation(system: ActorSystem, mail: Mail) -> None:
    assert system.spawn(keeper(mail)) == 1
    system.tell("keeper", Pause("one"))
    mail.wait_for(1)
    assert system.spawn(keeper(mail)) == 2
    system.tell("keeper", Pause("two"))
    assert mail.wait_for(2) == [(1, Pause("one")), (2, Pause("two"))]


@pytest.mark.parametrize("raised", [RuntimeError("planted"), SystemExit(3), KeyboardInterrupt()])
def test_error_ends_only_its_actor_and_notifies_the_supervisor(
    system: ActorSystem, mail: Mail, supervisor: Mail, raised: BaseException
) -> None:
    other = Mail()
    system.spawn(keeper(mail, raises=raised))
    system.spawn(ActorSpec(name="other", build=partial(RecordingActor, mail=other)))
    system.tell("keeper", Pause("x"))
    _, failure = supervisor.wait_for(1)[0]
    assert isinstance(failure, ActorFailed)
    assert (failure.name, failure.incarnation) == ("keeper", 1)
    assert type(raised).__name__ in failure.error
    assert "test_actor_system.py" in failure.traceback
    system.tell("other", Pause("still here"))
    assert other.wait_for(1) == [(1, Pause("still here"))]
    dropped = system.dropped
    system.tell("keeper", Pause("nobody"))
    assert system.dropped == dropped + 1


def test_failed_start_is_reported_to_the_supervisor(system: ActorSystem, supervisor: Mail) -> None:
    system.spawn(ActorSpec(name="bad", build=FailingStart))
    _, failure = supervisor.wait_for(1)[0]
    assert failure.error == "RuntimeError: cannot begin"


class HeldActor(RecordingActor):
    """Holds each message until it is released."""

    entered = threading.Semaphore(0)
    released = threading.Semaphore(0)

    def receive(self, message: Any) -> Any:
        self.entered.release()
        assert self.released.acquire(timeout=WAIT)
        return super().receive(message)


@pytest.mark.parametrize("has_journal", [False, True])
def test_time_in_the_mailbox_is_measured_per_actor(
    system: ActorSystem, mail: Mail, tmp_path: Path, has_journal: bool
) -> None:
    now = [1.0]
    system.waits = MailboxWaits(lambda: now[0])
    if has_journal:
        run = RecordedRun(version="", seed=0, arguments=[], controllers=[])
        system.journal = JournalWriter(tmp_path / "run.journal", run=run, clock=system.clock, largest=100_000, files=1)
    system.spawn(ActorSpec(name="held", build=partial(HeldActor, mail=mail)))
    system.tell("held", Pause("one"))
    assert HeldActor.entered.acquire(timeout=WAIT)
    system.tell("held", Pause("two"))
    assert "held" in system.active().values()
    now[0] = 3.5
    HeldActor.released.release(2)
    assert [message for _, message in mail.wait_for(2)] == [Pause("one"), Pause("two")]
    assert system.waits.totals() == [("held", 2, 2.5)]
    assert HeldActor.entered.acquire(timeout=WAIT)
    if isinstance(system.journal, JournalWriter):
        system.stop("held", timeout=WAIT)
        system.journal.close()
        system.journal = None


class ExhaustedSpawner(ThreadSpawner):
    """Spawner that cannot start a thread."""

    def start(self, actor: Actor) -> None:
        raise RuntimeError("can't start new thread")


def test_actor_without_a_thread_is_neither_alive_nor_hung(log: FilteringBoundLogger, mail: Mail) -> None:
    clock = SystemClock()
    system = ActorSystem(clock=clock, log=log, spawner=ExhaustedSpawner(clock=clock))
    for _ in range(3):
        with pytest.raises(RuntimeError, match="can't start new thread"):
            system.spawn(keeper(mail))
        assert not system.is_alive("keeper")
    assert system.names() == []
    assert system.stragglers("keeper") == []
    clock.close()


class Blocked(Actor):
    def __init__(self, context: Context, *, entered: threading.Event, until: threading.Event) -> None:
        super().__init__(context)
        self._entered, self._until = entered, until

    def doing(self) -> str:
        return "waiting for the test"

    def receive(self, _message: Any) -> None:
        self._entered.set()
        self._until.wait(WAIT)


def test_fenced_actor_is_a_straggler_until_its_thread_ends(system: ActorSystem) -> None:
    entered, until = threading.Event(), threading.Event()
    system.spawn(ActorSpec(name="blocked", build=partial(Blocked, entered=entered, until=until)))
    system.tell("blocked", Pause("x"))
    assert entered.wait(WAIT)
    assert system.doing("blocked") == "waiting for the test"
    assert "self._until.wait(WAIT)" in system.stack("blocked")
    system.fence("blocked")
    (straggler,) = system.stragglers("blocked")
    assert system.hung_threads()["blocked"] == 1
    assert (system.doing("blocked"), system.stack("blocked")) == ("", "")
    until.set()
    assert straggler.actor_stopped.wait(WAIT)
    assert system.stragglers("blocked") == []
    assert system.hung_threads() == {"blocked": 0}
    assert system.fenced == 1


def test_straggler_is_not_kept_in_memory_after_its_end(system: ActorSystem) -> None:
    entered, until = threading.Event(), threading.Event()
    system.spawn(ActorSpec(name="blocked", build=partial(Blocked, entered=entered, until=until)))
    system.tell("blocked", Pause("x"))
    assert entered.wait(WAIT)
    system.fence("blocked")
    (straggler,) = system.stragglers("blocked")
    until.set()
    assert straggler.actor_stopped.wait(WAIT)
    kept = weakref.ref(straggler)
    del straggler
    assert system.ended(["blocked"]) == {"blocked"}
    deadline = time.monotonic() + WAIT
    while kept() is not None and time.monotonic() < deadline:  # until its thread has returned
        gc.collect()
    assert kept() is None


def test_messages_of_a_fenced_incarnation_are_dropped(system: ActorSystem, mail: Mail) -> None:
    system.spawn(keeper(mail))
    actor = system._residents["keeper"].actor
    system.fence("keeper")
    actor.tell("controller-manager", Pause("ghost"))
    assert not system.is_alive("keeper")
    system.tell("keeper", Pause("to nobody"))
    assert mail.messages == []


def test_ping_is_answered_by_the_actors_loop(system: ActorSystem, mail: Mail, supervisor: Mail) -> None:
    system.spawn(keeper(mail))
    system.tell("keeper", Ping(7))
    assert supervisor.wait_for(1) == [(1, Pong("keeper", 1, 7))]


def test_actor_is_busy_with_the_same_turn_until_it_finishes_its_message(system: ActorSystem) -> None:
    entered, go_on = threading.Semaphore(0), threading.Semaphore(0)

    class Stubborn(Actor):
        def receive(self, message: Any) -> None:
            entered.release()
            assert go_on.acquire(timeout=WAIT)

    system.spawn(ActorSpec(name="stubborn", build=Stubborn))
    for _ in range(2):
        system.tell("stubborn", Pause("a"))
    assert entered.acquire(timeout=WAIT)
    first = system.busy(["stubborn", "nobody"])
    assert list(first) == ["stubborn"]
    assert system.busy(["stubborn"]) == first
    go_on.release()
    assert entered.acquire(timeout=WAIT)
    assert system.busy(["stubborn"])["stubborn"] > first["stubborn"]
    go_on.release()


def test_actor_is_idle_after_its_start_while_its_mailbox_is_empty(system: ActorSystem, mail: Mail) -> None:
    context = Context(name="keeper", incarnation=1, system=system, clock=system.clock, log=system.log)
    actor, spawner = RecordingActor(context, mail=mail), ThreadSpawner(clock=system.clock)
    assert not spawner.is_idle(actor)
    actor.on_start()
    assert spawner.is_idle(actor)
    actor.actor_inbox.put(encode(Pause("a")))  # type: ignore[arg-type]
    assert not spawner.is_idle(actor)


def test_undecodable_frame_is_logged_and_counted_without_ending_the_actor(
    system: ActorSystem, mail: Mail, logs: LogCapture
) -> None:
    system.spawn(keeper(mail))
    system.deliver("keeper", b"\xc1 nonsense", sender="test")
    system.tell("keeper", Pause("after"))
    mail.wait_for(1)
    assert system.undecodable == 1
    assert any(entry["event"] == "frame dropped" for entry in logs.entries)


def test_ask_returns_the_reply_and_raises_without_an_actor(system: ActorSystem, mail: Mail) -> None:
    system.spawn(keeper(mail))
    assert system.ask("keeper", Describe(), timeout=WAIT) == 1
    with pytest.raises(pykka.ActorDeadError):
        system.ask("nobody", Describe(), timeout=WAIT)


def test_failure_of_the_supervisor_is_reported_to_the_owner_of_the_system(
    log: FilteringBoundLogger, mail: Mail
) -> None:
    clock = SystemClock()
    system = ActorSystem(clock=clock, log=log, supervisor="keeper")
    orphaned = Mail()
    system.orphaned = orphaned.add
    system.spawn(keeper(mail, raises=RuntimeError("planted")))
    system.tell("keeper", Pause("x"))
    assert orphaned.wait_for(1)[0].name == "keeper"
    clock.close()


def test_alarms_of_two_systems_on_one_clock_are_separate(log: FilteringBoundLogger) -> None:
    clock = SystemClock()
    mails = [Mail(), Mail()]
    systems = [ActorSystem(clock=clock, log=log) for _ in mails]
    for system, mail in zip(systems, mails, strict=True):
        system.spawn(keeper(mail))
        system._residents["keeper"].actor.wake_at(clock.monotonic() + 0.01)
    for system, mail in zip(systems, mails, strict=True):
        assert mail.wait_for(1) == [(1, Wake())]
        system.stop("keeper", timeout=WAIT)
    clock.close()


def test_alarms_are_triggered_in_order_and_replaced_by_later_calls() -> None:
    clock, mail = SystemClock(), Mail()
    now = clock.monotonic()
    clock.call_at("b", now + 0.02, lambda: mail.add("b"))
    clock.call_at("a", now + 3600.0, lambda: mail.add("never"))
    clock.call_at("a", now + 0.01, lambda: mail.add("a"))
    clock.call_at("c", now + 0.015, lambda: mail.add("cancelled"))
    clock.cancel("c")
    assert mail.wait_for(2) == ["a", "b"]
    clock.close()
