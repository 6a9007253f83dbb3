from __future__ import annotations

import threading
from functools import partial

import pytest

from kcm.runtime.metrics.registry import Counter, Family, Metrics, Reading
from tests.runtime.metrics.readings import readings

STEPS = Family(name="steps_total", kind="counter", help="Steps.", labels=("leg",))
HEIGHT = Family(name="height", kind="gauge", help="Height.")
STRIDE = Family(name="stride", kind="histogram", help="Stride.", buckets=(0.5, 1.0))


def test_same_labels_return_the_same_series() -> None:
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


def test_families_and_series_are_sorted() -> None:
    metrics = Metrics()
    metrics.counter(STEPS, "right")
    metrics.histogram(STRIDE)
    metrics.counter(STEPS, "left")
    metrics.gauge(HEIGHT)
    assert list(readings(metrics)) == [("height",), ("steps_total", "left"), ("steps_total", "right"), ("stride",)]


def test_series_can_be_removed() -> None:
    metrics = Metrics()
    metrics.counter(STEPS, "left").inc()
    metrics.counter(STEPS, "right").inc()
    metrics.remove(STEPS, "left")
    metrics.remove(HEIGHT)
    assert readings(metrics) == {("steps_total", "right"): 1.0}
    metrics.clear()
    assert readings(metrics) == {}


def test_misuse_is_an_error() -> None:
    metrics = Metrics()
    with pytest.raises(ValueError, match="has the labels"):
        metrics.counter(STEPS)
    with pytest.raises(ValueError, match="is a counter, not a gauge"):
        metrics.gauge(STEPS, "left")
    metrics.counter(STEPS, "left")
    with pytest.raises(ValueError, match="two different families are named steps_total"):
        metrics.counter(Family(name="steps_total", kind="counter", help="Other.", labels=("leg",)), "right")


def test_concurrent_reads_and_writes_lose_no_count() -> None:
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


def test_source_of_the_same_name_is_replaced() -> None:
    metrics = Metrics()
    calls: list[str] = []

    def read(word: str) -> list[Reading]:
        calls.append(word)
        return []

    for word in ("first", "second"):
        metrics.add_source(partial(read, word), name="endpoints")
    list(metrics.collect())
    assert calls == ["second"]


def test_sources_are_called_at_every_collection() -> None:
    metrics = Metrics()
    heights = iter([1.0, 2.0])
    metrics.add_source(lambda: [(HEIGHT, (), next(heights))])
    assert readings(metrics) == {("height",): 1.0}
    assert readings(metrics) == {("height",): 2.0}


def test_disabled_family_is_counted_but_not_collected() -> None:
    metrics = Metrics(disabled=["height"])
    metrics.gauge(HEIGHT).set(2)
    metrics.counter(STEPS, "left").inc()
    assert [family.name for family, _ in metrics.collect()] == ["steps_total"]
    assert metrics.gauge(HEIGHT).value == 2
    assert metrics.disabled == {"height"}


def test_label_values_that_are_not_allowed_share_one_series() -> None:
    metrics = Metrics(allowed_labels={("steps_total", "leg"): ["left"]})
    for leg in ("left", "right", "third"):
        metrics.counter(STEPS, leg).inc()
    [(_, series)] = metrics.collect()
    assert [(labels, counter.value) for labels, counter in series] == [(("left",), 1), (("unexpected",), 2)]
    assert metrics.unexpected == 2
