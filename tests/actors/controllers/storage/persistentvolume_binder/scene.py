"""Builders of volumes, claims and classes, and a bench with the persistent volume binder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from structlog.testing import CapturingLogger

from kcm.actors.controllers.storage.persistentvolume_binder.metrics import BinderMetrics
from kcm.actors.controllers.storage.persistentvolume_binder.options import PersistentVolumeBinderOptions
from kcm.actors.controllers.storage.persistentvolume_binder.reconciler import PersistentVolumeBinder
from kcm.actors.controllers.storage.persistentvolume_binder.recycler_pod import recyclers
from kcm.actors.controllers.storage.persistentvolume_binder.spec import SPEC
from kcm.actors.simulation.driver import Answer, Bench, Driven, drive_steps
from kcm.protocols.messages.commands import Command, List, Update
from kcm.protocols.messages.outcomes import Done, Forbidden, Outcome
from kcm.protocols.objects import Key, Object, annotations_of, encode_object, make_key, name_of
from kcm.protocols.resources import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES, Resource
from kcm.protocols.volumes import (
    BETA_PROVISIONER,
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    PROVISIONED_BY,
    PROVISIONER,
)
from kcm.runtime.metrics.registry import Metrics

BY_US, DONE = {BOUND_BY_CONTROLLER: "yes"}, {BIND_COMPLETED: "yes"}
BOTH = {**BY_US, **DONE}
HOST_PATH = "kubernetes.io/host-path"
MODES = ("ReadWriteOnce", "ReadOnlyMany")


def volume(
    name: str,
    size: str = "1Gi",
    *,
    of: str = "",
    uid: str = "",
    phase: str = "Available",
    policy: str = "Retain",
    class_: str = "",
    marks: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    deleted: bool = False,
    finalizers: tuple[str, ...] = (),
    message: str = "",
    **spec: Any,
) -> Object:
    """Return a PersistentVolume.

    of, uid: name and uid of the claim in its claimRef.
    marks: annotations.
    """
    meta: Object = {"name": name, "annotations": dict(marks or {}), "labels": dict(labels or {})}
    if deleted:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if finalizers:
        meta["finalizers"] = list(finalizers)
    whole: Object = {
        "capacity": {"storage": size},
        "accessModes": list(MODES),
        "persistentVolumeReclaimPolicy": policy,
        "storageClassName": class_,
        "volumeMode": "Filesystem",
        **({} if {"hostPath", "nfs", "csi"} & spec.keys() else {"gcePersistentDisk": {"pdName": "disk"}}),
        **spec,
    }
    if of:
        reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "default", "name": of}
        whole["claimRef"] = {**reference, **({"uid": uid} if uid else {})}
    status = {"phase": phase, **({"message": message} if message else {})}
    return {"metadata": meta, "spec": whole, "status": status}


def claim(
    name: str = "claim",
    size: str = "1Gi",
    *,
    uid: str = "uid",
    to: str = "",
    phase: str = "Pending",
    class_: str | None = None,
    marks: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    """Return a PersistentVolumeClaim. to: spec.volumeName."""
    whole: Object = {
        "accessModes": list(MODES),
        "resources": {"requests": {"storage": size}},
        "volumeMode": "Filesystem",
        **spec,
    }
    if to:
        whole["volumeName"] = to
    if class_ is not None:
        whole["storageClassName"] = class_
    status: Object = {"phase": phase}
    if phase == "Bound":
        status |= {"accessModes": list(whole["accessModes"]), "capacity": {"storage": size}}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": uid, "annotations": dict(marks or {})},
        "spec": whole,
        "status": status,
    }


def class_(name: str, provisioner: str = "example.com/disk", *, mode: str = "Immediate", **more: Any) -> Object:
    return {
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z", **more.pop("metadata", {})},
        "provisioner": provisioner,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": mode,
        **more,
    }


def pod(name: str, *, of: str = "claim", phase: str = "Running", node: str = "node") -> Object:
    spec: Object = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": of}}]}
    if node:
        spec["nodeName"] = node
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": {"phase": phase}}


class Scene:
    """Bench with the binder and its tables.

    pod_events: events of the recycler pod; None if the binder is not permitted to list them.
    """

    pod_events: Iterable[Object] | None = ()

    def __init__(
        self,
        volumes: Iterable[Object] = (),
        claims: Iterable[Object] = (),
        classes: Iterable[Object] = (),
        pods: Iterable[Object] = (),
        nodes: Iterable[Object] = (),
        **options: Any,
    ) -> None:
        self.bench = Bench(
            {
                PERSISTENT_VOLUMES: volumes,
                PERSISTENT_VOLUME_CLAIMS: claims,
                STORAGE_CLASSES: classes,
                PODS: pods,
                NODES: nodes,
            },
            indexes=SPEC.indexes,
            facts=SPEC.facts,
        )
        self.metrics = Metrics()
        self._options = PersistentVolumeBinderOptions(**options)
        self.binder = self.build()

    def build(self) -> PersistentVolumeBinder:
        return PersistentVolumeBinder(
            tables=self.bench.tables,
            clock=self.bench.clock,
            log=CapturingLogger(),  # type: ignore[arg-type]
            metrics=BinderMetrics(metrics=self.metrics, clock=self.bench.clock),
            recyclers=recyclers(self._options),
            provisions=self._options.enable_dynamic_provisioning,
            host_path=self._options.enable_hostpath_provisioner,
        )

    def sync_claim(self, name: str = "claim", **how: Any) -> Driven:
        return self._drive(self.binder.sync_claim, make_key("default", name), **how)

    def sync_volume(self, name: str, **how: Any) -> Driven:
        return self._drive(self.binder.sync_volume, name, **how)

    def run(self, queue: str, key: Key, **how: Any) -> Driven:
        queues = {
            "provisionings": self.binder.provision,
            "deletions": self.binder.delete,
            "recyclings": self.binder.recycle,
        }
        return self._drive(queues[queue], key, **how)

    def settle_volume(self, name: str, **how: Any) -> list[tuple[str, str]]:
        """Sync a volume, then the keys that this has enqueued. Returns the types and reasons of the events."""
        driven = self.sync_volume(name, **how)
        events = [event[:2] for event in driven.events]
        for each in driven.enqueued:
            if each.queue != "claims":
                events += [event[:2] for event in self.run(each.queue, str(each.key), **how).events]
        return events

    def settle(self, rounds: int = 5) -> None:
        """Sync all claims and volumes until no sync writes anything."""
        tables = self.bench.tables
        for _ in range(rounds):
            claims = [self.sync_claim(name_of(claim)) for claim in tables[PERSISTENT_VOLUME_CLAIMS].objects()]
            volumes = [self.sync_volume(name_of(volume)) for volume in tables[PERSISTENT_VOLUMES].objects()]
            if not any(driven.of(Update) for driven in (*claims, *volumes)):
                return
        raise AssertionError(f"something is still written: {self.volumes} {self.claims}")

    def accept(self, command: Command) -> Outcome:
        if not isinstance(command, List):
            return self.bench.accept(command)
        return Forbidden("no") if self.pod_events is None else Done(encode_object({"items": list(self.pod_events)}))

    def _drive(
        self,
        function: Callable[[Key], Any],
        key: Key,
        answer: Answer | None = None,
        raises: type[Exception] | None = None,
        stop_after: int | None = None,
    ) -> Driven:
        answer = answer or self.accept
        return drive_steps(function(key), answer, tables=self.bench.tables, raises=raises, stop_after=stop_after)

    def get(self, resource: Resource, key: Key) -> Object | None:
        return self.bench.tables[resource].get(key)

    def volume(self, name: str) -> Object:
        found = self.get(PERSISTENT_VOLUMES, name)
        assert found is not None, f"volume {name} is deleted"
        return found

    def claim(self, name: str = "claim") -> Object:
        found = self.get(PERSISTENT_VOLUME_CLAIMS, make_key("default", name))
        assert found is not None, f"claim {name} is deleted"
        return found

    @property
    def volumes(self) -> list[str]:
        """Return a line for each volume, sorted."""
        found = self.bench.tables[PERSISTENT_VOLUMES].objects()
        return sorted(shown_volume(volume) for volume in found)

    @property
    def claims(self) -> list[str]:
        found = self.bench.tables[PERSISTENT_VOLUME_CLAIMS].objects()
        return sorted(shown_claim(claim) for claim in found)


_LETTERS = {BOUND_BY_CONTROLLER: "us", BIND_COMPLETED: "done", PROVISIONED_BY: "provisioned"}


def shown_volume(volume: Object) -> str:
    """Return the fields of a volume that binding changes, as text like "name Phase claim/uid +us"."""
    reference = volume["spec"].get("claimRef")
    named = "" if reference is None else f" {reference['name']}/{reference.get('uid', '')}"
    return f"{volume['metadata']['name']} {volume['status']['phase'] or '-'}{named}{_marks(volume)}"


def shown_claim(claim: Object) -> str:
    """Return the fields of a claim that binding changes, as text like "name Phase volume +us +done"."""
    named = claim["spec"].get("volumeName", "")
    return f"{claim['metadata']['name']} {claim['status']['phase']}{' ' if named else ''}{named}{_marks(claim)}"


def _marks(obj: Object) -> str:
    annotations = annotations_of(obj)
    marks = [letter for name, letter in _LETTERS.items() if name in annotations]
    provisioner = annotations.get(PROVISIONER)
    if provisioner is not None and annotations.get(BETA_PROVISIONER) == provisioner:
        marks.append(provisioner)
    return "".join(f" +{mark}" for mark in marks)


def answering(known: Mapping[type[Command], Callable[[Any], Outcome | None]], otherwise: Answer) -> Answer:
    """Return a stub of the API server with fixed outcomes by the type of the command.

    otherwise: called for commands without an outcome.
    """

    def answer(command: Command) -> Outcome:
        found = known.get(type(command), lambda _command: None)(command)
        return otherwise(command) if found is None else found

    return answer
