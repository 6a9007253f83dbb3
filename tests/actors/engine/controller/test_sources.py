"""Work queues and periodic passes of a controller."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import orjson
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from kcm.actors.engine.controller import Controller, ControllerSettings, PassSettings, QueueSettings
from kcm.actors.reconciliation import Enqueue, Reconciliation, RequeueAfter, patch
from kcm.protocols.messages.commands import Submit
from kcm.protocols.messages.eviction import NodeDue
from kcm.protocols.messages.lifecycle import Attached, Describe, Drain, Drained, Pause, Resume
from kcm.protocols.messages.outcomes import Conflict, Done, Settled
from kcm.protocols.resources import NODES
from kcm.runtime.metrics.families import WORKQUEUE_ADDS, WORKQUEUE_DEPTH, WORKQUEUE_WORK_DURATION
from kcm.runtime.metrics.meters import WorkQueueMeter
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.simulation.world import World
from kcm.runtime.system.actor import ActorSpec
from kcm.runtime.system.vitals import Vitals
from tests.support.scripted import Probe


def row(key: str) -> NodeDue:
    return NodeDue("rows", key, "")


def cell(key: str, number: int) -> NodeDue:
    return NodeDue("cells", key, str(number))


ME = "controller:sweeper"
PEERS = ("dispatcher", "event-recorder", "controller-manager")
Cell = tuple[str, int]


class Sweeper:
    """Controller with two queues of different key types and one pass; it records its work with the times."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self.seen: list[tuple[float, Any]] = []
        self.sweep: Callable[[], Reconciliation] = self._sweep_nothing

    @property
    def keys(self) -> list[Any]:
        return [key for _, key in self.seen]

    def times(self, key: Any) -> list[float]:
        return [at for at, seen in self.seen if seen == key]

    def on_message(self, message: Any) -> Iterable[Enqueue]:
        """Enqueue a key. NodeDue stands for any message; its zone names the queue."""
        assert isinstance(message, NodeDue)
        key = (message.node, int(message.uid)) if message.zone == "cells" else message.node
        return [Enqueue(message.zone, key)]

    def reconcile(self, key: str) -> Reconciliation:
        self._note(key)
        if key.startswith("split "):
            yield Enqueue("cells", (key, 1))
            yield Enqueue("cells", (key, 2), after=5.0)
        if key == "waits":
            yield patch(NODES, key, {})
        return None

    def reconcile_cell(self, cell: Cell) -> Reconciliation:
        self._note(cell)
        if cell[1] < 0:
            yield patch(NODES, cell[0], {})
        return None

    def run_pass(self) -> Reconciliation:
        self._note("pass")
        return (yield from self.sweep())

    def _sweep_nothing(self) -> Reconciliation:
        yield from ()
        return None

    def _note(self, key: Any) -> None:
        self.seen.append((self._monotonic(), key))


class Scene:
    """Controller without watches; the test plays its dispatcher and its manager."""

    def __init__(self, log: FilteringBoundLogger, *, every: float = 10.0, concurrency: int = 5) -> None:
        self.world = World(log=log)
        self.system = self.world.system()
        self.kept: dict[str, list[Any]] = {name: [] for name in PEERS}
        for name in PEERS:
            self.system.spawn(ActorSpec(name=name, build=self._probe(name)))
        self.sweeper = Sweeper(self.world.clock.monotonic)
        self.metrics = Metrics()
        settings = ControllerSettings(
            name="sweeper",
            client="sweeper",
            component="sweeper",
            queues=(
                QueueSettings(name="rows", concurrency=concurrency),
                QueueSettings(name="cells", reconcile=Sweeper.reconcile_cell, concurrency=1),
            ),
            passes=(
                PassSettings(
                    name="sweep", every=every, run=Sweeper.run_pass, meter=WorkQueueMeter(self.metrics, "sweeps")
                ),
            ),
        )
        self.spec = ActorSpec(
            name=ME,
            build=lambda context: Controller(
                context, settings=settings, tables={}, build=lambda _tables: self.sweeper, vitals=Vitals(), seed=1
            ),
        )
        self.system.spawn(self.spec)

    def _probe(self, name: str) -> Callable[[Any], Probe]:
        return lambda context: Probe(context, kept=self.kept[name])

    def begin(self, *messages: NodeDue) -> None:
        """Let the controller begin to act. messages: pending messages that enqueue keys."""
        self.tell(*messages)
        self.tell(Attached(1, {}, []))

    def tell(self, *messages: Any, then: float = 0.0) -> None:
        for message in messages:
            self.system.tell(ME, message)
        self.world.run_for(then)

    @property
    def submits(self) -> list[Submit]:
        return [message for message in self.kept["dispatcher"] if isinstance(message, Submit)]

    def describe(self) -> dict[str, Any]:
        found: dict[str, Any] = orjson.loads(self.world.ask(self.system, ME, Describe()).facts)
        return found


# Queues.


def test_each_queue_has_separate_keys_and_function(log: FilteringBoundLogger) -> None:
    scene = Scene(log)
    scene.begin(row("a"), cell("a", 1))
    assert set(scene.sweeper.keys) == {"a", ("a", 1), "pass"}


def test_a_full_queue_starves_neither_another_nor_a_pass(log: FilteringBoundLogger) -> None:
    scene = Scene(log)
    scene.begin(*(row(f"r{n}") for n in range(100)), *(cell("c", n) for n in range(100)))
    first = scene.sweeper.keys[:21]
    assert "pass" in first
    assert sum(isinstance(key, tuple) for key in first) == 10


