"""Cost of the journal: python -m tests.bench.journal

Measures alternately without and with a journal: the processor time of a message between two actors, and that of a
rollout of a hundred pods in the simulator, which includes the API server and the nodes.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from kcm.actors.app.system import ControllerSystem
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.messages.lifecycle import Pause, Resume
from kcm.protocols.resources import DEPLOYMENTS
from kcm.runtime.scheduling.clock import SystemClock
from kcm.runtime.system.actor import Actor, ActorSpec
from kcm.runtime.system.actor_system import ActorSystem
from kcm.runtime.system.journal import JournalWriter, RecordedRun

ROUNDS, MESSAGES, PODS = 5, 20_000, 100
MAX_BYTES = 1_000_000_000  # of a journal file, so that it is never rotated


def drop(*_: Any) -> Any:
    raise structlog.DropEvent


class Echo(Actor):
    """Sends Resume to `to` for each Pause, and Pause for each Resume, until it has received its half of MESSAGES."""

    def __init__(self, context: Any, *, to: str, done: threading.Event) -> None:
        super().__init__(context)
        self._to, self._done, self._left = to, done, MESSAGES // 2

    def receive(self, message: Any) -> None:
        self._left -= 1
        if self._left == 0:
            self._done.set()
        else:
            self.tell(self._to, Resume("x") if isinstance(message, Pause) else Pause("x"))


def writer(directory: str, clock: Any) -> JournalWriter:
    run = RecordedRun(version="bench", seed=0, arguments=[], controllers=[])
    return JournalWriter(Path(directory) / "journal", run=run, clock=clock, largest=MAX_BYTES, files=1)


def message_seconds(directory: str | None) -> float:
    """Return the processor seconds per message. The journal is in `directory`; None turns it off."""
    clock, done = SystemClock(), threading.Event()
    system = ActorSystem(clock=clock, log=structlog.wrap_logger(None, processors=[drop]))
    journal = system.journal = writer(directory, clock) if directory is not None else None
    for name, other in (("one", "two"), ("two", "one")):
        system.spawn(ActorSpec(name=name, build=partial(Echo, to=other, done=done)))
    began = time.process_time()
    system.tell("one", Pause("x"))
    done.wait(60)
    took = time.process_time() - began
    for name in ("one", "two"):
        system.stop(name, timeout=5)
    if journal is not None:
        journal.close()
    return took / MESSAGES


def rollout_seconds(directory: str | None) -> float:
    """Return the processor seconds per pod. The journal is in `directory`; None turns it off."""
    cluster = SimulatedCluster(log=structlog.wrap_logger(None, processors=[drop]), seed=1)
    journals = []

    def record(name: str, system: ControllerSystem) -> None:
        if directory is not None and name == "manager":
            system.actors.journal = writer(directory, system.clock)
            journals.append(system.actors.journal)

    cluster.started.append(record)
    cluster.hollow_nodes(nodes=3)
    cluster.manager()
    container = {"name": "c", "image": "i"}
    template = {"metadata": {"labels": {"app": "b"}}, "spec": {"containers": [container]}}
    spec = {"replicas": PODS, "selector": {"matchLabels": {"app": "b"}}, "template": template}
    cluster.create(
        DEPLOYMENTS, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "b"}, "spec": spec}
    )
    began = time.process_time()
    cluster.run_for(60)
    took = time.process_time() - began
    for journal in journals:
        journal.close()
    return took / PODS


def compare(name: str, measure: Callable[[str | None], float]) -> None:
    plain, journaled, sizes = [], [], []
    for _ in range(ROUNDS):
        plain.append(measure(None))
        with tempfile.TemporaryDirectory() as directory:
            journaled.append(measure(directory))
            sizes.append((Path(directory) / "journal").stat().st_size)
    without, with_it = (statistics.median(values) * 1e6 for values in (plain, journaled))
    print(f"{name}: {without:.1f} µs without, {with_it:.1f} µs with (+{with_it - without:.1f}); {sizes[-1]:,} bytes")


def main() -> None:
    compare(f"a message, of {MESSAGES}", message_seconds)
    compare(f"a pod, of {PODS}", rollout_seconds)


if __name__ == "__main__":
    main()
