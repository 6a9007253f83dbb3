"""Bench with a ReplicaSet, its pods and the reconciler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from structlog.typing import FilteringBoundLogger

from kcm.actors.controllers.workloads.replicaset.reconciler import ReplicaSetReconciler
from kcm.actors.simulation.driver import Answer, Bench, Driven, drive
from kcm.protocols.objects import Object, owner_reference
from kcm.protocols.resources import PODS, REPLICASETS
from kcm.runtime.tables.entry import Entry
from tests.support.objects import WEB, replica_set, running_pod

KEY = "default/web"
DELETING = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["foregroundDeletion"]}
CONTROLLER = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "uid-of-d", "controller": True}


def web_replica_set(
    replicas: Any = 2,
    *,
    name: str = "web",
    labels: Mapping[str, Any] = WEB,
    status: Object | None = None,
    generation: int = 1,
    meta: Object | None = None,
    **spec: Any,
) -> Object:
    """Return the ReplicaSet web with uid, generation and status. meta: further metadata."""
    return replica_set(
        name,
        replicas=replicas,
        labels=labels,
        metadata={"uid": f"uid-of-{name}", "generation": generation, **(meta or {})},
        spec=spec,
        status=status or {"replicas": 0},
    )


def owned(name: str, owner: Object | None = None, **options: Any) -> Object:
    """Return a running pod of the ReplicaSet web, or of another owner. options: those of `running_pod`."""
    reference = owner_reference(owner or web_replica_set(), api_version="apps/v1", kind="ReplicaSet")
    return running_pod(name, **{"labels": WEB, "owner": reference, **options})


class Scene:
    """ReplicaSet, its pods, and the reconciler. ratios: observations of its metric."""

    def __init__(
        self,
        log: FilteringBoundLogger,
        *replica_sets: Object,
        pods: Sequence[Object] = (),
        **options: int,
    ) -> None:
        self.bench = Bench({REPLICASETS: replica_sets or [web_replica_set()], PODS: pods})
        self.clock, self.accept = self.bench.clock, self.bench.accept
        self.ratios = []
        self._arguments = {"clock": self.clock, "log": log, "observe_age_ratio": self.ratios.append, **options}
        self.start()

    def start(self) -> None:
        """Start an incarnation of the reconciler with an empty overlay."""
        self.bench.forget_writes()
        self.tables = self.bench.tables
        self.reconciler = ReplicaSetReconciler(tables=self.tables, **self._arguments)

    def sync(self, answer: Answer | None = None, key: str = KEY, **options: Any) -> Driven:
        return drive(self.reconciler, key, answer or self.accept, tables=self.tables, **options)

    def status(self, key: str = KEY) -> Object:
        return self.tables[REPLICASETS].get(key)["status"]

    def pods(self) -> list[Entry]:
        return self.tables[PODS].entries_owned_by("uid-of-web")

    def fail_pods(self, keys: Sequence[str]) -> None:
        """Show these pods in the table as rejected by their node."""
        for key in keys:
            known = self.tables[PODS].get(key)
            meta = {name: value for name, value in known["metadata"].items() if name != "resourceVersion"}
            self.bench.show(PODS, {**known, "metadata": meta, "status": {"phase": "Failed", "reason": "OutOfcpu"}})