def test_each_queue_has_its_own_concurrency(log: FilteringBoundLogger) -> None:
    scene = Scene(log, concurrency=2)
    scene.begin(cell("x", -1), cell("y", -1), row("a"), row("waits"))
    assert {(submit.queue, submit.key) for submit in scene.submits} == {("cells", "('x', -1)"), ("rows", "waits")}
    facts = scene.describe()
    assert {name: (queue["in_work"], queue["queued"], queue["oldest"]) for name, queue in facts["queues"].items()} == {
        "rows": (1, 0, "waits"),
        "cells": (1, 1, "('x', -1)"),
    }


def test_a_reconciliation_enqueues_keys_of_another_queue_now_or_later(log: FilteringBoundLogger) -> None:
    scene = Scene(log)
    scene.begin(row("split r"))
    scene.world.run_for(6.0)
    (first,), (second,) = scene.sweeper.times(("split r", 1)), scene.sweeper.times(("split r", 2))
    assert second - first == 5.0


def test_unknown_queue_fails_only_the_pass_that_names_it(log: FilteringBoundLogger, logs: LogCapture) -> None:
    scene = Scene(log)

    def sweep() -> Reconciliation:
        yield Enqueue("columns", 1)
        return None

    scene.sweeper.sweep = sweep
    scene.begin(row("a"))
    assert scene.system.is_alive(ME)
    assert "a" in scene.sweeper.keys
    (entry,) = [entry for entry in logs.entries if entry["event"] == "pass failed, retrying"]
    assert (entry["pass"], entry["error"]) == ("sweep", "KeyError: 'columns'")


# Passes.


def test_a_pass_begins_once_the_controller_may_act_and_then_every_period(log: FilteringBoundLogger) -> None:
    scene = Scene(log)
    scene.world.run_for(7.0)
    assert scene.sweeper.seen == []
    scene.begin()
    scene.world.run_for(25.0)
    assert scene.sweeper.times("pass") == [7.0, 17.0, 27.0]


def test_period_begins_at_the_end_of_a_pass_and_passes_never_overlap(log: FilteringBoundLogger) -> None:
    scene = Scene(log)

    def sweep() -> Reconciliation:
        yield patch(NODES, "n", {})
        return None

    scene.sweeper.sweep = sweep
    scene.begin()
    scene.world.run_for(15.0)
    (submit,) = scene.submits
    assert (submit.queue, submit.key) == ("sweep", "")
    scene.tell(Settled(submit.ticket, 0, Done(b'{"metadata":{"name":"n","resourceVersion":"5"}}')))
    scene.world.run_for(20.0)
    assert scene.sweeper.times("pass") == [0.0, 25.0]


def test_pass_may_return_its_next_delay(log: FilteringBoundLogger) -> None:
    scene = Scene(log)

    def sweep() -> Reconciliation:
        yield from ()
        return RequeueAfter(3.0)

    scene.sweeper.sweep = sweep
    scene.begin()
    scene.world.run_for(7.0)
    assert scene.sweeper.times("pass") == [0.0, 3.0, 6.0]


def test_a_pass_without_a_period_runs_once(log: FilteringBoundLogger) -> None:
    scene = Scene(log, every=math.inf)
    scene.begin()
    scene.world.run_for(100_000.0)
    assert scene.sweeper.times("pass") == [0.0]


def test_failed_pass_is_retried_with_backoff_up_to_its_period(log: FilteringBoundLogger) -> None:
    scene = Scene(log, every=35.0)

    def sweep() -> Reconciliation:
        yield from ()
        if len(scene.sweeper.seen) < 5:
            raise RuntimeError("planted")
        return None

    scene.sweeper.sweep = sweep
    scene.begin()
    scene.world.run_for(200.0)
    assert scene.sweeper.times("pass") == [0.0, 10.0, 30.0, 65.0, 100.0, 135.0, 170.0]


def test_failed_command_fails_the_pass(log: FilteringBoundLogger, logs: LogCapture) -> None:
    scene = Scene(log)

    def sweep() -> Reconciliation:
        outcome = yield patch(NODES, "n", {})
        raise ValueError(outcome.message)

    scene.sweeper.sweep = sweep
    scene.begin()
    scene.world.run_for(1.0)
    (submit,) = scene.submits
    scene.tell(Settled(submit.ticket, 0, Conflict("newer")))
    assert scene.describe()["passes"]["sweep"] == {"running_seconds": 0.0, "due_in_seconds": 10.0, "failures": 1}
    assert [entry["attempt"] for entry in logs.entries if entry["event"] == "pass failed, retrying"] == [1]


def test_paused_controller_begins_no_pass_and_draining_one_finishes_them(log: FilteringBoundLogger) -> None:
    scene = Scene(log)
    scene.begin()
    scene.tell(Pause("sweeper"), then=30.0)
    assert scene.sweeper.times("pass") == [0.0]
    scene.tell(Resume("sweeper"))
    assert scene.sweeper.times("pass") == [0.0, 30.0]
    scene.tell(Drain(), then=60.0)
    assert scene.sweeper.times("pass") == [0.0, 30.0]
    assert Drained(ME) in scene.kept["controller-manager"]


def test_named_pass_is_counted_as_a_queue_with_one_key(log: FilteringBoundLogger) -> None:
    scene = Scene(log)
    scene.begin()
    scene.world.run_for(25.0)
    assert scene.metrics.counter(WORKQUEUE_ADDS, "sweeps").value == 3.0
    assert scene.metrics.gauge(WORKQUEUE_DEPTH, "sweeps").value == 0.0
    assert sum(scene.metrics.histogram(WORKQUEUE_WORK_DURATION, "sweeps").counts) == 3
