"""PodMetrics (metrics.k8s.io/v1beta1): simulated usage of the containers of running pods.

Source: kubernetes-sigs/metrics-server v0.8 pkg/api/{pod,table}.go, pkg/storage/pod.go;
kubernetes staging/src/k8s.io/metrics/pkg/apis/metrics/v1beta1/types.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import cache
from typing import Any

from kcm.protocols.objects import Key, Object, annotations_of, name_of, namespace_of
from kcm.protocols.quantities import parse_quantity
from kcm.runtime.apiserver.kinds.metrics.shared.objects import (
    COLUMNS,
    GROUP,
    USAGE,
    VERSION,
    formatted_usage,
    metrics_object,
    schema_of,
)
from kcm.runtime.apiserver.kinds.pod_spec.usage import ANNOTATIONS, is_measured, sample_of, usage_problems
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.derived import Derived, Reading
from kcm.runtime.apiserver.registry.printers import Printer


def pod_metrics(pods: Iterable[Object], reading: Reading) -> Iterator[Object]:
    """Yield the PodMetrics of all pods with a sample, and report malformed usage annotations to `reading`."""

    @cache
    def has_metrics(node: Key) -> bool:
        return is_measured(reading.find("nodes", node))

    for pod in pods:
        for problem in usage_problems(
            annotations_of(pod), f"pod {namespace_of(pod)}/{name_of(pod)}: metadata.annotations"
        ):
            reading.warn(problem)
        sample = sample_of(pod, reading.now) if has_metrics(pod["spec"].get("nodeName") or "") else None
        if sample is not None:
            metrics = metrics_object(pod, "PodMetrics", now=reading.now, at=sample.at, window=sample.window)
            containers = [{"name": name, "usage": formatted_usage(used)} for name, used in sample.containers.items()]
            yield {**metrics, "containers": containers}


def cells(metrics: Object, _now: float) -> list[Any]:
    used = [container["usage"] for container in metrics.get("containers") or ()]
    total = formatted_usage(
        {name: sum((parse_quantity(usage[name]) for usage in used), Decimal(0)) for name in ANNOTATIONS}
    )
    return [name_of(metrics), *total.values(), metrics.get("window") or ""]


_CONTAINER = {
    "type": "object",
    "required": ["name", "usage"],
    "properties": {"name": {"type": "string", "description": "Name of the container."}, "usage": USAGE},
}

RESOURCE = ResourceDefinition(
    group=GROUP,
    version=VERSION,
    plural="pods",
    kind="PodMetrics",
    verbs=("get", "list"),
    derived=Derived("pods", pod_metrics, "podmetrics"),
    schema=schema_of("containers", {"type": "array", "items": _CONTAINER, "x-kubernetes-list-type": "atomic"}),
    printer=Printer(COLUMNS, cells),
)
