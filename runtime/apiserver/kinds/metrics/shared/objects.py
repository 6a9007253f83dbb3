"""Fields, schema and table cells that PodMetrics and NodeMetrics share.

Source: kubernetes-sigs/metrics-server v0.8 pkg/api/table.go, pkg/storage/{pod,node}.go;
kubernetes staging/src/k8s.io/metrics/pkg/apis/metrics/v1beta1/types.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from kcm.protocols.objects import Object, labels_of, name_of, namespace_of
from kcm.protocols.quantities import QuantityFormat, format_quantity, parse_quantity, whole_value
from kcm.protocols.times import format_time
from kcm.runtime.apiserver.kinds.pod_spec.usage import CPU, MEMORY, Amounts
from kcm.runtime.apiserver.registry.printers import Column

GROUP, VERSION = "metrics.k8s.io", "v1beta1"
COLUMNS = (
    Column("Name", format="name", description="Name of the resource"),
    Column(CPU, format="quantity"),
    Column(MEMORY, format="quantity"),
    Column("Window", format="duration"),
)
USAGE: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": {"type": "string", "x-kubernetes-int-or-string": True},
    "description": "Usage by resource; for memory, the size of the working set.",
}


def metrics_object(source: Object, kind: str, *, now: float, at: int, window: int) -> Object:
    """Return the metrics object of a pod or node, without its usage.

    kind: "PodMetrics" or "NodeMetrics"
    now: current Unix time in seconds, for creationTimestamp
    at: Unix time of the sample in seconds
    window: length of the measured period before the sample, in seconds
    """
    meta: Object = {"name": name_of(source)}
    if namespace := namespace_of(source):
        meta["namespace"] = namespace
    meta["creationTimestamp"] = format_time(now)
    if labels := labels_of(source):
        meta["labels"] = labels
    timestamp = {"timestamp": format_time(at), "window": f"{window}s"}
    return {"kind": kind, "apiVersion": f"{GROUP}/{VERSION}", "metadata": meta, **timestamp}


def formatted_usage(amounts: Amounts) -> dict[str, str]:
    """Format usage as quantities: CPU in nanocores, memory in bytes, both rounded up."""
    return {CPU: _cpu(amounts[CPU]), MEMORY: _memory(amounts[MEMORY])}


@lru_cache(maxsize=1024)
def _cpu(amount: Decimal) -> str:
    return format_quantity(parse_quantity(str(amount)))


@lru_cache(maxsize=1024)
def _memory(amount: Decimal) -> str:
    return format_quantity(whole_value(amount), QuantityFormat.BINARY_SI)


def schema_of(field: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the OpenAPI schema of a metrics kind.

    The schema consists of timestamp, window and one more field. The descriptions differ from upstream's.
    """
    properties = {
        "timestamp": {"type": "string", "format": "date-time", "description": "End of the measured period."},
        "window": {"type": "string", "description": "Length of the measured period before timestamp."},
        field: schema,
    }
    return {"type": "object", "required": sorted(properties), "properties": properties}
