"""Fake server of custom, external and resource metrics in a simulated cluster.

It serves resource metrics only if `MetricsServer.cpu` is set. Otherwise the simulated API server computes them, after
cluster.serve(*AGGREGATED).

metrics = metrics_server(cluster)
metrics.external["queue"] = ["30"]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from kcm.actors.simulation.cluster import SimulatedCluster
from kcm.protocols.objects import Object, labels_of, name_of, namespace_of
from kcm.protocols.resources import PODS
from kcm.protocols.selectors import parse_label_selector
from kcm.protocols.times import format_time
from kcm.runtime.client.api import Request, Response

RESOURCES, CUSTOM, EXTERNAL = "metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"
GROUPS = (RESOURCES, CUSTOM, EXTERNAL)
WINDOW = 30  # seconds that each sample covers
ALL_OBJECTS = "*"

ValueOf = Callable[[Object], str | None]  # returns the metric of a pod as a quantity; None if it has no value


def metrics_server(cluster: SimulatedCluster) -> MetricsServer:
    """Return the cluster's metrics server. The first call creates it."""
    found = cluster.network.aggregated.get(CUSTOM)
    server = getattr(found, "__self__", None)
    return server if isinstance(server, MetricsServer) else MetricsServer(cluster)


class MetricsServer:
    """Fake server of the metrics APIs. Tests set its values, which are quantities such as "30" or "100m".

    of_pods: custom metrics of pods: by metric, a function that returns the value of a running pod.
    of_objects: custom metrics of other objects: by metric, and then by "RESOURCE NAME", for example "services web".
    external: external metrics: by metric, the values of all its series.
    cpu: returns the CPU usage of each container of a pod; None to let the API server compute resource metrics.
    down: API groups that fail with status 503.
    absent: API groups that are not served (status 404).
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self.of_pods: dict[str, ValueOf] = {}
        self.of_objects: dict[str, dict[str, str]] = {}
        self.external: dict[str, list[str]] = {}
        self.cpu: ValueOf | None = None
        self.down: set[str] = set()
        self.absent: set[str] = set()
        cluster.network.aggregated.update(dict.fromkeys(GROUPS, self.answer))

    def answer(self, request: Request) -> Response:
        group, *parts = request.path.split("/")[2:]
        if group in self.absent:
            return Response(status=404, body=b"404 page not found\n")
        if group in self.down:
            return Response(status=503, body=b"service unavailable\n")
        if group == RESOURCES:
            return self._cluster.server.handle(request) if self.cpu is None else self._of_containers(request, self.cpu)
        if not parts:
            versions = [{"groupVersion": f"{group}/v1beta2", "version": "v1beta2"}]
            return _ok({"kind": "APIGroup", "name": group, "versions": versions, "preferredVersion": versions[0]})
        namespace, query = parts[2], request.query
        if group == EXTERNAL:
            return self._external(parts[3])
        return self._custom(namespace, parts[3:], query)

    def _pods(self, namespace: str, query: Mapping[str, str]) -> list[Object]:
        selector = parse_label_selector(query.get("labelSelector", ""))
        pods = self._cluster.shown(PODS, namespace)
        return [pod for pod in pods if _runs(pod) and selector.matches(labels_of(pod))]

    def _of_containers(self, request: Request, cpu: ValueOf) -> Response:
        """Respond to a list request for "/apis/metrics.k8s.io/v1beta1/namespaces/NAMESPACE/pods"."""
        namespace, items = request.path.split("/")[5], []
        for pod in self._pods(namespace, request.query):
            value = cpu(pod)
            if value is not None:
                used = [{"name": container["name"], "usage": {"cpu": value}} for container in pod["spec"]["containers"]]
                items.append({"metadata": _reference(pod), "window": f"{WINDOW}s", "containers": used, **self._at})
        return _ok({"kind": "PodMetricsList", "items": items})

    def _external(self, metric: str) -> Response:
        values = self.external.get(metric, [])
        items = [{"metricName": metric, "value": value, **self._at} for value in values]
        return _ok({"kind": "ExternalMetricValueList", "items": items})

    def _custom(self, namespace: str, parts: list[str], query: Mapping[str, str]) -> Response:
        items: list[Object] = []
        if parts[:2] == ["pods", ALL_OBJECTS]:
            value_of = self.of_pods.get(parts[2], _unknown)
            for pod in self._pods(namespace, query):
                value = value_of(pod)
                if value is not None:
                    usage = {"describedObject": _reference(pod), "value": value, "windowSeconds": WINDOW}
                    items.append({**usage, **self._at})
        else:
            of_namespace = parts[0] == "metrics"
            metric = parts[1] if of_namespace else parts[2]
            what = f"namespaces {namespace}" if of_namespace else f"{parts[0]} {parts[1]}"
            value = self.of_objects.get(metric, {}).get(what)
            if value is None:
                return _not_found(f"the server could not find the metric {metric} for {what}")
            items.append({"describedObject": {"name": parts[1]}, "value": value, **self._at})
        return _ok({"kind": "MetricValueList", "items": items})

    @property
    def _at(self) -> Object:
        return {"timestamp": format_time(self._cluster.clock.now())}


def _unknown(_pod: Object) -> str | None:
    return None


def _runs(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") == "Running"


def _reference(pod: Object) -> Object:
    return {"name": name_of(pod), "namespace": namespace_of(pod)}


def _ok(document: Mapping[str, Any]) -> Response:
    return Response(status=200, body=orjson.dumps(document))


def _not_found(message: str) -> Response:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": "NotFound"}
    return Response(status=404, body=orjson.dumps({**status, "code": 404}))
