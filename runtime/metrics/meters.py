"""Adapters between the parts of the runtime and their metrics."""

from __future__ import annotations

import platform
from collections import Counter as Counts
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from kcm.protocols.resources import Resource, split_cluster
from kcm.runtime.metrics.families import (
    BUILD_INFO,
    DISABLED_METRICS,
    FEATURE_ENABLED,
    GIVEN_UP_KEYS,
    HIDDEN_METRICS,
    HOT_LOOPS,
    INFORMER_PROCESSING_LATENCY,
    INFORMER_QUEUED_ITEMS,
    RECONCILE_ERRORS,
    RECONCILIATIONS,
    REGISTERED_METRICS,
    STALE_SYNC_SKIPS,
    UNEXPECTED_LABELS,
    VERSION_INFO,
    WORKQUEUE_ADDS,
    WORKQUEUE_DEPTH,
    WORKQUEUE_LONGEST_RUNNING,
    WORKQUEUE_QUEUE_DURATION,
    WORKQUEUE_RETRIES,
    WORKQUEUE_UNFINISHED_WORK,
    WORKQUEUE_WORK_DURATION,
)
from kcm.runtime.metrics.registry import Counter, Family, Gauge, Histogram, Metrics, Reading
from kcm.runtime.process.version import Version
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.scheduling.work_queue import Busy, QueueMeter

# client name → owner in the metric's name, as in the releases that had the metric (1.5 to 1.24)
RATE_LIMITER_OWNERS: Mapping[str, str] = {
    "pod-garbage-collector": "gc_controller",
    "daemon-set-controller": "daemon_controller",
    "service-account-controller": "serviceaccount_controller",
    "tokens-controller": "serviceaccount_tokens_controller",
    "resourcequota-controller": "resource_quota_controller",
    "node-controller": "node_lifecycle_controller",
}


NO_BUILD_DATE = "1970-01-01T00:00:00Z"  # of a build without a date, as upstream


class WorkQueueMeter(QueueMeter):
    """Metrics of one work queue, workqueue_*. Queues with the same name share their series, as upstream.

    Its series exist from follow() on: the queue of a controller that never starts has none.
    """

    def __init__(self, metrics: Metrics, name: str) -> None:
        self._metrics, self._name = metrics, name
        self._followed = False
        self._depth: Gauge
        self._adds: Counter
        self._retries: Counter
        self._waited: Histogram
        self._worked: Histogram

    def follow(self, queue: Busy, clock: Clock) -> None:
        """Create the series. Report at each scrape for how long the queue's keys have been in processing."""
        metrics, name = self._metrics, self._name
        self._depth = metrics.gauge(WORKQUEUE_DEPTH, name)
        self._adds = metrics.counter(WORKQUEUE_ADDS, name)
        self._retries = metrics.counter(WORKQUEUE_RETRIES, name)
        self._waited = metrics.histogram(WORKQUEUE_QUEUE_DURATION, name)
        self._worked = metrics.histogram(WORKQUEUE_WORK_DURATION, name)
        metrics.gauge(WORKQUEUE_UNFINISHED_WORK, name).read_from(lambda: queue.unfinished(clock.monotonic()))
        metrics.gauge(WORKQUEUE_LONGEST_RUNNING, name).read_from(lambda: queue.longest_running(clock.monotonic()))
        self._followed = True

    def ended(self) -> None:
        if not self._followed:  # the controller failed before its queues existed
            return
        self._depth.set(0)
        self._metrics.gauge(WORKQUEUE_UNFINISHED_WORK, self._name).read_from(lambda: 0.0)
        self._metrics.gauge(WORKQUEUE_LONGEST_RUNNING, self._name).read_from(lambda: 0.0)

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

    def given_up(self) -> None:
        self._metrics.counter(GIVEN_UP_KEYS, self._name).inc()


class InformerMeter:
    """Metrics of one informer, informer_*, without those of tables that contain a selection only.

    Its series exist once it is created: an informer that never starts has none. All incarnations share them.

    The label `name` is the program's: upstream's only shared informer factory is named after its program.
    The label `resource` is the kind with an appended "s", as upstream's generated informers have it: "ingresss".

    latency: seconds from the first message of a batch until its changes were sent to the subscribers.
    """

    def __init__(self, metrics: Metrics, resource: Resource[Any], *, program: str) -> None:
        version = resource.api_version.rpartition("/")[2]
        labels = (program, resource.group, version, f"{resource.kind.lower()}s")
        self._queued = metrics.gauge(INFORMER_QUEUED_ITEMS, *labels)
        self.latency = metrics.histogram(INFORMER_PROCESSING_LATENCY, *labels)

    def follow(self, pending: Callable[[], int]) -> None:
        """Report at each scrape how many received changes wait to be sent to the subscribers."""
        self._queued.read_from(pending)

    def ended(self) -> None:
        self._queued.read_from(lambda: 0.0)


