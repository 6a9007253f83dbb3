"""Mutants of the disruption controller."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from kcm.actors.controllers.shared.status import write_status
from kcm.actors.controllers.workloads import daemonset, disruption
from kcm.actors.controllers.workloads.disruption.pod_counts import RecentEvictions
from kcm.actors.controllers.workloads.disruption.reconciler import DisruptionReconciler
from kcm.actors.reconciliation import Step
from kcm.actors.simulation.campaign.domain_settings import BUDGETS_SETTING
from kcm.actors.simulation.campaign.setting import Setting
from kcm.actors.simulation.trials.actions import create
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Fleet, Scenario
from kcm.protocols.objects import Key, Object
from kcm.protocols.resources import DAEMONSETS, POD_DISRUPTION_BUDGETS
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from kcm.runtime.scheduling.work_queue import WorkQueue
from tests.faults.mutants.mutant import Mutant


@contextmanager
def counts_are_written_over_an_eviction() -> Iterator[None]:
    """After a conflict, the old counts are written to the version that records an eviction."""

    def write(_self: DisruptionReconciler, _key: Key, budget: Object, status: Object) -> Step[None]:
        yield from write_status(POD_DISRUPTION_BUDGETS, budget, status, retries=1)

    with patch.object(DisruptionReconciler, "_write", write):
        yield


@contextmanager
def evicted_pods_are_not_remembered() -> Iterator[None]:
    """A pod counts as healthy until the watch shows that it is being deleted."""

    def none(*_: Any, **__: Any) -> RecentEvictions:
        return RecentEvictions(frozenset(), (), None)

    with patch("kcm.actors.controllers.workloads.disruption.reconciler.recent_evictions", none):
        yield


@contextmanager
def failures_to_count_are_recorded_at_every_retry() -> Iterator[None]:
    """A budget that cannot be counted is retried every second, and records the failure each time."""
    report = DisruptionReconciler._report_failure

    def always(self: DisruptionReconciler, key: Key, *rest: Any) -> Step[None]:
        self._reported.pop(key, None)
        yield from report(self, key, *rest)

    def after_a_second(self: WorkQueue[Any], key: Any, now: float) -> float:
        self.add_after(key, 1.0, now)
        return 1.0

    with (
        patch.object(DisruptionReconciler, "_report_failure", always),
        patch.object(WorkQueue, "add_rate_limited", after_a_second),
    ):
        yield


def a_budget_of_daemons(_scenario: Scenario) -> Iterator[Action]:
    """Create a budget with a percentage of a DaemonSet's pods, which has no scale and so cannot be counted."""
    labels = {"app": "daemon"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "v1"}]}}
    meta = {"name": "daemon", "namespace": NAMESPACE}
    selector = {"matchLabels": labels}
    yield create(1.0, POD_DISRUPTION_BUDGETS, {"metadata": meta, "spec": {"selector": selector, "minAvailable": "50%"}})
    yield create(2.0, DAEMONSETS, {"metadata": meta, "spec": {"selector": selector, "template": template}})


def pods_are_late(seed: int, *, seconds: float, process: str, actors: Sequence[str]) -> tuple[Fault, ...]:
    """Draw a lag of the watch of pods only."""
    late = random.Random(f"late pods {seed}").choice((0.1, 0.5, 2.0, 5.0))
    lagging = FaultKind.WATCH_LAGGING
    return (Fault(kind=lagging, start=0.0, until=seconds, seconds=late, process=process, resource="pods"),)


BUDGETS = (
    Mutant(
        name="counts are written over an eviction",
        source="kubernetes/kubernetes#82149",
        mutation=counts_are_written_over_an_eviction,
        setting=BUDGETS_SETTING,
    ),
    Mutant(
        name="evicted pods are not remembered",
        source="kubernetes/kubernetes#36196",
        mutation=evicted_pods_are_not_remembered,
        setting=replace(BUDGETS_SETTING, draw=pods_are_late),
    ),
    Mutant(
        name="a failure to count is recorded at every retry",
        source="kubernetes/kubernetes#47366: event spam, there by a quota",
        mutation=failures_to_count_are_recorded_at_every_retry,
        setting=Setting(
            controllers=(daemonset.SPEC, disruption.SPEC),
            actions=a_budget_of_daemons,
            fleet=lambda _scenario: Fleet(nodes=9),
        ),
    ),
)
