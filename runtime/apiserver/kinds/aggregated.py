"""List of the kinds of the metrics API (metrics.k8s.io), which metrics-server provides in other clusters.

The embedded API server computes them itself, as the simulated pods of hollow nodes use no real CPU and memory.
ApiSettings(resources=(*BUILT_IN, *AGGREGATED)) enables them.
"""

from __future__ import annotations

from kcm.runtime.apiserver.kinds.metrics import node_metrics, pod_metrics
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition

AGGREGATED: tuple[ResourceDefinition, ...] = (node_metrics.RESOURCE, pod_metrics.RESOURCE)
