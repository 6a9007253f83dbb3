"""Metrics of the attach/detach controller.

Source: kubernetes v1.36 pkg/controller/volume/attachdetach/metrics/metrics.go, pkg/volume/util/metrics.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kcm.actors.controllers.storage.attach_detach.state import ActualState, DesiredState, Operation
from kcm.actors.controllers.storage.attach_detach.volume_specs import split_unique_name
from kcm.actors.controllers.storage.persistentvolume_binder.metrics import STORAGE_OPERATION
from kcm.protocols.objects import Key
from kcm.runtime.metrics.registry import Family, Metrics

FORCED_DETACHES = Family(
    name="attach_detach_controller_attachdetach_controller_forced_detaches",
    kind="counter",
    help="Number of times the A/D Controller performed a forced detach",
    labels=("reason",),
)
TOTAL_VOLUMES = Family(
    name="attachdetach_controller_total_volumes",
    kind="gauge",
    help="Number of volumes in A/D Controller",
    labels=("plugin_name", "state"),
)
IN_USE_VOLUMES = Family(
    name="storage_count_attachable_volumes_in_use",
    kind="gauge",
    help="Measure number of volumes in use",
    labels=("node", "volume_plugin"),
)


class VolumeMetrics:
    """Metrics of volumes and of operations on them."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._plugins: dict[Key, tuple[tuple[str, str], ...]] = {}  # (node, plugin) of each volume, by pod
        self._in_use: Counter[tuple[str, str]] = Counter()

    def count_in_use(self, key: Key, node: str, plugins: Sequence[str]) -> None:
        """Count the volumes of a pod in storage_count_attachable_volumes_in_use. Source: getVolumeInUseCount."""
        before = self._plugins.pop(key, ())
        after = tuple((node, plugin) for plugin in plugins)
        if after:
            self._plugins[key] = after
        self._in_use.subtract(before)
        self._in_use.update(after)
        for labels in {*before, *after}:
            if self._in_use[labels]:
                self._metrics.gauge(IN_USE_VOLUMES, *labels).set(self._in_use[labels])
            else:
                del self._in_use[labels]
                self._metrics.remove(IN_USE_VOLUMES, *labels)

    def show_totals(self, desired: DesiredState, actual: ActualState) -> None:
        """Set attachdetach_controller_total_volumes. Source: getTotalVolumesCount."""
        states = (("desired_state_of_world", desired.counts), ("actual_state_of_world", actual.counts))
        for state, counts in states:
            for plugin, count in list(counts.items()):
                if count:
                    self._metrics.gauge(TOTAL_VOLUMES, plugin, state).set(count)
                else:
                    del counts[plugin]
                    self._metrics.remove(TOTAL_VOLUMES, plugin, state)

    def count_forced_detachment(self, reason: str) -> None:
        self._metrics.counter(FORCED_DETACHES, reason).inc()

    def observe_operation(self, volume: str, operation: Operation, *, succeeded: bool, now: float) -> None:
        names = split_unique_name(volume)
        plugin = operation.spec.qualified_plugin if operation.spec is not None else names.plugin if names else ""
        status = "success" if succeeded else "fail-unknown"
        migrated = "true" if operation.spec is not None and operation.spec.migrated else "false"
        series = self._metrics.histogram(STORAGE_OPERATION, plugin, operation.kind.value, status, migrated)
        series.observe(now - operation.begun)

    def observe_verification(self, seconds: float) -> None:
        """Observe the duration of a check of the VolumeAttachments of a node."""
        operation = "verify_volumes_are_attached_per_node"
        self._metrics.histogram(STORAGE_OPERATION, "<n/a>", operation, "success", "false").observe(seconds)
