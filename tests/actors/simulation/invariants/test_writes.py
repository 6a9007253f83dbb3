"""What counts as a hot loop."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from structlog.typing import FilteringBoundLogger

from actors.simulation import SimulatedCluster
from actors.simulation.invariants.observing import Committed, Sent
from actors.simulation.invariants.writes import MOST_CALLS, WINDOW, NoHotLoop
from protocols.objects import encode_object
from runtime.apiserver.storage.store import ADDED, MODIFIED, Change
from runtime.client.api import Request
from tests.support.objects import running_pod

BUDGET = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/b/status"
REPLICA_SET = "/apis/apps/v1/namespaces/default/replicasets/r/status"


def changed(namespace: str = "default", *, ready: tuple[bool, bool] = (False, True), type: str = MODIFIED) -> Change:
    """A pod that was ready, or not, and now is."""
    before, after = (encode_object(running_pod("p", namespace=namespace, ready=one)) for one in ready)
    return Change(type, "pods", f"{namespace}/p", 8, after, before if type == MODIFIED else b"")


@pytest.mark.parametrize(
    ("path", "changes", "loops"),
    [
        (BUDGET, [], True),
        (BUDGET, [changed()], False),  # A false alarm: half of the writes failed while pods were evicted and made anew.
        (BUDGET, [changed(type=ADDED)], False),
        (BUDGET, [changed("other")], True),
        (BUDGET, [changed(ready=(True, True))], True),
        (REPLICA_SET, [changed()], True),
    ],
    ids=["nothing", "ready", "new", "elsewhere", "the same", "of no budget"],
)
def test_a_pod_that_counts_otherwise_is_a_reason_to_write_a_budget(
    log: FilteringBoundLogger, path: str, changes: Sequence[Change], *, loops: bool
) -> None:
    invariant, failures = NoHotLoop(SimulatedCluster(log=log)), list[str]()
    invariant.observe(Committed(changes), failures.append)
    for _ in range(MOST_CALLS + 1):
        invariant.observe(Sent("manager", "me", Request(method="PUT", path=path), by_fenced=False), failures.append)
    assert bool(failures) is loops


def test_each_reason_is_one_for_one_write_and_not_for_ever(log: FilteringBoundLogger) -> None:
    cluster = SimulatedCluster(log=log)
    invariant, failures = NoHotLoop(cluster), list[str]()
    write = Sent("manager", "me", Request(method="PUT", path=BUDGET), by_fenced=False)
    invariant.observe(Committed([changed(), changed()]), failures.append)
    for _ in range(MOST_CALLS + 2):
        invariant.observe(write, failures.append)
    assert not failures
    invariant.observe(write, failures.append)
    assert failures
    failures.clear()
    cluster.run_for(WINDOW + 1.0)
    for _ in range(MOST_CALLS + 1):
        invariant.observe(write, failures.append)
    assert failures
