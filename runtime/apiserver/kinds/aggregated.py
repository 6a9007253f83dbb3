"""Kinds that an aggregated API server provides in other clusters: pod and node metrics of metrics-server.

An embedded cluster serves them itself, since hollow pods have no measurable usage. To enable them, pass
ApiSettings(resources=(*BUILT_IN, *AGGREGATED)).
"""

from __future__ import annotations

from kcm.runtime.apiserver.kinds.metrics import node_metrics, pod_metrics
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition

AGGREGATED: tuple[ResourceDefinition, ...] = (node_metrics.RESOURCE, pod_metrics.RESOURCE)
