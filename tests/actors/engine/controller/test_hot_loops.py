"""Hot loops: an object that its controller writes again and again is logged and counted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from kcm.actors.engine.controller.own_writes import LOOP_LOOKS, MOST_OBJECTS, HotLoop, HotLoops
from kcm.actors.reconciliation import Reconciliation, RequeueAfter, Watch, itself, must, patch
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.actors.simulation.cluster import SimulatedCluster
from kcm.protocols.messages.commands import Command, Create, Delete, Get, Patch, Update
from kcm.protocols.objects import Key
from kcm.protocols.resources import REPLICASETS
from kcm.runtime.metrics.families import HOT_LOOPS
from tests.support.objects import replica_set

NAME = "label-controller"


def loops_of(rates: Iterator[int], command: Command) -> list[int]:
    """Return the numbers of the minutes that find a loop. rates: number of writes in each minute."""
    loops, found = HotLoops(0.0), []
    for minute, writes in enumerate(rates, 1):
        for _ in range(writes):
            loops.wrote(command)
        if list(loops.look(60.0 * minute)):
            found.append(minute)
    return found


BUSY = (60,) * LOOP_LOOKS  # writes in each minute
UPDATE = Update("apps/v1/replicasets", "default/web", b"")


@pytest.mark.parametrize(
    ("writes", "found"),
    [
        ((*BUSY, 60), [10]),
        ((1200,) * 9, []),  # the busy minutes of a rollout
        ((*BUSY[1:], 59, *BUSY[1:]), []),
        ((*BUSY, 0, *BUSY), [10, 21]),  # a second loop
        ((1200,) * 10, [10]),
    ],
)
def test_object_that_is_written_each_second_for_ten_minutes_is_a_hot_loop(
    writes: tuple[int, ...], found: list[int]
) -> None:
    assert loops_of(iter(writes), UPDATE) == found


@pytest.mark.parametrize(
    ("command", "counts"),
    [
        (UPDATE, True),
        (Patch("v1/nodes", "n", b"", subresource="status"), True),
        (Delete("v1/pods", "d/a"), True),
        (Create("v1/pods", "d", b""), False),
        (Get("v1/pods", "d/a"), False),
    ],
)
def test_only_writes_of_existing_objects_count(command: Command, counts: bool) -> None:
    assert bool(loops_of(iter(BUSY), command)) is counts


def test_number_of_counted_objects_is_limited() -> None:
    loops = HotLoops(0.0)
    for number in range(MOST_OBJECTS + 10):
        loops.wrote(Delete("v1/pods", f"d/{number}"))
    assert len(loops._writes) == MOST_OBJECTS


class Labels:
    """Reconciler that patches its ReplicaSet. endless: with another value at each sync, which wakes it again."""

    def __init__(self, *, endless: bool) -> None:
        self._endless, self._syncs = endless, 0

    def reconcile(self, key: Key) -> Reconciliation:
        self._syncs += 1
        value = str(self._syncs) if self._endless else "yes"
        yield from must(patch(REPLICASETS, key, {"metadata": {"labels": {"seen": value}}}))
        return RequeueAfter(10.0)


@pytest.mark.parametrize("endless", [True, False])
def test_controller_that_its_own_writes_wake_is_named_with_the_object(
    endless: bool, log: FilteringBoundLogger, logs: LogCapture
) -> None:
    cluster = SimulatedCluster(log=log)
    spec = ControllerSpec(
        name=NAME,
        queues=(Queue(watches=(Watch(REPLICASETS, to=itself),)),),
        build=lambda _context: Labels(endless=endless),
        qps=2.0,
        burst=2,
    )
    system = cluster.manager(controllers=[spec])
    cluster.create(REPLICASETS, replica_set("web"))
    cluster.run_for(700.0)
    loops = [entry for entry in logs.entries if entry["event"].startswith("hot loop: ")]
    named = [(entry["controller"], entry["resource"], entry["key"]) for entry in loops]
    assert named == ([(NAME, "replicasets.apps", "default/web")] if endless else [])
    assert system.metrics.gauge(HOT_LOOPS, NAME).value == float(endless)
    if endless:
        assert loops[0]["writes_per_second"] == pytest.approx(2.0, abs=0.2)
        cluster.delete(REPLICASETS, "default/web")
        cluster.run_for(130.0)
        assert system.metrics.gauge(HOT_LOOPS, NAME).value == 0.0


def test_hot_loop_names_the_rate() -> None:
    loops = HotLoops(0.0)
    for minute in range(1, LOOP_LOOKS + 1):
        for _ in range(120):
            loops.wrote(UPDATE)
        list(loops.look(60.0 * minute))
    assert loops.loops == (HotLoop("apps/v1/replicasets", "default/web", 2.0),)
