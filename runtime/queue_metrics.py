"""A work queue's metrics, by upstream's names.

Source: kubernetes v1.36 component-base/metrics/prometheus/workqueue.
"""

from __future__ import annotations

from collections.abc import Callable

from runtime.metric_families import (
    WORKQUEUE_ADDS,
    WORKQUEUE_DEPTH,
    WORKQUEUE_LONGEST_RUNNING,
    WORKQUEUE_QUEUE_DURATION,
    WORKQUEUE_RETRIES,
    WORKQUEUE_UNFINISHED_WORK,
    WORKQUEUE_WORK_DURATION,
)
from runtime.metrics import Metrics
from runtime.work_queue import QueueMeter, WorkQueue


class MeteredQueue(QueueMeter):
    """Reports one queue under its name; queues of the same name share the series."""

    def __init__(self, metrics: Metrics, name: str) -> None:
        self._depth = metrics.gauge(WORKQUEUE_DEPTH, name)
        self._adds = metrics.counter(WORKQUEUE_ADDS, name)
        self._retries = metrics.counter(WORKQUEUE_RETRIES, name)
        self._waited = metrics.histogram(WORKQUEUE_QUEUE_DURATION, name)
        self._worked = metrics.histogram(WORKQUEUE_WORK_DURATION, name)
        self._unfinished = metrics.gauge(WORKQUEUE_UNFINISHED_WORK, name)
        self._longest = metrics.gauge(WORKQUEUE_LONGEST_RUNNING, name)

    def begin(self, queue: WorkQueue, monotonic: Callable[[], float]) -> None:
        self._unfinished.read_from(lambda: queue.unfinished(monotonic()))
        self._longest.read_from(lambda: queue.longest_running(monotonic()))

    def added(self, depth: int) -> None:
        self._adds.inc()
        self._depth.set(depth)

    def taken(self, depth: int, waited: float) -> None:
        self._depth.set(depth)
        self._waited.observe(waited)

    def finished(self, worked: float) -> None:
        self._worked.observe(worked)

    def retried(self) -> None:
        self._retries.inc()
