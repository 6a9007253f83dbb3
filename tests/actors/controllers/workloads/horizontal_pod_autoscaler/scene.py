"""An autoscaler on a bench: what one look at it does, and the status that it leaves."""

from __future__ import annotations

from typing import Any

import orjson

from actors.controllers.shared.served_kinds import ServedKinds
from actors.controllers.workloads.horizontal_pod_autoscaler.looks import Settings
from actors.controllers.workloads.horizontal_pod_autoscaler.metrics import Monitor
from actors.controllers.workloads.horizontal_pod_autoscaler.metrics_apis import MetricsApis
from actors.controllers.workloads.horizontal_pod_autoscaler.pods import Youth
from actors.controllers.workloads.horizontal_pod_autoscaler.reconciler import HorizontalPodAutoscaling
from actors.controllers.workloads.horizontal_pod_autoscaler.sources import Sources
from actors.simulation.driving import NOW, Bench, Driven, drive
from protocols.conditions import find_condition
from protocols.messages.commands import Command, Fetch, Get, Update
from protocols.messages.discovery import ServedResource
from protocols.messages.outcomes import Done, Outcome
from protocols.objects import Object
from protocols.resources import HORIZONTAL_POD_AUTOSCALERS, PODS
from protocols.times import format_time
from runtime.logs.standard_log import quiet_log
from runtime.metrics.registry import Metrics
from tests.actors.controllers.workloads.horizontal_pod_autoscaler.scaled import PERIOD, external

KEY = "default/web"
LONG_AGO = format_time(NOW - 1000)
SCALE = {"spec": {"replicas": 1}, "status": {"replicas": 1, "selector": "app=web"}}
QUEUE = external({"averageValue": "10"})  # 30 wait in it


def autoscaler(*metrics: Object, **spec: Any) -> Object:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    whole = {"scaleTargetRef": reference, "maxReplicas": 10, "metrics": list(metrics or [QUEUE]), **spec}
    return {"metadata": {"name": "web", "namespace": "default", "uid": "u"}, "spec": whole}


def pod(**container: Any) -> Object:
    meta = {"name": "p", "namespace": "default", "labels": {"app": "web"}}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO}
    status = {"phase": "Running", "startTime": LONG_AGO, "conditions": [ready]}
    resources = {"requests": {"cpu": "100m"}}
    containers = [{"name": "c", "resources": resources, **container}]
    return {"metadata": meta, "spec": {"containers": containers}, "status": status}


class Scene:
    """A Deployment `web`, whose pod uses 100m. refusals: outcomes of writes, by their subresource."""

    def __init__(self, shown: Object, *pods: Object, scale: Object = SCALE) -> None:
        self.bench = Bench({HORIZONTAL_POD_AUTOSCALERS: [shown], PODS: pods or [pod()]})
        self.registry = Metrics()
        self.refusals: dict[str, Outcome] = {}
        self._scale = {"metadata": {"name": "web", "namespace": "default", "resourceVersion": "1"}, **scale}
        served, clock = ServedKinds(), self.bench.clock
        served.follow(
            [ServedResource(group="apps", version="v1", plural="deployments", kind="Deployment", namespaced=True)]
        )
        sources = Sources(
            pods=self.bench.tables[PODS],
            apis=MetricsApis(served=served, clock=clock, period=PERIOD),
            clock=clock,
            youth=Youth(300.0, 30.0),
            of_whole_pods=True,
        )
        self.autoscaling = HorizontalPodAutoscaling(
            tables=self.bench.tables,
            clock=clock,
            log=quiet_log(),
            monitor=Monitor(self.registry),
            settings=Settings(PERIOD, 300.0, 0.1, scales_to_zero=False, tolerates=True),
            served=served,
            sources=sources,
        )

    def look(self, *, raises: type[Exception] | None = None) -> Driven:
        return drive(self.autoscaling, KEY, self._answer, tables=self.bench.tables, raises=raises)

    @property
    def status(self) -> Object:
        return (self.bench.tables[HORIZONTAL_POD_AUTOSCALERS].get(KEY) or {}).get("status") or {}

    def said(self, type_: str) -> tuple[str, str, str]:
        """Status, reason and message of a condition."""
        found = find_condition(self.status.get("conditions"), type_) or {}
        return found.get("status", ""), found.get("reason", ""), found.get("message", "")

    def _answer(self, command: Command) -> Outcome:
        match command:
            case Fetch(path=path):
                usage = {"name": "c", "usage": {"cpu": "100m"}}
                used = {"metadata": {"name": "p"}, "timestamp": LONG_AGO, "containers": [usage]}
                return Done(orjson.dumps({"items": [{"value": "30"}] if "external" in path else [used]}))
            case Update(subresource=subresource) if subresource in self.refusals:
                return self.refusals[subresource]
            case Get(subresource="scale"):
                return Done(orjson.dumps(self._scale))
            case _:
                return self.bench.accept(command)
