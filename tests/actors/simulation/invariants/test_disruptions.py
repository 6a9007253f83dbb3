"""Which pods the status of a PodDisruptionBudget may count: not those whose eviction is noted in it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from actors.simulation.invariants.disruptions import EVICTED, SENDER, CountsNoEvictedPod
from actors.simulation.invariants.observing import Committed, ProcessStarted, Submitted
from protocols.messages.commands import Submit, Update
from protocols.objects import Object, encode_object
from protocols.pods import pod_facts
from protocols.resources import POD_DISRUPTION_BUDGETS, PODS
from runtime.apiserver.storage.store import ADDED, MODIFIED, Change
from runtime.simulation.clock import VirtualClock
from runtime.tables.table import Table
from tests.support.objects import running_pod, stored

LABELS = {"app": "web"}


def change(type_: str, storage: str, obj: Object) -> Change:
    return Change(type_, storage, "default/x", int(obj["metadata"]["resourceVersion"]), encode_object(obj), b"")


def budget(version: int) -> Object:
    status = {"currentHealthy": 1, "desiredHealthy": 1, "disruptionsAllowed": 0}
    meta = {"name": "budget", "namespace": "default"}
    return stored({"metadata": meta, "spec": {"selector": {"matchLabels": LABELS}}, "status": status}, version)


@pytest.mark.parametrize(("created", "is_wrong"), [(5, True), (9, False)])
def test_an_eviction_is_noted_only_in_a_budget_that_was_there(created: int, *, is_wrong: bool) -> None:
    """A false alarm: pods were evicted while there was no budget, and a late table showed them to the next one."""
    tables = {PODS.id: Table(PODS, derive=pod_facts)}
    tables[PODS.id].claim().replace([], 6)
    system: Any = SimpleNamespace(tables=tables)
    cluster: Any = SimpleNamespace(clock=VirtualClock(), injector=SimpleNamespace(faults=()))
    texts, invariant = list[str](), CountsNoEvictedPod(cluster)
    pod = running_pod("web", labels=LABELS)
    evicted = {"type": "DisruptionTarget", "status": "True", "reason": EVICTED}
    gone = {**pod, "status": {**pod["status"], "conditions": [evicted]}}
    status = Update(POD_DISRUPTION_BUDGETS.id, "default/budget", encode_object(budget(9)), "status")
    for one in (
        ProcessStarted("manager", system),
        Committed([change(ADDED, "pods", stored(pod, 6))]),
        Committed([change(MODIFIED, "pods", stored(gone, 8))]),
        Committed([change(ADDED, "poddisruptionbudgets.policy", budget(created))]),
        Submitted("manager", system, Submit(SENDER, 1, "disruption-controller", 1, (status,))),
    ):
        invariant.observe(one, texts.append)
    assert bool(texts) is is_wrong, texts
