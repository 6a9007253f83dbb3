"""Metrics of work queues, clients and the build."""

from __future__ import annotations

from kcm.protocols.resources import ENDPOINTS, PODS
from kcm.runtime.metrics.families import (
    BUILD_INFO,
    INFORMER_PROCESSING_LATENCY,
    INFORMER_QUEUED_ITEMS,
    STALE_SYNC_SKIPS,
    WORKQUEUE_ADDS,
    WORKQUEUE_DEPTH,
    WORKQUEUE_LONGEST_RUNNING,
    WORKQUEUE_QUEUE_DURATION,
    WORKQUEUE_RETRIES,
    WORKQUEUE_UNFINISHED_WORK,
    WORKQUEUE_WORK_DURATION,
)
from kcm.runtime.metrics.meters import InformerMeter, ReconcileMeter, WorkQueueMeter, rate_limiter_use, report_build
from kcm.runtime.metrics.registry import Gauge, Metrics
from kcm.runtime.process.version import Version
from kcm.runtime.scheduling.work_queue import WorkQueue
from tests.runtime.metrics.readings import readings


class StoppedClock:
    """Clock that stands at a settable time and triggers no alarms."""

    def __init__(self) -> None:
        self.time = 0.0

    def monotonic(self) -> float:
        return self.time

    def now(self) -> float:
        return self.time

    def call_at(self, who: str, when: float, what: object) -> None:
        raise AssertionError("no alarm is wanted here")

    def cancel(self, who: str) -> None:
        raise AssertionError("no alarm is wanted here")


def test_client_reports_saturation_of_its_rate_limiter() -> None:
    metrics = Metrics()
    metrics.add_source(rate_limiter_use(lambda: {"pod-garbage-collector": 0.25, "replicaset-controller": 1.0}))
    assert readings(metrics) == {
        ("gc_controller_rate_limiter_use",): 0.25,
        ("replicaset_controller_rate_limiter_use",): 1.0,
    }


def test_queue_reports_its_metrics() -> None:
    metrics, clock = Metrics(), StoppedClock()
    meter = WorkQueueMeter(metrics, "replicaset")
    queue = WorkQueue(now=0.0, meter=meter)
    meter.follow(queue, clock)
    queue.add("default/a", now=0.0)
    queue.add("default/b", now=0.0)
    queue.add("default/b", now=0.0)
    queue.add_after("default/c", 5.0, now=0.0)
    queue.take(now=1.0)
    clock.time = 4.0
    assert readings(metrics) == {
        (WORKQUEUE_DEPTH.name, "replicaset"): 1.0,
        (WORKQUEUE_ADDS.name, "replicaset"): 2.0,
        (WORKQUEUE_RETRIES.name, "replicaset"): 1.0,
        (WORKQUEUE_QUEUE_DURATION.name, "replicaset"): 1.0,
        (WORKQUEUE_WORK_DURATION.name, "replicaset"): 0.0,
        (WORKQUEUE_UNFINISHED_WORK.name, "replicaset"): 3.0,
        (WORKQUEUE_LONGEST_RUNNING.name, "replicaset"): 3.0,
    }
    assert metrics.histogram(WORKQUEUE_QUEUE_DURATION, "replicaset").sum == 1.0
    queue.done("default/a", now=4.0)
    assert metrics.histogram(WORKQUEUE_WORK_DURATION, "replicaset").sum == 3.0


def test_two_queues_of_one_name_share_their_series() -> None:
    metrics = Metrics()
    for _ in range(2):
        meter = WorkQueueMeter(metrics, "certificate")
        queue: WorkQueue[str] = WorkQueue(now=0.0, meter=meter)
        meter.follow(queue, StoppedClock())
        queue.add("a", now=0.0)
    assert readings(metrics)[WORKQUEUE_ADDS.name, "certificate"] == 2.0


def test_informer_is_named_as_upstream_names_it() -> None:
    metrics = Metrics()
    meter = InformerMeter(metrics, ENDPOINTS, program="kube-controller-manager")
    meter.follow(lambda: 3)
    meter.latency.observe(0.5)
    labels = ("kube-controller-manager", "", "v1", "endpointss")
    shown = readings(metrics)
    assert shown[INFORMER_QUEUED_ITEMS.name, *labels] == 3
    assert shown[INFORMER_PROCESSING_LATENCY.name, *labels] == 1
    meter.ended()
    assert readings(metrics)[INFORMER_QUEUED_ITEMS.name, *labels] == 0


def test_syncs_that_wait_for_a_stale_table_are_counted_by_its_resource() -> None:
    metrics = Metrics()
    for controller in ("replicaset-controller", "replicationcontroller-controller", "ttl-controller"):
        ReconcileMeter(metrics, controller).skipped_as_stale(PODS.id)
    ReconcileMeter(metrics, "statefulset-controller").skipped_as_stale("apps/v1/statefulsets")
    skips = {family.name for family in STALE_SYNC_SKIPS.values()}
    assert {labels: value for labels, value in readings(metrics).items() if labels[0] in skips} == {
        ("replicaset_controller_stale_sync_skips_total", "", "pods"): 2,
        ("statefulset_controller_stale_sync_skips_total", "apps", "statefulsets"): 1,
    }


def test_the_build_is_a_label() -> None:
    metrics = Metrics()
    report_build(metrics, Version(kubernetes="1.36.2", kcm="0.1.0"), versions=("1.36", "1.35"))
    shown = {family.name: (family, series) for family, series in metrics.collect()}
    family, [(labels, series)] = shown["kubernetes_build_info"]
    assert family == BUILD_INFO
    assert isinstance(series, Gauge)
    assert series.value == 1
    assert dict(zip(BUILD_INFO.labels, labels, strict=True))["git_version"] == "v1.36.2+kcm.0.1.0"
    assert [labels for labels, _ in shown["version_info"][1]] == [("1.36.2", "kube", "1.36", "1.35")]


def test_feature_gates_and_the_number_of_metrics_are_reported() -> None:
    metrics = Metrics(disabled=["kubernetes_build_info"])
    gates = [("Old", "", True), ("New", "ALPHA", False)]
    report_build(metrics, Version(kubernetes="1.36.2", kcm="0.1.0"), gates, versions=("1.36", "1.35"))
    shown = {(family.name, labels): series.value for family, many in metrics.collect() for labels, series in many}
    assert shown["kubernetes_feature_enabled", ("Old", "")] == 1
    assert shown["kubernetes_feature_enabled", ("New", "ALPHA")] == 0
    assert shown["disabled_metrics_total", ()] == 1
    assert shown["hidden_metrics_total", ()] == 0
    assert ("kubernetes_build_info", ()) not in shown
    again = {(family.name, labels): series.value for family, many in metrics.collect() for labels, series in many}
    assert again["registered_metrics_total", ("BETA", "")] == 4  # features, and the three counts of metrics
    assert again["registered_metrics_total", ("ALPHA", "")] == 2
