"""What in other clusters a server beside kube-apiserver serves: metrics of pods and nodes, as metrics-server.

An embedded cluster serves it, as its hollow pods use nothing that could be measured. A program that wants it hands it
over: ApiServer(resources=(*BUILT_IN, *AGGREGATED), …).
"""

from __future__ import annotations

from kcm.runtime.apiserver.kinds.metrics import node_metrics, pod_metrics
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition

AGGREGATED: tuple[ResourceDefinition, ...] = (node_metrics.RESOURCE, pod_metrics.RESOURCE)
