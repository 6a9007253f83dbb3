"""A ControllerSystem inside another program: what it leaves alone, and how it ends."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pykka
import pytest
import structlog

from actors.app.system import HALT_WITHIN, ControllerSystem
from actors.reconciliation import Reconciliation, Watch, itself
from actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from protocols.objects import Key
from protocols.resources import PODS
from runtime.client.api import Request, Response

PATIENCE = 20.0  # seconds that a thread may take on a busy machine


class Silent:
    """A Transport to a server that never answers. asked: set by the first request."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def send(self, request: Request, *, client: str, on_response: Callable[[Response], None]) -> None:
        self.asked.set()

    def watch(self, request: Request, **_callbacks: Any) -> Silent:
        self.asked.set()
        return self

    def cancel(self) -> None:
        return None


class AppActor(pykka.ThreadingActor):
    """An actor of the program around us."""

    def on_receive(self, message: Any) -> Any:
        return f"heard {message}"


class Idle:
    def reconcile(self, key: Key) -> Reconciliation:
        yield from ()


def spec(name: str, build: Callable[[ControllerContext], Any] = lambda _around: Idle()) -> ControllerSpec:
    return ControllerSpec(name=name, queues=(Queue(watches=(Watch(PODS, to=itself),)),), build=build)


@pytest.fixture
def app() -> Iterator[pykka.ActorRef[AppActor]]:
    ref = AppActor.start()
    yield ref
    pykka.ActorRegistry.stop_all()


def test_the_program_around_keeps_its_signals_its_logging_and_its_threads() -> None:
    def state() -> tuple[Any, ...]:
        root = logging.getLogger()
        return (
            [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)],
            list(root.handlers),
            root.level,
            logging.getLogger("kcm").handlers,
            logging.getLogger("kcm").level,
            structlog.is_configured(),
            threading.excepthook,
            pykka.ActorRegistry.get_all(),
        )

    before, threads = state(), set(threading.enumerate())
    transport = Silent()
    with ControllerSystem(transport=transport):
        assert transport.asked.wait(PATIENCE)
        assert state() == before
        started = set(threading.enumerate()) - threads
        assert started
    assert state() == before
    for thread in started:
        thread.join(PATIENCE)
        assert not thread.is_alive(), thread.name


def test_lines_go_through_the_programs_own_logging(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="kcm")
    with ControllerSystem(transport=Silent(), controllers=[spec("idle-controller")]) as system:
        system.log.info("one hundred %", pods=3, name="of a fact")
        system.log.debug("not shown")
    records = [record for record in caplog.records if record.getMessage().startswith("one hundred")]
    assert [(record.name, record.levelname, record.getMessage()) for record in records] == [
        ("kcm", "INFO", 'one hundred % pods=3 name="of a fact"')
    ]
    assert records[0].facts == {"pods": 3, "name": "of a fact"}
    assert records[0].filename == "test_embedding.py", "not structlog's"
    assert "not shown" not in caplog.text


def test_a_program_that_stops_or_addresses_all_its_actors_means_its_own(app: pykka.ActorRef[AppActor]) -> None:
    with ControllerSystem(transport=Silent(), controllers=[spec("idle-controller")]) as system:
        assert app.ask("you", timeout=PATIENCE) == "heard you"
        pykka.ActorRegistry.broadcast({"nothing": "of ours"})
        pykka.ActorRegistry.stop_all(timeout=PATIENCE)
        assert not app.is_alive()
        assert system.describe(timeout=PATIENCE)["children"]["dispatcher"]["alive"]
        assert system.actors.undecodable == 0


def test_our_end_is_not_the_end_of_the_programs_actors(app: pykka.ActorRef[AppActor]) -> None:
    with ControllerSystem(transport=Silent(), controllers=[spec("idle-controller")]):
        pass
    assert app.ask("you", timeout=PATIENCE) == "heard you"


def test_even_an_actor_that_calls_exit_ends_nobody_elses(app: pykka.ActorRef[AppActor]) -> None:
    built = threading.Semaphore(0)

    def exits(_around: ControllerContext) -> Idle:
        built.release()
        raise SystemExit(3)

    with ControllerSystem(transport=Silent(), controllers=[spec("exiting-controller", exits)]):
        assert built.acquire(timeout=PATIENCE)
        assert built.acquire(timeout=PATIENCE), "it is started again"
        assert app.ask("you", timeout=PATIENCE) == "heard you"


def test_two_systems_of_one_process_do_not_know_of_each_other() -> None:
    first = ControllerSystem(transport=Silent(), controllers=[spec("idle-controller")])
    second = ControllerSystem(transport=Silent(), controllers=[spec("idle-controller")])
    with first, second:
        first.describe(timeout=PATIENCE)
        first.stop()
        assert first.end == "drained"
        assert second.end is None
        assert second.describe(timeout=PATIENCE)["children"]["controller:idle-controller"]["alive"]


def test_a_system_is_started_once() -> None:
    system = ControllerSystem(transport=Silent(), controllers=[spec("idle-controller")])
    with system, pytest.raises(RuntimeError, match="is started once"):
        system.start()
    with pytest.raises(RuntimeError, match="is started once"):
        system.start()
    assert system.stop(), "it was drained"


def test_a_system_that_never_started_has_nothing_to_drain() -> None:
    system = ControllerSystem(transport=Silent(), controllers=[spec("idle-controller")])
    assert system.stop()
    with pytest.raises(RuntimeError, match="is started once"):
        system.start()


def test_an_interrupt_while_it_drains_stops_the_actors_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_timeout: float) -> bool:
        raise KeyboardInterrupt

    threads = set(threading.enumerate())
    system = ControllerSystem(transport=Silent()).start()
    monkeypatch.setattr(system._finished, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        system.stop()
    for thread in set(threading.enumerate()) - threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), thread.name


def test_the_end_is_bounded_although_an_actor_hangs() -> None:
    hanging, released = threading.Event(), threading.Event()

    def hangs(_around: ControllerContext) -> Idle:
        hanging.set()
        released.wait(60)
        return Idle()

    system = ControllerSystem(transport=Silent(), controllers=[spec("hanging-controller", hangs)]).start()
    assert hanging.wait(PATIENCE)
    began = time.monotonic()
    try:
        assert not system.stop(timeout=0.2)
    finally:
        took = time.monotonic() - began
        released.set()
    assert took < 0.2 + HALT_WITHIN + 1.0
