"""Metrics of the StatefulSet controller.

They are recorded only if the feature gate MaxUnavailableStatefulSet is enabled.
"""

from __future__ import annotations

from kcm.actors.controllers.workloads.statefulset.objects import StatefulSet
from kcm.protocols.objects import Key, split_key
from kcm.runtime.metrics.registry import Family, Metrics

_LABELS = ("statefulset_namespace", "statefulset_name", "pod_management_policy")
_ORDERED, _PARALLEL = "OrderedReady", "Parallel"

MAX_UNAVAILABLE = Family(
    name="statefulset_controller_statefulset_max_unavailable",
    kind="gauge",
    help="Maximum number of unavailable pods allowed during StatefulSet rolling updates",
    labels=_LABELS,
)
UNAVAILABLE = Family(
    name="statefulset_controller_statefulset_unavailable_replicas",
    kind="gauge",
    help="Current number of unavailable pods in StatefulSet",
    labels=_LABELS,
)


class StatefulSetMetrics:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def allowed(self, stateful_set: StatefulSet, at_once: int) -> None:
        self._metrics.gauge(MAX_UNAVAILABLE, *_labels(stateful_set)).set(at_once)

    def unavailable(self, stateful_set: StatefulSet, count: int) -> None:
        self._metrics.gauge(UNAVAILABLE, *_labels(stateful_set)).set(count)

    def forget(self, key: Key) -> None:
        """Remove the metrics of a deleted set."""
        for policy in (_ORDERED, _PARALLEL):
            for family in (MAX_UNAVAILABLE, UNAVAILABLE):
                self._metrics.remove(family, *split_key(key), policy)


def _labels(stateful_set: StatefulSet) -> tuple[str, str, str]:
    policy = _PARALLEL if stateful_set.parallel else _ORDERED
    return stateful_set.namespace, stateful_set.name, policy
