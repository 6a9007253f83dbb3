"""Workload with autoscaler, and the usage of its pods, in a simulated cluster."""

from __future__ import annotations

from typing import Any

from structlog.typing import FilteringBoundLogger

from kcm.actors.app.arguments import read_options
from kcm.actors.controllers.workloads import deployment, horizontal_pod_autoscaler, replicaset
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.metrics_server import metrics_server
from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import Object, key_of, make_key
from kcm.protocols.resources import DEPLOYMENTS, EVENTS, HORIZONTAL_POD_AUTOSCALERS, PODS, Resource
from kcm.runtime.apiserver.kinds.aggregated import AGGREGATED

CONTROLLERS = (deployment.SPEC, replicaset.SPEC, horizontal_pod_autoscaler.SPEC)
PERIOD = 15.0
USAGE = "hollow.kcm.dev/cpu-usage"
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
THINGS = Resource(group="example.com", version="v1", plural="things", kind="Thing")
AT_ONCE = {"stabilizationWindowSeconds": 0, "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}


def external(target: dict[str, str], **metric: Any) -> Object:
    type_ = "Value" if "value" in target else "AverageValue"
    return {
        "type": "External",
        "external": {"metric": {"name": "queue", **metric}, "target": {"type": type_, **target}},
    }


class Scaled:
    """Simulated cluster with nodes and a manager. Pods use the 100m that they request, unless a test changes that."""

    def __init__(self, log: FilteringBoundLogger, *flags: str, controllers: Any = CONTROLLERS) -> None:
        self.cluster = SimulatedCluster(log=log)
        self.cluster.serve(*AGGREGATED)
        self.metrics = metrics_server(self.cluster)
        self._used = "100m"
        self.cluster.hollow_nodes(nodes=2, zones=1)
        self.cluster.manager(controllers=controllers, options=read_options(flags))
        self.cluster.run_for(1.0)

    def use(self, cpu: str, *pods: Object) -> None:
        """Set the CPU usage of these pods; by default of all pods, also of future ones."""
        if not pods:
            self._used = cpu
        for pod in pods or self.cluster.list(PODS):
            self.cluster.merge(PODS, key_of(pod), {"metadata": {"annotations": {USAGE: cpu}}})

    def workload(self, name: str, replicas: int, *, cpu: str = "100m", labels: Object | None = None) -> None:
        labels = labels or {"app": name}
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        meta = {"labels": labels, "annotations": {USAGE: self._used}}
        template = {"metadata": meta, "spec": {"containers": [container]}}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        self.cluster.create(DEPLOYMENTS, {"metadata": {"name": name}, "spec": spec})

    def autoscaler(self, name: str, *metrics: Object, target: Resource = DEPLOYMENTS, **spec: Any) -> None:
        reference = {"apiVersion": target.api_version, "kind": target.kind, "name": spec.pop("of", name)}
        whole = {"scaleTargetRef": reference, "maxReplicas": 10, "metrics": list(metrics) or [CPU], **spec}
        self.cluster.create(HORIZONTAL_POD_AUTOSCALERS, {"metadata": {"name": name}, "spec": whole})

    def replicas(self, name: str = "web") -> int:
        found = self.cluster.get(DEPLOYMENTS, make_key("default", name))
        assert found is not None
        return int(found["spec"]["replicas"])

    def status(self, name: str = "web") -> Object:
        found = self.cluster.get(HORIZONTAL_POD_AUTOSCALERS, make_key("default", name)) or {}
        return found.get("status") or {}

    def condition(self, type_: str, name: str = "web") -> tuple[str, str]:
        found = find_condition(self.status(name).get("conditions"), type_) or {}
        return found.get("status", ""), found.get("reason", "")

    def message(self, type_: str, name: str = "web") -> str:
        return str((find_condition(self.status(name).get("conditions"), type_) or {}).get("message"))

    def events(self, name: str = "web") -> list[tuple[str, str]]:
        found = [event for event in self.cluster.list(EVENTS) if event["involvedObject"]["name"] == name]
        mine = [event for event in found if event["involvedObject"]["kind"] == "HorizontalPodAutoscaler"]
        return sorted({(event["reason"], event["message"]) for event in mine})

    def run(self, periods: int = 1) -> None:
        self.cluster.run_for(periods * PERIOD)
