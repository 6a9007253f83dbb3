"""NodeMetrics (metrics.k8s.io/v1beta1): total usage of the pods of a node, and a constant for its system processes.

Source: kubernetes-sigs/metrics-server v0.8 pkg/api/{node,table}.go, pkg/storage/node.go;
kubernetes staging/src/k8s.io/metrics/pkg/apis/metrics/v1beta1/types.go (v1.36).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

from kcm.protocols.objects import Object, name_of
from kcm.protocols.times import parse_time
from kcm.runtime.apiserver.kinds.metrics.shared.objects import (
    COLUMNS,
    GROUP,
    USAGE,
    VERSION,
    formatted_usage,
    metrics_object,
    schema_of,
)
from kcm.runtime.apiserver.kinds.pod_spec.usage import (
    ANNOTATIONS,
    CPU,
    MEMORY,
    RESOLUTION,
    Amounts,
    is_measured,
    last_sample,
    sample_of,
)
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.derived import Derived, Reading
from kcm.runtime.apiserver.registry.printers import Printer

SYSTEM_USAGE = {
    CPU: Decimal("0.1"),
    MEMORY: Decimal(256 * 1024 * 1024),
}  # usage of the kubelet and other system processes


def node_metrics(nodes: Iterable[Object], reading: Reading) -> Iterator[Object]:
    """Yield the NodeMetrics of all nodes that have existed for at least two samples."""
    at, used = last_sample(reading.now), dict[str, Amounts]()
    measured_nodes = [node for node in nodes if is_measured(node) and at - _creation_time(node) >= RESOLUTION]
    if measured_nodes:
        used = _usage_by_node(reading)
    for node in measured_nodes:
        total = _sum(SYSTEM_USAGE, used.get(name_of(node), {}))
        yield {
            **metrics_object(node, "NodeMetrics", now=reading.now, at=at, window=RESOLUTION),
            "usage": formatted_usage(total),
        }


def _creation_time(node: Object) -> float:
    return parse_time(node["metadata"]["creationTimestamp"])


def _usage_by_node(reading: Reading) -> dict[str, Amounts]:
    used: defaultdict[str, Amounts] = defaultdict(dict)
    for pod in reading.objects("pods"):
        node = pod["spec"].get("nodeName")
        sample = sample_of(pod, reading.now) if node else None
        if sample is not None:
            used[node] = _sum(used[node], sample.total)
    return used


def _sum(amounts: Amounts, other: Amounts) -> Amounts:
    return {name: amounts.get(name, Decimal(0)) + other.get(name, Decimal(0)) for name in ANNOTATIONS}


def cells(metrics: Object, _now: float) -> list[Any]:
    usage = metrics.get("usage") or {}
    return [name_of(metrics), *(usage.get(name) or "0" for name in ANNOTATIONS), metrics.get("window") or ""]


RESOURCE = ResourceDefinition(
    group=GROUP,
    version=VERSION,
    plural="nodes",
    kind="NodeMetrics",
    namespaced=False,
    verbs=("get", "list"),
    derived=Derived("nodes", node_metrics, "nodemetrics"),
    schema=schema_of("usage", USAGE),
    printer=Printer(COLUMNS, cells),
)
