"""Timeouts of queues and of the flag: overdue syncs end with an error, and a retry waits for the writes in flight."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from kcm.actors.app.system import ControllerSystem
from kcm.actors.options import Options
from kcm.actors.reconciliation import Reconciliation, Watch, get_live, itself, must, patch
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.actors.simulation.cluster import SimulatedCluster
from kcm.protocols.objects import Key
from kcm.protocols.resources import REPLICASETS
from kcm.runtime.faults.vocabulary import parse_faults
from kcm.runtime.metrics.families import RECONCILE_ERRORS
from tests.support.objects import replica_set

NAME = "label-controller"
WEB = "replicasets.apps default/web"
OVERDUE = "SyncTimeoutError: sync of label default/web by label-controller did not end within 5 s, waiting for"
HELD = "request-held 2.. process=manager actor=* resource=replicasets object=default/web most=1 seconds=20"


class Labels:
    """Reconciler that writes and reads its ReplicaSet. begun, closed: virtual times, of each sync."""

    def __init__(self, now: Callable[[], float], *, reads: bool) -> None:
        self._now, self._reads = now, reads
        self.begun: list[float] = []
        self.closed: list[float] = []

    def reconcile(self, key: Key) -> Reconciliation:
        self.begun.append(self._now())
        try:
            if self._reads:
                yield from must(get_live(REPLICASETS, key))
            else:
                yield from must(patch(REPLICASETS, key, {"metadata": {"labels": {"seen": "yes"}}}))
        except GeneratorExit:
            self.closed.append(self._now())
            raise


class Scene:
    def __init__(self, log: FilteringBoundLogger, *, reads: bool, timeout: float, own: float | None = None) -> None:
        """Run a controller for a minute. timeout: of the flag. own: of its queue."""
        self.cluster = SimulatedCluster(log=log, faults=parse_faults(HELD))
        self.reconciler = Labels(self.cluster.clock.monotonic, reads=reads)
        spec = ControllerSpec(
            name=NAME,
            queues=(Queue(watches=(Watch(REPLICASETS, to=itself),), timeout=own),),
            build=lambda _context: self.reconciler,
        )
        options = Options()
        options = replace(options, generic=replace(options.generic, reconcile_timeout=timeout))
        self.system: ControllerSystem = self.cluster.manager(controllers=[spec], options=options)
        self.cluster.run_for(3.0)
        self.cluster.create(REPLICASETS, replica_set("web"))
        self.cluster.run_for(60.0)

    @property
    def timeouts(self) -> float:
        return self.system.metrics.counter(RECONCILE_ERRORS, NAME, "timeout").value


def logged(logs: LogCapture, event: str) -> Iterator[tuple[str, str]]:
    return ((entry["key"], entry["error"]) for entry in logs.entries if entry["event"] == event)


def test_overdue_sync_that_waits_for_a_read_is_retried_at_once(log: FilteringBoundLogger, logs: LogCapture) -> None:
    scene = Scene(log, reads=True, timeout=5.0)
    begun = scene.reconciler.begun
    assert len(begun) == 2
    assert begun[1] - begun[0] == pytest.approx(5.0, abs=0.1)
    assert scene.reconciler.closed == [pytest.approx(begun[0] + 5.0, abs=0.1)]
    assert list(logged(logs, "reconcile failed, retrying")) == [("default/web", f"{OVERDUE} get {WEB}")]
    assert scene.timeouts == 1.0


def test_overdue_sync_is_retried_after_its_write_in_flight(log: FilteringBoundLogger, logs: LogCapture) -> None:
    scene = Scene(log, reads=False, timeout=5.0)
    begun = scene.reconciler.begun
    assert scene.reconciler.closed == [pytest.approx(begun[0] + 5.0, abs=0.1)]
    assert begun[1] - begun[0] == pytest.approx(20.0, abs=0.5), "no retry runs beside the write"
    error = f"{OVERDUE} patch {WEB}"
    (warned,) = logged(logs, "reconcile timed out, retrying once its writes have ended")
    assert warned == ("default/web", error)
    assert list(logged(logs, "reconcile failed, retrying")) == [("default/web", error)]
    (shown,) = scene.cluster.list(REPLICASETS)
    assert shown["metadata"]["labels"]["seen"] == "yes", "the write was carried out"
    assert scene.timeouts == 1.0


@pytest.mark.parametrize("timeout", [0.0, 30.0])
def test_sync_within_its_deadline_is_not_ended(timeout: float, log: FilteringBoundLogger) -> None:
    scene = Scene(log, reads=False, timeout=timeout)
    assert scene.reconciler.closed == []
    assert scene.timeouts == 0.0


@pytest.mark.parametrize(("own", "flag", "timeouts"), [(5.0, 0.0, 1.0), (5.0, 300.0, 1.0), (0.0, 5.0, 0.0)])
def test_timeout_of_a_queue_precedes_the_flag(
    own: float, flag: float, timeouts: float, log: FilteringBoundLogger, logs: LogCapture
) -> None:
    scene = Scene(log, reads=True, timeout=flag, own=own)
    assert scene.timeouts == timeouts
    failed = [("default/web", f"{OVERDUE} get {WEB}")] if timeouts else []
    assert list(logged(logs, "reconcile failed, retrying")) == failed


@pytest.mark.parametrize(("timeout", "error"), [(-1.0, ValueError), ("5", TypeError)])
def test_invalid_timeout_of_a_queue_is_rejected(timeout: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="timeout of queue 'pods' takes a number"):
        Queue(name="pods", timeout=timeout)
