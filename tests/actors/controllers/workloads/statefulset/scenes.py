"""Bench with a StatefulSet, its pods and claims, and the reconciler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kcm.actors.controllers.shared.controller_revisions import new_revision, template_data
from kcm.actors.controllers.workloads.statefulset.identity import NAME_LABEL, REVISION_LABEL
from kcm.actors.controllers.workloads.statefulset.metrics import StatefulSetMetrics
from kcm.actors.controllers.workloads.statefulset.objects import StatefulSet, parse_stateful_set
from kcm.actors.controllers.workloads.statefulset.reconciler import StatefulSetReconciler
from kcm.actors.simulation.driver import NOW, Answer, Bench, Driven, bodies, drive
from kcm.protocols.messages.commands import Create, Update
from kcm.protocols.objects import Object, name_of, owner_reference
from kcm.protocols.resources import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS, STATEFULSETS
from kcm.runtime.metrics.registry import Metrics
from tests.support.objects import WEB, custom_object, pod_template, running_pod

KEY = "default/web"
DELETING = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["foregroundDeletion"]}


def a_set(
    replicas: Any = 3,
    *,
    image: str = "v1",
    claims: Iterable[str] = (),
    parallel: bool = False,
    status: Mapping[str, Any] | None = None,
    meta: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Object:
    """Return the StatefulSet web with the server's defaults. claims: names of claim templates."""
    return custom_object(
        "web",
        metadata={"uid": "uid-of-web", "generation": 1, **(meta or {})},
        spec={
            "replicas": replicas,
            "serviceName": "svc",
            "selector": {"matchLabels": WEB},
            "template": pod_template(image=image),
            "podManagementPolicy": "Parallel" if parallel else "OrderedReady",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "revisionHistoryLimit": 10,
            "volumeClaimTemplates": [claim_template(name) for name in claims],
            **spec,
        },
        status=status or {"replicas": 0, "availableReplicas": 0},
    )


def claim_template(name: str) -> Object:
    return {"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"]}}


def read(obj: Object) -> StatefulSet:
    return parse_stateful_set(obj)


def revision(image: str = "v1", number: int = 1) -> Object:
    """Return the ControllerRevision of the template with this image."""
    owner = a_set(image=image)
    return new_revision(owner, STATEFULSETS, labels=WEB, data=template_data(owner), revision=number, collision_count=0)


def called(image: str = "v1") -> str:
    """Return the name of the revision of the template with this image."""
    return name_of(revision(image))


def member(ordinal: int | str, *, image: str = "v1", claims: Iterable[str] = (), **options: Any) -> Object:
    """Return a running pod of the set. options: those of `running_pod`."""
    name = f"web-{ordinal}"
    labels = {**WEB, NAME_LABEL: name, REVISION_LABEL: called(image)}
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-{name}"}} for claim in claims]
    reference = owner_reference(a_set(), api_version="apps/v1", kind="StatefulSet")
    return running_pod(name, **{"labels": labels, "owner": reference, "spec": {"volumes": volumes}, **options})


def young(ordinal: int, seconds: float, **options: Any) -> Object:
    """Return a pod that became ready this number of seconds ago."""
    return member(ordinal, ready_since=NOW - seconds, **options)


def a_claim(name: str, *owners: Object, **meta: Any) -> Object:
    return custom_object(name, metadata={"ownerReferences": list(owners), **meta}, spec={"volumeMode": "Filesystem"})


def a_reference(kind: str, name: str, uid: str = "", *, controller: bool = True) -> Object:
    """Return an owner reference. uid: that of the present object of the name by default."""
    version = "apps/v1" if kind == "StatefulSet" else "v1"
    return {
        "apiVersion": version,
        "kind": kind,
        "name": name,
        "uid": uid or f"uid-of-{name}",
        "controller": controller,
        "blockOwnerDeletion": True,
    }


class Scene:
    """A StatefulSet with its pods, claims and revisions, and the reconciler.

    revisions: by default the revision of the template, as after a first sync.
    """

    def __init__(
        self,
        obj: Object | None = None,
        *pods: Object,
        claims: Iterable[Object] = (),
        revisions: Iterable[Object] | None = None,
        several_unavailable: bool = False,
        on_delete_completes: bool = False,
    ) -> None:
        self.bench = Bench(
            {
                STATEFULSETS: [] if obj is None else [obj],
                PODS: pods,
                PERSISTENT_VOLUME_CLAIMS: claims,
                CONTROLLER_REVISIONS: [revision()] if revisions is None else revisions,
            }
        )
        self.metrics = Metrics()
        self._several, self._on_delete_completes = several_unavailable, on_delete_completes
        self.restart()

    def restart(self) -> None:
        self.bench.forget_writes()
        self.reconciler = StatefulSetReconciler(
            tables=self.bench.tables,
            clock=self.bench.clock,
            metrics=StatefulSetMetrics(self.metrics),
            several_unavailable=self._several,
            on_delete_completes=self._on_delete_completes,
        )

    def sync(
        self, answer: Answer | None = None, *, raises: type[Exception] | None = None, stop_after: int | None = None
    ) -> Driven:
        return drive(
            self.reconciler,
            KEY,
            answer or self.bench.accept,
            tables=self.bench.tables,
            raises=raises,
            stop_after=stop_after,
        )


def made(driven: Driven) -> list[str]:
    """Return the names of created pods and claims."""
    wanted = (PODS.id, PERSISTENT_VOLUME_CLAIMS.id)
    commands = [command for command in driven.of(Create) if command.resource in wanted]
    return [name_of(each) for each in bodies(Driven(batches=[commands]), Create)]


def status_written(driven: Driven) -> Object | None:
    """Return the status that was written last; None without one."""
    found = [command for command in driven.of(Update) if command.subresource == "status"]
    return bodies(Driven(batches=[found]), Update)[-1]["status"] if found else None
