"""Kinds that the ReplicaSet reconciler serves, with the parsing of their specs and their watches.

The kind ReplicationController is defined in actors/controllers/workloads/replicationcontroller.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from kcm.actors.reconciliation import ORPHANS, Change, Interest, Watch, its_controller, itself
from kcm.protocols.objects import Key, Object, is_deleting, key_of, labels_of, uid_of
from kcm.protocols.pods import COUNTED_FACTS
from kcm.protocols.resources import PODS, REPLICASETS, Resource
from kcm.protocols.selectors import LabelSelector, label_selector_of
from kcm.runtime.tables.tables import Tables


class ReplicaKind(Struct, frozen=True, kw_only=True):
    """Properties in which ReplicaSets and ReplicationControllers differ."""

    resource: Resource
    selector_of: Callable[[Mapping[str, Any]], LabelSelector]  # parses spec.selector; raises ValueError
    counts_terminating: bool  # whether the status has terminatingReplicas
    ranks_by_siblings: bool  # whether pods of sibling ReplicaSets count for the deletion order by node
    heeds_deletion_cost: bool = True  # whether the annotation pod-deletion-cost counts

    def with_feature_gates(self, gates: Mapping[str, bool]) -> ReplicaKind:
        return replace(
            self,
            counts_terminating=self.counts_terminating and gates["DeploymentReplicaSetTerminatingReplicas"],
            heeds_deletion_cost=gates["PodDeletionCost"],
        )


REPLICASET = ReplicaKind(
    resource=REPLICASETS, selector_of=label_selector_of, counts_terminating=True, ranks_by_siblings=True
)


class ReplicaSpec(NamedTuple):
    """Spec and status of a ReplicaSet or ReplicationController, parsed and validated."""

    replicas: int
    selector: LabelSelector
    template: Object
    template_labels: Mapping[str, str]
    min_ready_seconds: int
    status: Mapping[str, Any]


def replica_spec(owner: Object, kind: ReplicaKind) -> ReplicaSpec:
    """Parse a ReplicaSet or ReplicationController.

    Raises ValueError, with the name of the field, if a field is missing or malformed.
    """
    spec = owner.get("spec")
    if not isinstance(spec, dict):
        raise ValueError(f"spec is a map, got {spec!r}")
    template = spec.get("template")
    if not isinstance(template, dict):
        raise ValueError(f"spec.template is a map, got {template!r}")
    meta = template.get("metadata") or {}
    labels = (meta.get("labels") or {}) if isinstance(meta, dict) else None
    if not isinstance(labels, dict):
        raise ValueError(f"spec.template.metadata.labels is a map, got {labels!r}")
    status = owner.get("status") or {}
    if not isinstance(status, dict):
        raise ValueError(f"status is a map, got {status!r}")
    return ReplicaSpec(
        replicas=_count(spec, "replicas", 1),
        selector=selector_of(owner, kind),
        template=template,
        template_labels=labels,
        min_ready_seconds=_count(spec, "minReadySeconds", 0),
        status=status,
    )


def selector_of(owner: Object, kind: ReplicaKind) -> LabelSelector:
    """Parse spec.selector. Raises ValueError if it is malformed or empty.

    An empty selector would adopt every orphan of the namespace.
    """
    spec = owner.get("spec")
    selector = spec.get("selector") if isinstance(spec, dict) else None
    if not isinstance(selector, dict):
        raise ValueError(f"spec.selector is a map, got {selector!r}")
    compiled = kind.selector_of(selector)
    if compiled.empty:
        raise ValueError("spec.selector is empty")
    return compiled


def _count(spec: Mapping[str, Any], field: str, default: int) -> int:
    value = spec.get(field)
    if value is None:
        return default
    if type(value) is not int or value < 0:
        raise ValueError(f"spec.{field} is a number from 0 on, got {value!r}")
    return value


def matching_owners(kind: ReplicaKind) -> Callable[[Change, Tables], Iterable[Key]]:
    """Return a watch function that maps a new, released or relabelled orphaned pod to the owners that may adopt it."""

    def keys(change: Change, tables: Tables) -> Iterable[Key]:
        if change.controller is not None or change.deleted:
            return
        pod, old = change.new, change.old
        labels = labels_of(pod)
        if not labels or is_deleting(pod):
            return
        if old is not None and uid_of(old) == uid_of(pod):
            if change.previous_controller is None and labels_of(old) == labels:
                return
        for owner in tables[kind.resource].objects(change.namespace):
            try:
                selector = selector_of(owner, kind)
            except ValueError:
                continue  # the owner's own sync reports the error
            if selector.matches(labels):
                yield key_of(owner)

    return keys


def watches(kind: ReplicaKind) -> tuple[Watch[Key], ...]:
    return (
        Watch(kind.resource, to=itself),
        # The sync that creates pods also counts them.
        Watch(
            PODS,
            to=its_controller(kind.resource),
            interest=Interest(owner_kinds=(kind.resource.kind,), changed=COUNTED_FACTS, own_writes=False),
        ),
        Watch(PODS, to=matching_owners(kind), interest=Interest(owner_kinds=(ORPHANS,), changed=("labels",))),
    )
