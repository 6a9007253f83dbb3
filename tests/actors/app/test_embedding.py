"""A ControllerSystem inside another program: isolation from the program, and its end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pykka
import pytest
import structlog

from kcm.actors.app.arguments import read_options
from kcm.actors.app.system import FORKED, HALT_WITHIN, ControllerSystem
from kcm.actors.reconciliation import Reconciliation, Watch, itself
from kcm.actors.reconciliation.actor_names import MANAGER
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.protocols.messages.lifecycle import Drain
from kcm.protocols.objects import Key, encode_object
from kcm.protocols.resources import PODS
from kcm.runtime.client.api import Request, Response
from kcm.runtime.tables.frozen import FrozenError
from kcm.runtime.tables.tables import Tables

ROOT = Path(__file__).parents[3]
PATIENCE = 20.0  # seconds that a thread may take on a busy machine


class Silent:
    """Transport to a server that never responds. requested: set by the first request."""

    def __init__(self) -> None:
        self.requested = threading.Event()

    def send(self, request: Request, *, client: str, on_response: Callable[[Response], None]) -> None:
        self.requested.set()

    def watch(self, request: Request, **_callbacks: Any) -> Silent:
        self.requested.set()
        return self

    def cancel(self) -> None:
        return None


class AppActor(pykka.ThreadingActor):
    """Actor of the embedding program."""

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


def test_embedding_program_keeps_its_signals_logging_and_threads() -> None:
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
        assert transport.requested.wait(PATIENCE)
        assert state() == before
        started = set(threading.enumerate()) - threads
        assert started
    assert state() == before
    for thread in started:
        thread.join(PATIENCE)
        assert not thread.is_alive(), thread.name


def test_log_lines_go_through_the_embedding_programs_logging(caplog: pytest.LogCaptureFixture) -> None:
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


def test_pykka_registry_of_the_program_does_not_reach_the_systems_actors(app: pykka.ActorRef[AppActor]) -> None:
    with ControllerSystem(transport=Silent(), controllers=[spec("idle-controller")]) as system:
        assert app.ask("you", timeout=PATIENCE) == "heard you"
        pykka.ActorRegistry.broadcast({"nothing": "of ours"})
        pykka.ActorRegistry.stop_all(timeout=PATIENCE)
        assert not app.is_alive()
        assert system.describe(timeout=PATIENCE)["children"]["dispatcher"]["alive"]
        assert system.actors.undecodable == 0


def test_end_of_the_system_does_not_stop_the_programs_actors(app: pykka.ActorRef[AppActor]) -> None:
    with ControllerSystem(transport=Silent(), controllers=[spec("idle-controller")]):
        pass
    assert app.ask("you", timeout=PATIENCE) == "heard you"


def test_actor_that_calls_exit_does_not_end_the_process(app: pykka.ActorRef[AppActor]) -> None:
    built = threading.Semaphore(0)

    def exits(_around: ControllerContext) -> Idle:
        built.release()
        raise SystemExit(3)

    with ControllerSystem(transport=Silent(), controllers=[spec("exiting-controller", exits)]):
        assert built.acquire(timeout=PATIENCE)
        assert built.acquire(timeout=PATIENCE), "it is started again"
        assert app.ask("you", timeout=PATIENCE) == "heard you"


def test_two_systems_in_one_process_are_independent() -> None:
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


def test_unstarted_system_has_nothing_to_drain() -> None:
    system = ControllerSystem(transport=Silent(), controllers=[spec("idle-controller")])
    assert system.stop()
    with pytest.raises(RuntimeError, match="is started once"):
        system.start()


def test_interrupt_while_draining_stops_the_actors_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
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


# In a program with an asyncio event loop.


def test_async_with_starts_and_drains_without_blocking_the_event_loop() -> None:
    system = ControllerSystem(transport=Silent(), controllers=[spec("idle-controller")])
    stopping = threading.Event()
    stop, turned = system.stop, threading.Event()

    def stop_once_the_loop_turned(timeout: float = PATIENCE) -> bool:
        stopping.set()
        assert turned.wait(PATIENCE), "the event loop goes on meanwhile"
        return stop(timeout)

    system.stop = stop_once_the_loop_turned  # type: ignore[method-assign]

    async def turn() -> None:
        while not stopping.is_set():
            await asyncio.sleep(0.001)
        turned.set()

    async def program() -> None:
        turning = asyncio.create_task(turn())
        async with system as entered:
            assert entered is system
            assert system.end is None
        await turning

    asyncio.run(program())
    assert system.end == "drained"


def test_cancelled_async_with_stops_the_actors_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    draining = threading.Event()
    system = ControllerSystem(transport=Silent(), controllers=[spec("idle-controller")])
    tell, wait = system.actors.tell, system._finished.wait

    def drain_no_more(name: str, message: Any, **more: Any) -> None:
        if not isinstance(message, Drain):
            tell(name, message, **more)

    def wait_aloud(seconds: float | None = None) -> bool:
        draining.set()
        return wait(seconds)

    monkeypatch.setattr(system.actors, "tell", drain_no_more)
    monkeypatch.setattr(system._finished, "wait", wait_aloud)

    async def program() -> None:
        async with system:
            pass

    async def cancelled() -> None:
        running = asyncio.create_task(program())
        await asyncio.to_thread(draining.wait, PATIENCE)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancelled())
    assert system._finished.is_set(), "nobody waits for the draining any more"
    assert not system.actors.is_alive(MANAGER)


# A forked process.


FORKING = """
import os, sys
from kcm.actors.app.system import ControllerSystem
from kcm.actors.reconciliation import Watch, itself
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.protocols.resources import PODS


