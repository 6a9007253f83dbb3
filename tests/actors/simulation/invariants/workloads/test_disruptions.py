"""Pods that the status of a PodDisruptionBudget may count: all except for those whose eviction it contains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from types import SimpleNamespace
from typing import Any

import pytest

from kcm.actors.simulation.invariants.observer import Committed, Observation, ProcessStarted, Submitted
from kcm.actors.simulation.invariants.workloads.disruptions import EVICTED, SENDER, CountsNoEvictedPod
from kcm.protocols.messages.commands import Command, Get, Submit, Update
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.pods import pod_facts
from kcm.protocols.resources import POD_DISRUPTION_BUDGETS, PODS
from kcm.runtime.apiserver.storage.store import ADDED, MODIFIED, StoreChange
from kcm.runtime.simulation.clock import VirtualClock
from kcm.runtime.tables.table import Table
from tests.support.objects import running_pod, stored

LABELS = {"app": "web"}


def change(type_: str, storage: str, obj: Object) -> StoreChange:
    return StoreChange(type_, storage, "default/x", int(obj["metadata"]["resourceVersion"]), encode_object(obj), b"")


def budget(version: int) -> Object:
    status = {"currentHealthy": 1, "desiredHealthy": 1, "disruptionsAllowed": 0}
    meta = {"name": "budget", "namespace": "default"}
    return stored({"metadata": meta, "spec": {"selector": {"matchLabels": LABELS}}, "status": status}, version)


def judged(tables: dict[str, Table], happenings: Callable[[Any], Iterable[Observation]]) -> list[str]:
    """Return the violations after these observations."""
    system: Any = SimpleNamespace(tables=tables)
    cluster: Any = SimpleNamespace(clock=VirtualClock(), injector=SimpleNamespace(faults=()))
    texts, invariant = list[str](), CountsNoEvictedPod(cluster)
    for happening in chain([ProcessStarted("manager", system)], happenings(system)):
        invariant.observe(happening, texts.append)
    return texts


def table_of_pods(version: int) -> Table:
    table = Table(PODS, derive=pod_facts)
    table.claim().replace([], version)
    return table


def submitted(system: Any, ticket: int, command: Command) -> Submitted:
    submit = Submit(SENDER, 1, "disruption-controller", ticket, (command,), "disruption", "default/budget")
    return Submitted("manager", system, submit)


@pytest.mark.parametrize(("created", "is_wrong"), [(5, True), (9, False)])
def test_an_eviction_is_noted_only_in_a_budget_that_was_there(created: int, *, is_wrong: bool) -> None:
    """False alarm: pods were evicted before the budget was created, and a late table still contained them."""
    pod = running_pod("web", labels=LABELS)
    evicted = {"type": "DisruptionTarget", "status": "True", "reason": EVICTED}
    gone = {**pod, "status": {**pod["status"], "conditions": [evicted]}}
    status = Update(POD_DISRUPTION_BUDGETS.id, "default/budget", encode_object(budget(9)), "status")

    def happenings(system: Any) -> Iterator[Observation]:
        yield Committed([change(ADDED, "pods", stored(pod, 6))])
        yield Committed([change(MODIFIED, "pods", stored(gone, 8))])
        yield Committed([change(ADDED, "poddisruptionbudgets.policy", budget(created))])
        yield submitted(system, 1, status)

    texts = judged({PODS.id: table_of_pods(6)}, happenings)
    assert bool(texts) is is_wrong, texts


@pytest.mark.parametrize(("asks", "is_wrong"), [(False, True), (True, False)])
def test_pods_may_be_those_that_were_there_before_a_scale_was_asked_for(*, asks: bool, is_wrong: bool) -> None:
    """False alarm: a node failed after the controller had read a scale and before it wrote the status."""
    pod = running_pod("web", labels=LABELS)
    failed = {**pod, "status": {**pod["status"], "conditions": [{"type": "Ready", "status": "False"}]}}
    status = Update(POD_DISRUPTION_BUDGETS.id, "default/budget", encode_object(budget(5)), "status")
    tables = {PODS.id: table_of_pods(6)}

    def happenings(system: Any) -> Iterator[Observation]:
        yield Committed([change(ADDED, "poddisruptionbudgets.policy", budget(5))])
        yield Committed([change(ADDED, "pods", stored(pod, 6))])
        if asks:
            yield submitted(system, 1, Get("apps/v1/replicasets", "default/web", "scale"))
        yield Committed([change(MODIFIED, "pods", stored(failed, 8))])
        tables[PODS.id] = table_of_pods(8)
        yield submitted(system, 2, status)

    texts = judged(tables, happenings)
    assert bool(texts) is is_wrong, texts
