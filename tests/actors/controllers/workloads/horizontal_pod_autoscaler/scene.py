"""Bench for single evaluations of an autoscaler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from kcm.actors.controllers.shared.served_kinds import ServedKinds
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.evaluations import AutoscalerSettings
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.metrics import Monitor
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.metrics_apis import MetricsApis
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.pods import CpuInitialization
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.reconciler import AutoscalerReconciler
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.sources import MetricSources
from kcm.actors.simulation.driver import NOW, Bench, Driven, drive
from kcm.protocols.conditions import find_condition
from kcm.protocols.messages.commands import Command, Fetch, Get, Update
from kcm.protocols.messages.discovery import ServedResource
from kcm.protocols.messages.outcomes import Done, Outcome
from kcm.protocols.objects import Object
from kcm.protocols.resources import HORIZONTAL_POD_AUTOSCALERS, PODS
from kcm.protocols.times import format_time
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.metrics.registry import Family, Histogram, Metrics, Series
from tests.actors.controllers.workloads.horizontal_pod_autoscaler.scaled import PERIOD, external

KEY = "default/web"
NEVER_CHANGED = format_time(NOW - 1000)
SCALE = {"spec": {"replicas": 1}, "status": {"replicas": 1, "selector": "app=web"}}
QUEUE = external({"averageValue": "10"})  # the queue has 30 entries
TARGETS = (
    ("apps", "deployments", "Deployment"),
    ("apps", "replicasets", "ReplicaSet"),
    ("", "replicationcontrollers", "ReplicationController"),
)


def autoscaler(*metrics: Object, **spec: Any) -> Object:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    whole = {"scaleTargetRef": reference, "maxReplicas": 10, "metrics": list(metrics or [QUEUE]), **spec}
    return {"metadata": {"name": "web", "namespace": "default", "uid": "u"}, "spec": whole}


def pod(**container: Any) -> Object:
    meta = {"name": "p", "namespace": "default", "labels": {"app": "web"}}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": NEVER_CHANGED}
    status = {"phase": "Running", "startTime": NEVER_CHANGED, "conditions": [ready]}
    resources = {"requests": {"cpu": "100m"}}
    containers = [{"name": "c", "resources": resources, **container}]
    return {"metadata": meta, "spec": {"containers": containers}, "status": status}


def usual(fetch: Fetch) -> Outcome:
    """Return the default responses of the metrics APIs: one pod, and an external queue."""
    used = {
        "metadata": {"name": "p"},
        "timestamp": NEVER_CHANGED,
        "containers": [{"name": "c", "usage": {"cpu": "100m"}}],
    }
    return Done(orjson.dumps({"items": [{"value": "30"}] if "external" in fetch.path else [used]}))


class Scene:
    """Test bench of the autoscaler: a Deployment `web` whose pod uses 100m.

    scale: the scale, or the outcome of reading it.
    measured: responses of the metrics APIs.
    refusals: outcomes of writes, by subresource.
    first: outcomes of the first writes only, by subresource.
    """

    def __init__(
        self,
        shown: Object,
        *pods: Object,
        scale: Object | Outcome = SCALE,
        measured: Callable[[Fetch], Outcome] = usual,
        scales_to_zero: bool = False,
        tolerates: bool = True,
        at_once: bool = False,
    ) -> None:
        self.bench = Bench({HORIZONTAL_POD_AUTOSCALERS: [shown], PODS: pods or [pod()]})
        self.registry = Metrics()
        self.refusals: dict[str, Outcome] = {}
        self.first: dict[str, list[Outcome]] = {}
        self.scale, self.measured = scale, measured
        served, clock = ServedKinds(), self.bench.clock
        served.update_served([_served(*target) for target in TARGETS])
        self.sources = MetricSources(
            pods=self.bench.tables[PODS],
            apis=MetricsApis(served=served, clock=clock, period=PERIOD),
            clock=clock,
            cpu_initialization=CpuInitialization(300.0, 30.0),
            pod_level_resources=True,
        )
        self.autoscaling = AutoscalerReconciler(
            tables=self.bench.tables,
            clock=clock,
            log=quiet_log(),
            monitor=Monitor(self.registry),
            settings=AutoscalerSettings(
                PERIOD,
                300.0,
                0.1,
                scales_to_zero=scales_to_zero,
                configurable_tolerance=tolerates,
                evaluates_new_specs_at_once=at_once,
            ),
            served=served,
            sources=self.sources,
        )

    def look(self, key: str = KEY, *, raises: type[Exception] | None = None) -> Driven:
        return drive(self.autoscaling, key, self.answer, tables=self.bench.tables, raises=raises)

    @property
    def status(self) -> Object:
        return (self.bench.tables[HORIZONTAL_POD_AUTOSCALERS].get(KEY) or {}).get("status") or {}

    def condition(self, type_: str) -> tuple[str, str, str]:
        """Return status, reason and message of a condition."""
        found = find_condition(self.status.get("conditions"), type_) or {}
        return found.get("status", ""), found.get("reason", ""), found.get("message", "")

    def shown(self, family: Family) -> dict[tuple[str, ...], float]:
        """Return the value of each series by its labels; for a histogram, the number of observations."""
        found = next((series for exported, series in self.registry.collect() if exported == family), [])
        return {labels: _value(series) for labels, series in found}

    def answer(self, command: Command) -> Outcome:
        match command:
            case Fetch():
                return self.measured(command)
            case Update(subresource=subresource) if self.first.get(subresource):
                return self.first[subresource].pop(0)
            case Update(subresource=subresource) if subresource in self.refusals:
                return self.refusals[subresource]
            case Get(subresource="scale"):
                if not isinstance(self.scale, dict):
                    return self.scale
                meta = {"name": "web", "namespace": "default", "resourceVersion": "1"}
                return Done(orjson.dumps({"metadata": meta, **self.scale}))
            case _:
                return self.bench.accept(command)


def _served(group: str, plural: str, kind: str) -> ServedResource:
    return ServedResource(group=group, version="v1", plural=plural, kind=kind, namespaced=True)


def _value(series: Series) -> float:
    return sum(series.counts) if isinstance(series, Histogram) else series.value
