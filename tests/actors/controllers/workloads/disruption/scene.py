"""Builders of budgets, pods and their owners, and a bench for the reconciler."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kcm.actors.controllers.workloads.disruption.reconciler import DisruptionReconciler
from kcm.actors.controllers.workloads.disruption.spec import SPEC
from kcm.actors.simulation.driver import NOW as NOW
from kcm.actors.simulation.driver import Answer, Bench, Driven, bodies, drive
from kcm.protocols.messages.commands import Update
from kcm.protocols.messages.discovery import ServedResource, TablesChanged
from kcm.protocols.objects import Object
from kcm.protocols.resources import (
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICASETS,
    REPLICATION_CONTROLLERS,
    STATEFULSETS,
    Resource,
)
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.tables.tables import Tables

LABELS = {"app": "web"}
KEY = "default/budget"


def a_pod(name: str, owner: Object | None = None, *, ready: bool = True, **meta: Any) -> Object:
    if owner is not None:
        meta["ownerReferences"] = [reference(owner)]
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "metadata": {"name": name, "namespace": "default", "labels": LABELS, **meta},
        "spec": {},
        "status": {"phase": "Running", "conditions": conditions},
    }


def reference(owner: Object) -> Object:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }


def an_owner(resource: Resource, name: str, replicas: int, owner: Object | None = None) -> Object:
    meta: Object = {"name": name, "namespace": "default", "uid": f"{resource.kind}-{name}"}
    if owner is not None:
        meta["ownerReferences"] = [reference(owner)]
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": meta,
        "spec": {"replicas": replicas},
    }


def a_budget(status: Object | None = None, **spec: Any) -> Object:
    return {
        "metadata": {"name": "budget", "namespace": "default", "generation": 1},
        "spec": {"selector": {"matchLabels": LABELS}, **spec},
        "status": status or {},
    }


class Scene:
    """Test bench of the disruption reconciler.

    served: the discovered kinds; None before discovery is complete."""

    def __init__(
        self,
        *,
        budgets: Sequence[Object] = (),
        pods: Iterable[Object] = (),
        owners: Iterable[tuple[Resource, Object]] = (),
        served: Sequence[ServedResource] | None = (),
    ) -> None:
        objects: dict[Resource, list[Object]] = {POD_DISRUPTION_BUDGETS: list(budgets), PODS: list(pods)}
        for resource in (REPLICATION_CONTROLLERS, REPLICASETS, DEPLOYMENTS, STATEFULSETS):
            objects[resource] = []
        for resource, owner in owners:
            objects[resource].append(owner)
        self.bench = Bench(objects, indexes=SPEC.indexes, facts=SPEC.facts)
        self.reconciler = DisruptionReconciler(tables=self.tables, clock=self.bench.clock, log=quiet_log())
        if served is not None:
            self.reconciler.on_message(TablesChanged((), served=tuple(served)))

    @property
    def tables(self) -> Tables:
        return self.bench.tables

    def sync(self, answer: Answer | None = None, *, raises: type[Exception] | None = None) -> Driven:
        return drive(self.reconciler, KEY, answer or self.bench.accept, tables=self.tables, raises=raises)

    def counts(self) -> tuple[int, int, int, int]:
        """Return (allowed, healthy, desired, expected) of the budget, including own writes."""
        budget = self.tables[POD_DISRUPTION_BUDGETS].get(KEY)
        assert budget is not None
        names = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
        return tuple(budget["status"][name] for name in names)  # type: ignore[return-value]


def written(driven: Driven) -> list[Object]:
    """Return the written statuses."""
    return [body["status"] for body in bodies(driven, Update)]
