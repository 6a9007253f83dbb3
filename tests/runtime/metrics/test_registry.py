from __future__ import annotations

import threading

import pytest

from runtime.metrics.families import (
    BUILD_INFO,
    WORKQUEUE_ADDS,
    WORKQUEUE_DEPTH,
    WORKQUEUE_LONGEST_RUNNING,
    WORKQUEUE_QUEUE_DURATION,
    WORKQUEUE_RETRIES,
    WORKQUEUE_UNFINISHED_WORK,
    WORKQUEUE_WORK_DURATION,
)
from runtime.metrics.meters import WorkQueueMeter, rate_limiter_use, report_build
from runtime.metrics.registry import Counter, Family, Gauge, Histogram, Metrics
from runtime.process.version import Version
from runtime.scheduling.work_queue import WorkQueue

STEPS = Family(name="steps_total", kind="counter", help="Steps.", labels=("leg",))
HEIGHT = Family(name="height", kind="gauge", help="Height.")
STRIDE = Family(name="stride", kind="histogram", help="Stride.", buckets=(0.5, 1.0))


class StoppedClock:
    """Shows the time that it is set to, and sounds no alarm."""

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


def readings(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """(family, label values...) → value; a histogram's is its number of observations."""
    return {
        (family.name, *labels): float(sum(series.counts)) if isinstance(series, Histogram) else series.value
        for family, all_series in metrics.collect()
        for labels, series in all_series
    }


def test_a_series_is_the_same_whenever_it_is_asked_for() -> None:
    metrics = Metrics()
    metrics.counter(STEPS, "left").inc()
    metrics.counter(STEPS, "left").inc(2)
    metrics.counter(STEPS, "right").inc()
    assert readings(metrics) == {("steps_total", "left"): 3.0, ("steps_total", "right"): 1.0}


def test_a_gauge_goes_up_and_down_or_is_read() -> None:
    metrics = Metrics()
    gauge = metrics.gauge(HEIGHT)
    gauge.set(5)
    gauge.inc()
    gauge.inc(-2)
    assert gauge.value == 4.0
    gauge.read_from(lambda: 7.0)
    assert gauge.value == 7.0


@pytest.mark.parametrize(
    "value, counts",
    [(0.1, [1, 0, 0]), (0.5, [1, 0, 0]), (0.50001, [0, 1, 0]), (1.0, [0, 1, 0]), (9.0, [0, 0, 1])],
)
def test_a_histogram_counts_up_to_and_with_each_bound(value: float, counts: list[int]) -> None:
    histogram = Metrics().histogram(STRIDE)
    histogram.observe(value)
    assert (histogram.counts, histogram.sum) == (counts, value)


def test_families_and_series_come_in_order() -> None:
    metrics = Metrics()
    metrics.counter(STEPS, "right")
    metrics.histogram(STRIDE)
    metrics.counter(STEPS, "left")
    metrics.gauge(HEIGHT)
    assert list(readings(metrics)) == [("height",), ("steps_total", "left"), ("steps_total", "right"), ("stride",)]


def test_a_series_can_be_forgotten() -> None:
    metrics = Metrics()
    metrics.counter(STEPS, "left").inc()
    metrics.counter(STEPS, "right").inc()
    metrics.remove(STEPS, "left")
    metrics.remove(HEIGHT)
    assert readings(metrics) == {("steps_total", "right"): 1.0}
    metrics.clear()
    assert readings(metrics) == {}


def test_misuse_is_told() -> None:
    metrics = Metrics()
    with pytest.raises(ValueError, match="has the labels"):
        metrics.counter(STEPS)
    with pytest.raises(ValueError, match="is a counter, not a gauge"):
        metrics.gauge(STEPS, "left")
    metrics.counter(STEPS, "left")
    with pytest.raises(ValueError, match="two different families are named steps_total"):
        metrics.counter(Family(name="steps_total", kind="counter", help="Other.", labels=("leg",)), "right")


def test_readers_and_writers_in_other_threads_lose_nothing() -> None:
    metrics = Metrics()
    counter: Counter = metrics.counter(STEPS, "left")

    def walk() -> None:
        for _ in range(20_000):
            counter.inc()

    threads = [threading.Thread(target=walk) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.value == 80_000


def test_sources_are_asked_at_every_look() -> None:
    metrics = Metrics()
    heights = iter([1.0, 2.0])
    metrics.add_source(lambda: [(HEIGHT, (), next(heights))])
    assert readings(metrics) == {("height",): 1.0}
    assert readings(metrics) == {("height",): 2.0}


def test_each_client_shows_how_far_its_rate_limit_is_used_up() -> None:
    metrics = Metrics()
    metrics.add_source(rate_limiter_use(lambda: {"pod-garbage-collector": 0.25, "replicaset-controller": 1.0}))
    assert readings(metrics) == {
        ("gc_controller_rate_limiter_use",): 0.25,
        ("replicaset_controller_rate_limiter_use",): 1.0,
    }


def test_a_queue_reports_what_happens_in_it() -> None:
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
        WorkQueue(now=0.0, meter=WorkQueueMeter(metrics, "certificate")).add("a", now=0.0)
    assert readings(metrics)[WORKQUEUE_ADDS.name, "certificate"] == 2.0


def test_the_build_is_a_label() -> None:
    metrics = Metrics()
    report_build(metrics, Version(kubernetes="1.36.2", kcm="0.1.0"))
    ((_, [(labels, series)]),) = metrics.collect()
    assert isinstance(series, Gauge)
    assert series.value == 1
    assert dict(zip(BUILD_INFO.labels, labels, strict=True))["git_version"] == "v1.36.2+kcm.0.1.0"


@pytest.mark.parametrize(
    "asked, beginning",
    [
        ("true", "Kubernetes v1.36.2+kcm.0.1.0"),
        ("raw", 'version.Info{Major:"1", Minor:"36", GitVersion:"v1.36.2+kcm.0.1.0", '),
    ],
)
def test_the_version_is_printed_as_upstream_prints_it(asked: str, beginning: str) -> None:
    assert Version(kubernetes="1.36.2", kcm="0.1.0").describe(asked).startswith(beginning)