class ReconcileMeter:
    """Counters of one controller's reconciliations by result, and of their errors by kind."""

    def __init__(self, metrics: Metrics, name: str) -> None:
        self._metrics, self._name = metrics, name
        self._by_result = {result: metrics.counter(RECONCILIATIONS, name, result) for result in RESULTS}
        self.success = self._by_result["success"]
        self.requeue_after = self._by_result["requeue_after"]
        self._hot_loops: Gauge | None = None

    def raised(self, result: str, kind: str) -> None:
        """Count a reconciliation that raised an exception. kind: of an error, for the other results unused."""
        self._by_result[result].inc()
        if result == "error":
            self._metrics.counter(RECONCILE_ERRORS, self._name, kind).inc()

    def hot_loops(self, number: int) -> None:
        """Report the number of objects that are written again and again. The series exists from the first one on."""
        if self._hot_loops is None:
            if not number:
                return
            self._hot_loops = self._metrics.gauge(HOT_LOOPS, self._name)
        self._hot_loops.set(number)

    def skipped_as_stale(self, resource_id: str) -> None:
        """Count a reconciliation that waits for a stale table. resource_id: Resource.id of this table."""
        family = STALE_SYNC_SKIPS.get(self._name)
        if family is not None:
            version, _, resource = resource_id.rpartition("/")
            self._metrics.counter(family, version.rpartition("/")[0], resource).inc()


RESULTS = ("success", "error", "requeue", "requeue_after")  # as controller_runtime_reconcile_total


def rate_limiter_use(saturation: Callable[[], Mapping[str, float]]) -> Callable[[], Iterable[Reading]]:
    """Return a source for Metrics of <owner>_rate_limiter_use for each client, from 0 (idle) to 1 (its requests wait).

    saturation: returns the values by client name, with "CLUSTER:" in front if there are several clusters.
    Owners are named as in the releases that had these metrics: gc_controller, ...
    """

    def read() -> Iterable[Reading]:
        for lane, used in saturation().items():
            cluster, client = split_cluster(lane)
            owner = RATE_LIMITER_OWNERS.get(client, client.replace("-", "_"))
            yield (
                Family(
                    name=f"{owner}_rate_limiter_use",
                    kind="gauge",
                    help=f"How much of its burst the API client {client} has used up, 0 to 1.",
                    labels=("cluster",) if cluster else (),
                ),
                (cluster,) if cluster else (),
                used,
            )

    return read


def report_build(
    metrics: Metrics,
    version: Version,
    features: Iterable[tuple[str, str, bool]] = (),
    *,
    versions: tuple[object, object],
) -> None:
    """Register the metrics of the program: its build and versions, its feature gates, and the number of its metrics.

    features: name, stage and state of each feature gate; the stage of a generally available feature is "".
    versions: release that is emulated, and the oldest one to be compatible with, such as 1.36 and 1.35.
    """
    metrics.gauge(
        BUILD_INFO,
        NO_BUILD_DATE,
        platform.python_implementation(),
        "",
        "",
        version.git_version,
        f"python{platform.python_version()}",
        version.major,
        version.minor,
        version.platform,
    ).set(1)
    metrics.gauge(VERSION_INFO, version.kubernetes, "kube", *map(str, versions)).set(1)
    for name, stage, is_enabled in features:
        metrics.gauge(FEATURE_ENABLED, name, stage).set(is_enabled)
    metrics.counter(HIDDEN_METRICS)  # kcm hides none
    metrics.add_source(partial(_count_metrics, metrics))


def _count_metrics(metrics: Metrics) -> Iterable[Reading]:
    """Count the metrics themselves, as a source of Metrics that contributes no gauges."""
    metrics.counter(DISABLED_METRICS).value = len(metrics.disabled)
    metrics.counter(UNEXPECTED_LABELS).value = metrics.unexpected
    for stability, number in Counts(family.stability for family in metrics.families()).items():
        metrics.counter(REGISTERED_METRICS, stability, "").value = number
    return ()
