"""Quotas are checked by the clock of the manager that counts."""

from __future__ import annotations

import pytest

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.observer import Committed
from kcm.actors.simulation.invariants.quotas import QuotasAreNotExceeded
from kcm.protocols.objects import encode_object
from kcm.protocols.resources import CONFIGMAPS, PODS, RESOURCE_QUOTAS
from kcm.runtime.apiserver.storage.store import StoreChange
from kcm.runtime.faults.vocabulary import parse_faults
from kcm.runtime.logs.standard_log import quiet_log
from tests.support.objects import pod


@pytest.mark.parametrize(("seconds", "wrong"), [(-3600, True), (3600, False)])
def test_pods_that_are_over_by_a_clock_that_is_ahead_count_for_nothing(seconds: int, *, wrong: bool) -> None:
    """False alarm, seed 15000687: a manager whose clock was an hour ahead counted no pods that were being deleted."""
    jump = parse_faults(f"clock-jumped 1..60 seconds={seconds} process=manager*")
    cluster = SimulatedCluster(log=quiet_log(), faults=jump)
    for name in ("p1", "p2"):
        cluster.create(PODS, pod(name, node="n1"))
        cluster.delete(PODS, f"default/{name}")
    status = {"hard": {"pods": "1"}, "used": {"pods": "0"}}
    cluster.create(RESOURCE_QUOTAS, {"metadata": {"name": "quota"}, "spec": {"hard": {"pods": "1"}}})
    cluster.merge(RESOURCE_QUOTAS, "default/quota", {"status": status}, subresource="status")
    made = cluster.create(CONFIGMAPS, {"metadata": {"name": "c"}})
    raw, texts = encode_object(made), list[str]()
    change = StoreChange("ADDED", "configmaps", "default/c", 99, raw, b"")
    QuotasAreNotExceeded(cluster).observe(Committed((change,)), texts.append)
    assert bool(texts) is wrong, texts
