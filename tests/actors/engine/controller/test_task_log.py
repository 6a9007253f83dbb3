"""Log lines of a reconciler contain the key."""

from __future__ import annotations

from typing import Any

from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from kcm.actors.engine.controller import InHand, task_log
from kcm.actors.reconciliation import Reconciliation, Watch, itself, list_live, must
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Pass, Queue
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import Key
from kcm.protocols.resources import PODS
from tests.support.objects import pod


class Talker:
    def __init__(self, context: ControllerContext) -> None:
        self._log = context.log.bind(part="talker")
        self._log.info("built")

    def reconcile(self, key: Key) -> Reconciliation:
        self._log.info("before")
        yield from must(list_live(PODS))  # other keys are synced meanwhile
        self._log.info("after", more=1)
        self._log.info("about another", key="other")
        return None

    def sweep(self) -> Reconciliation:
        yield from must(list_live(PODS))
        self._log.info("swept")
        return None


TALKER = ControllerSpec(
    name="talker-controller",
    queues=(Queue("talker", watches=(Watch(PODS, to=itself),)),),
    passes=(Pass("sweep", every=lambda _options: 3600.0, run=Talker.sweep),),
    build=Talker,
)


def test_each_line_has_the_controller_and_the_key_or_the_pass(cluster: SimulatedCluster, logs: LogCapture) -> None:
    for name in ("a", "b"):
        cluster.create(PODS, pod(name))
    cluster.manager(controllers=[TALKER])
    cluster.run_for(10.0)
    mine = [entry for entry in logs.entries if entry.get("part") == "talker"]
    assert {entry["controller"] for entry in mine} == {"talker-controller"}

    def keys(event: str) -> list[Any]:
        return sorted(entry.get("key") or entry.get("pass") for entry in mine if entry["event"] == event)

    assert keys("before") == keys("after") == ["default/a", "default/b"]
    assert keys("about another") == ["other", "other"], "what a line says itself takes precedence"
    assert keys("swept") == ["sweep"]
    (built,) = [entry for entry in mine if entry["event"] == "built"]
    assert "key" not in built


def test_log_methods_are_those_of_the_logger(log: FilteringBoundLogger) -> None:
    # No wrapper is in between, so that Python's logging shows the frame of the caller.
    assert type(task_log(log.bind(), InHand()).info) is type(log.bind().info)
