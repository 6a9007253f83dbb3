"""Lookup of the number of replicas of the workloads that own pods, such as Deployments.

Source: kubernetes v1.36 pkg/controller/disruption/disruption.go (getPodReplicationController, getPodDeployment,
getPodReplicaSet, getPodStatefulSet, getScaleController). Difference: no scale is requested for kinds that have no
subresource `scale` according to discovery, such as DaemonSets; upstream sends a request for each of their pods.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kcm.actors.controllers.shared.served_kinds import ServedKinds
from kcm.actors.controllers.workloads.disruption.pod_counts import CannotCountError
from kcm.actors.reconciliation import Step, perform
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Get
from kcm.protocols.messages.outcomes import Done, NotFound, Refused
from kcm.protocols.objects import OwnerRef, decode_object, make_key, split_key, uid_of
from kcm.protocols.resources import DEPLOYMENTS, REPLICASETS, REPLICATION_CONTROLLERS, STATEFULSETS, Resource
from kcm.runtime.tables.lister import Lister, UnreadableError
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

APPS = frozenset({"apps", "extensions"})  # groups in which there are, or were, ReplicaSets and Deployments
# Supported API versions of Scale objects.
SCALES = frozenset({"autoscaling/v1", "apps/v1beta1", "apps/v1beta2", "extensions/v1beta1"})


class Scale(NamedTuple):
    """Number of replicas of a workload that owns pods."""

    uid: str  # of the workload; for pods of a ReplicaSet this is its Deployment, if it has one
    replicas: int  # spec.replicas


class Scales:
    """Reads spec.replicas of workloads, from informers for built-in kinds, else from the subresource `scale`."""

    def __init__(self, *, tables: Tables, served: ServedKinds) -> None:
        self._replication_controllers, self._replica_sets = tables[REPLICATION_CONTROLLERS], tables[REPLICASETS]
        self._deployments, self._stateful_sets = tables[DEPLOYMENTS], tables[STATEFULSETS]
        self._served = served

    def total_replicas(self, pods: Iterable[Entry]) -> Step[tuple[int, list[str]]]:
        """Return the total replicas of the workloads that own these pods, and the names of pods without a controller.

        Each workload is counted once. Raises CannotCountError if a workload or its scale is not found, and Retry before
        discovery is complete.
        """
        found: dict[str, int] = {}
        seen: set[str] = set()
        unmanaged = []
        for pod in pods:
            namespace, name = split_key(pod.key)
            if pod.controller is None:
                unmanaged.append(name)
            elif pod.controller.uid not in seen:
                seen.add(pod.controller.uid)
                scale = yield from self._of(pod.controller, namespace)
                if scale is None:
                    raise CannotCountError(f'found no controllers for pod "{name}"')
                found[scale.uid] = scale.replicas
        return sum(found.values()), unmanaged

    def _of(self, owner: OwnerRef, namespace: str) -> Step[Scale | None]:
        try:
            scale = self._from_tables(owner, namespace)
        except UnreadableError as err:
            raise CannotCountError(str(err)) from err
        return scale if scale is not None else (yield from self._live(owner, namespace))

    def _from_tables(self, owner: OwnerRef, namespace: str) -> Scale | None:
        group = owner.api_version.rpartition("/")[0]
        match owner.kind:
            case "ReplicationController" if not group:
                return _scale(self._replication_controllers, owner, namespace)
            case "StatefulSet" if group == "apps":
                return _scale(self._stateful_sets, owner, namespace)
            case "ReplicaSet" if group in APPS:
                return self._of_replica_set(owner, namespace)
            case _:
                return None

    def _of_replica_set(self, owner: OwnerRef, namespace: str) -> Scale | None:
        """Return the replicas of a ReplicaSet's Deployment, or of the ReplicaSet itself if it has no Deployment.

        None if the informer caches do not contain them; then the caller requests the subresource `scale`.
        """
        replica_set = _entry(self._replica_sets, owner, namespace)
        if replica_set is None:
            return None
        deployment = replica_set.controller
        if deployment is None or deployment.kind != DEPLOYMENTS.kind:
            return _scale(self._replica_sets, owner, namespace)
        if deployment.api_version.rpartition("/")[0] not in APPS:
            return None
        return _scale(self._deployments, deployment, namespace)

    def _live(self, owner: OwnerRef, namespace: str) -> Step[Scale | None]:
        """Read the replicas of a workload from its subresource `scale`. Return None if the workload does not exist.

        Raises CannotCountError if the kind has no such subresource or the read failed, and Retry before discovery is
        complete.
        """
        served = self._served.find(owner.api_version, owner.kind)
        if served is None:
            raise CannotCountError(f'no matches for kind "{owner.kind}" in version "{owner.api_version}"')
        resource = served.resource
        if served.scale not in SCALES:
            raise CannotCountError(f"{resource.name} does not implement the scale subresource")
        if resource.namespaced:
            get = Get(resource.id, make_key(namespace, owner.name), "scale")
            outcome = yield from perform(get)
            if isinstance(outcome, Done):
                return _read(resource, outcome.body, owner)
            if isinstance(outcome, Refused):
                raise CommandError(get, outcome)
            if not isinstance(outcome, NotFound):
                raise CannotCountError(outcome.message)
        return None


def _read(resource: Resource, body: bytes, owner: OwnerRef) -> Scale | None:
    scale = decode_object(body)
    if uid_of(scale) != owner.uid:
        return None
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    if not isinstance(replicas, int):
        raise CannotCountError(f"the scale of {resource.name} {owner.name} is not a number: {replicas!r}")
    return Scale(owner.uid, replicas)


def _entry(lister: Lister, owner: OwnerRef, namespace: str) -> Entry | None:
    """Return the informer cache's entry of an owner; None if it is missing or its uid differs.

    Raises UnreadableError if the owner's object cannot be decoded.
    """
    key = make_key(namespace, owner.name)
    lister.require(key)
    entry = lister.entry(key)
    return entry if entry is not None and entry.uid == owner.uid else None


def _scale(lister: Lister, owner: OwnerRef, namespace: str) -> Scale | None:
    entry = _entry(lister, owner, namespace)
    if entry is None:
        return None
    replicas = (lister.object_of(entry).get("spec") or {}).get("replicas", 1)
    if not isinstance(replicas, int):
        raise CannotCountError(f"spec.replicas of {lister.resource.name} {entry.key} is not a number: {replicas!r}")
    return Scale(entry.uid, replicas)
