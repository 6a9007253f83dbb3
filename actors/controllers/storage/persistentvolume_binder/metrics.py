"""Metrics of the persistent volume binder.

Source: kubernetes v1.36 pkg/controller/volume/persistentvolume/metrics/metrics.go, pkg/volume/util/metrics.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from kcm.actors.controllers.storage.persistentvolume_binder.plugins import NONE, SOURCES
from kcm.protocols.objects import split_key
from kcm.protocols.volumes import ClaimFacts, VolumeFacts
from kcm.runtime.metrics.registry import Family, Metrics
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.table import Entry

_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600)
_CLASS, _OPERATION = ("storage_class",), ("plugin_name", "operation_name")
_OF_CLAIM = ("namespace", "storage_class", "volume_attributes_class")

TOTAL_VOLUMES = Family(
    name="pv_collector_total_pv_count",
    kind="gauge",
    help="Gauge measuring total number of persistent volumes",
    labels=("plugin_name", "volume_mode"),
)
BOUND_VOLUMES = Family(
    name="pv_collector_bound_pv_count",
    kind="gauge",
    help="Gauge measuring number of persistent volume currently bound",
    labels=_CLASS,
)
UNBOUND_VOLUMES = Family(
    name="pv_collector_unbound_pv_count",
    kind="gauge",
    help="Gauge measuring number of persistent volume currently unbound",
    labels=_CLASS,
)
BOUND_CLAIMS = Family(
    name="pv_collector_bound_pvc_count",
    kind="gauge",
    help="Gauge measuring number of persistent volume claim currently bound",
    labels=_OF_CLAIM,
)
UNBOUND_CLAIMS = Family(
    name="pv_collector_unbound_pvc_count",
    kind="gauge",
    help="Gauge measuring number of persistent volume claim currently unbound",
    labels=_OF_CLAIM,
)
OPERATION_SECONDS = Family(
    name="volume_operation_total_seconds",
    kind="histogram",
    help="Storage operation end to end duration in seconds",
    labels=_OPERATION,
    buckets=_BUCKETS,
)
OPERATION_ERRORS = Family(
    name="volume_operation_total_errors",
    kind="counter",
    help="Total volume operation errors",
    labels=_OPERATION,
)
ERRORS_TOTAL = Family(
    name="volume_operation_errors_total", kind="counter", help="Total volume operation errors", labels=_OPERATION
)
STORAGE_OPERATION = Family(
    name="storage_operation_duration_seconds",
    kind="histogram",
    help="Storage operation duration",
    labels=("volume_plugin", "operation_name", "status", "migrated"),
    buckets=_BUCKETS,
)
RETROACTIVE = Family(
    name="retroactive_storageclass_total",
    kind="counter",
    help="Total number of retroactive StorageClass assignments to persistent volume claim",
)
RETROACTIVE_ERRORS = Family(
    name="retroactive_storageclass_errors_total",
    kind="counter",
    help="Total number of failed retroactive StorageClass assignments to persistent volume claim",
)


class _Operation(Struct, frozen=True):
    plugin: str
    operation: str
    at: float  # monotonic seconds


class BinderMetrics:
    """Metrics of the binder, with the start times of operations in progress.

    An operation is identified by the key of its claim, or by the name of its volume.
    """

    def __init__(self, *, metrics: Metrics, clock: Clock) -> None:
        self._metrics, self._clock = metrics, clock
        self._operations: dict[str, _Operation] = {}
        self._shown: set[tuple[Family, tuple[str, ...]]] = set()
        self.retroactive = metrics.counter(RETROACTIVE)
        self.retroactive_errors = metrics.counter(RETROACTIVE_ERRORS)

    def begin(self, key: str, *, plugin: str, operation: str) -> None:
        """Start the timer of an operation, unless it is running.

        key: key of the claim, or name of the volume.
        operation: "provision" or "delete".
        """
        self._operations.setdefault(key, _Operation(plugin or NONE, operation, self._clock.monotonic()))

    def failed(self, key: str) -> None:
        begun = self._operations.get(key)
        if begun is not None:
            for family in (OPERATION_ERRORS, ERRORS_TOTAL):
                self._metrics.counter(family, begun.plugin, begun.operation).inc()

    def done(self, key: str) -> None:
        begun = self._operations.pop(key, None)
        if begun is not None:
            took = self._clock.monotonic() - begun.at
            self._metrics.histogram(OPERATION_SECONDS, begun.plugin, begun.operation).observe(took)

    def forget(self, key: str) -> None:
        self._operations.pop(key, None)

    def record_plugin_call(self, plugin: str, operation: str, *, since: float, succeeded: bool) -> None:
        """Record the duration of an operation that an in-tree plugin has executed in this process.

        operation: "volume_provision" or "volume_delete".
        since: monotonic time of its start.
        succeeded: whether it returned without an error.
        """
        status = "success" if succeeded else "fail-unknown"
        series = self._metrics.histogram(STORAGE_OPERATION, plugin, operation, status, "false")
        series.observe(self._clock.monotonic() - since)

    def count(self, volumes: Iterable[Entry], claims: Iterable[Entry]) -> None:
        """Set the gauges that count bound and unbound volumes and claims. Gauges without objects are removed."""
        now: Counter[tuple[Family, tuple[str, ...]]] = Counter()
        for entry in volumes:
            volume: VolumeFacts = entry.facts
            now[TOTAL_VOLUMES, (SOURCES.get(volume.source, NONE), volume.mode)] += 1
            now[BOUND_VOLUMES if volume.phase == "Bound" else UNBOUND_VOLUMES, (volume.class_,)] += 1
        for entry in claims:
            claim: ClaimFacts = entry.facts
            family = BOUND_CLAIMS if claim.phase == "Bound" else UNBOUND_CLAIMS
            now[family, (split_key(entry.key)[0], claim.class_, claim.attributes)] += 1
        for family, labels in self._shown - now.keys():
            self._metrics.remove(family, *labels)
        for (family, labels), number in now.items():
            self._metrics.gauge(family, *labels).set(number)
        self._shown = set(now)