class Silent:
    def send(self, request, *, client, on_response): pass
    def watch(self, request, **callbacks): return self
    def cancel(self): pass


spec = ControllerSpec(name="idle", queues=(Queue(watches=(Watch(PODS, to=itself),)),), build=lambda _: object())
with ControllerSystem(transport=Silent(), controllers=[spec]) as system:
    checks = system.checks()
    child = os.fork()
    if child == 0:
        answers = {check() for check in checks.values()} | {check() for check in system.checks().values()}
        try:
            system.describe()
        except RuntimeError as err:
            answers.add(str(err))
        answers.add(system.wait())
        print(answers, system.enqueue("idle", "d/a"), system.stop(), flush=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print("parent", status, checks["infrastructure"](), flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_forked_process_is_unhealthy_and_waits_for_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    child, parent = done.stdout.splitlines()
    assert child == f"{ {FORKED} } False False"
    assert parent == "parent 0 None"


# Objects that are changed in place.


class Changes:
    def __init__(self, pods: Any) -> None:
        self._pods = pods

    def reconcile(self, key: Key) -> Reconciliation:
        self._pods.get(key)["metadata"]["labels"]["a"] = "changed"
        yield from ()


@pytest.mark.parametrize("detects", [False, True])
def test_cache_mutation_detector_names_the_line_that_changes_an_object(detects: bool) -> None:
    built: list[Any] = []

    def build(context: ControllerContext) -> Changes:
        built.append(Changes(context.tables[PODS]))
        return built[-1]

    options = read_options([f"--cache-mutation-detector={str(detects).lower()}"])
    system = ControllerSystem(transport=Silent(), controllers=[spec("changing-controller", build)], options=options)
    table = system.tables[PODS.id]
    pod = {"metadata": {"name": "a", "namespace": "d", "uid": "u", "resourceVersion": "1", "labels": {"a": "b"}}}
    table.claim().replace([table.make_entry(pod, encode_object(pod))], 1)
    reconciler = Changes(Tables({PODS.id: table})[PODS])
    if not detects:
        next(reconciler.reconcile("d/a"), None)
        return
    with pytest.raises(FrozenError, match="was read from a table and is not to be changed"):
        next(reconciler.reconcile("d/a"), None)
