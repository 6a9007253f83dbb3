"""Constraints of a pod's claims on the choice of its node, and the writes that precede the binding.

The claim of a bound volume limits its pod to the nodes that the volume can be reached from. A claim that waits for its
first consumer gets a volume when the pod's node is chosen: a free volume that the node can reach, or one that the
provisioner creates for this node.

Source: kubernetes v1.36 pkg/scheduler/framework/plugins/volumebinding. Not supported: storage capacity, zone labels
of old volumes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from kcm.actors.controllers.storage.persistentvolume_binder.binding import bound_volume, with_annotations
from kcm.actors.controllers.storage.persistentvolume_binder.matching import (
    Requirements,
    best_volume,
    candidates,
    labels_in,
    requirements_of,
)
from kcm.actors.hollow.scheduler.node_fit import NodeUsage, NodeView
from kcm.actors.hollow.scheduler.placements import Placements
from kcm.actors.hollow.scheduler.volume_limits import TOO_MANY_VOLUMES, USED_BY_ANOTHER_POD, VolumeLimits
from kcm.actors.reconciliation import Step, must, must_object, step, update
from kcm.protocols.csi import CsiSource
from kcm.protocols.messages.outcomes import NotFound
from kcm.protocols.node_affinity import Term, terms_of
from kcm.protocols.objects import Key, Object, annotations_of, controller_of, is_deleting, key_of, split_key, uid_of
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from kcm.protocols.volumes import (
    SELECTED_NODE,
    claim_keys,
    claims_of,
    class_of,
    is_bound,
    is_of,
    phase_of,
    volume_name_of,
    waits_for_consumer,
)
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
OUT_OF_REACH = "node(s) didn't match PersistentVolume's node affinity"
NOT_THERE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


class UnresolvableError(Exception):
    """The pod can run on no node because of its claims. The text is kube-scheduler's."""


class WaitingClaim(Struct, frozen=True):
    """Claim that waits for its first consumer. class_: its StorageClass. node: the selected node, if any."""

    claim: Object
    required: Requirements
    class_: Object
    node: str | None


class Claimed(Struct, frozen=True):
    """Claims of a pod.

    reach: for each bound volume the terms of its node affinity, None for all nodes.
    waiting: claims that wait for a consumer.
    limited: its CSI volumes, of which a node can attach a limited number.
    """

    reach: tuple[tuple[Term, ...] | None, ...] = ()
    waiting: tuple[WaitingClaim, ...] = ()
    missing: bool = False  # the volume of a bound claim does not exist
    limited: frozenset[CsiSource] = frozenset()
    used: bool = False  # another pod uses a claim that only one pod may use


NOTHING = Claimed()


class PodVolumes:
    def __init__(self, tables: Tables) -> None:
        self._claims: Lister = tables[PERSISTENT_VOLUME_CLAIMS]
        self._volumes: Lister = tables[PERSISTENT_VOLUMES]
        self._classes: Lister = tables[STORAGE_CLASSES]
        self._limits = VolumeLimits(tables)

    def look(self, pod: Mapping[str, Any], placements: Placements) -> Claimed:
        """Return the claims of a pod that is not placed. Raises UnresolvableError."""
        reach: list[tuple[Term, ...] | None] = []
        waiting: list[WaitingClaim] = []
        missing = unbound = False
        for claim in self._claims_of(pod):
            if is_bound(claim):
                volume = self._volumes.get(volume_name_of(claim))
                missing = missing or volume is None
                reach.append(None if volume is None else reach_of(volume))
                continue
            class_ = self._classes.get(class_of(claim)) if class_of(claim) else None
            if class_ is None or volume_name_of(claim) or not waits_for_consumer(class_):
                unbound = True
                continue
            waiting.append(
                WaitingClaim(claim, requirements_of(claim), class_, annotations_of(claim).get(SELECTED_NODE))
            )
        if unbound:
            raise UnresolvableError(UNBOUND)
        return Claimed(
            tuple(reach),
            tuple(waiting),
            missing,
            self._limits.volumes_of(claim_keys(pod)),
            self._limits.is_used_by_another_pod(pod, placements),
        )

    def _claims_of(self, pod: Mapping[str, Any]) -> Iterator[Object]:
        for use in claims_of(pod):
            name = split_key(use.claim)[1]
            claim = self._claims.get(use.claim)
            if claim is None:
                if use.ephemeral:
                    raise UnresolvableError(
                        f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
                    )
                raise UnresolvableError(f'persistentvolumeclaim "{name}" not found')
            if phase_of(claim) == "Lost":
                lost = volume_name_of(claim)
                raise UnresolvableError(
                    f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{lost}"'
                )
            if is_deleting(claim):
                raise UnresolvableError(f'persistentvolumeclaim "{name}" is being deleted')
            owner = controller_of(claim)
            if use.ephemeral and (owner is None or owner.uid != uid_of(pod)):
                key = key_of(claim)
                raise UnresolvableError(f"PVC {key} was not created for pod {key_of(pod)} (pod is not owner)")
            yield claim

    def misfits(self, claimed: Claimed, node: NodeView, usage: NodeUsage) -> tuple[str, ...]:
        """Return the reasons why the claims do not allow the node; empty if they do."""
        if claimed.used:
            return (USED_BY_ANOTHER_POD,)
        if self._limits.exceeds(claimed.limited, node.name, usage):
            return (TOO_MANY_VOLUMES,)
        found: list[str] = []
        if claimed.missing:
            found.append(NOT_THERE)
        if not all(_reaches(terms, node) for terms in claimed.reach):
            found.append(OUT_OF_REACH)
        if claimed.waiting and self._chosen(claimed, node) is None:
            found.append(NO_VOLUME)
        return tuple(found)

    def _chosen(self, claimed: Claimed, node: NodeView) -> list[tuple[WaitingClaim, Entry | None]] | None:
        """Return the volume for each waiting claim (None: to be provisioned), or None if the node cannot be used."""
        chosen: list[tuple[WaitingClaim, Entry | None]] = []
        taken: set[Key] = set()
        for waiting in claimed.waiting:
            if waiting.node is not None:
                if waiting.node != node.name:
                    return None
                chosen.append((waiting, None))
                continue
            volume = self._free_volume(waiting.required, node, taken)
            if volume is None and not _can_be_made(waiting.class_, node):
                return None
            if volume is not None:
                taken.add(volume.key)
            chosen.append((waiting, volume))
        return chosen

    def _free_volume(self, required: Requirements, node: NodeView, taken: set[Key]) -> Entry | None:
        usable = [
            entry
            for entry in candidates(self._volumes, required)
            if entry.key not in taken and _reaches(reach_of(self._volumes.object_of(entry)), node)
        ]
        return best_volume(required, usable, labels_in(self._volumes), delayed=False)

    @step
    def prepare(self, claimed: Claimed, node: NodeView) -> Step[bool]:
        """Reserve volumes, and request the provisioning of others, for this node.

        Return whether all claims are bound.
        """
        if not claimed.waiting:
            return True
        for waiting, entry in self._chosen(claimed, node) or ():
            if entry is not None:
                volume = self._volumes.object_of(entry)
                reserved = None if is_of(volume, waiting.claim) else bound_volume(volume, waiting.claim)
                if reserved is not None:
                    yield from must_object(update(PERSISTENT_VOLUMES, reserved))
            elif waiting.node is None:
                marked = with_annotations(waiting.claim, {SELECTED_NODE: node.name})
                yield from must(update(PERSISTENT_VOLUME_CLAIMS, marked), but=(NotFound,))
        return False


def reach_of(volume: Mapping[str, Any]) -> tuple[Term, ...] | None:
    """Return the terms of a volume's node affinity; None for all nodes."""
    required = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required")
    return None if required is None else terms_of(required)


def _reaches(terms: tuple[Term, ...] | None, node: NodeView) -> bool:
    return terms is None or any(term.matches(node.name, node.labels) for term in terms)


def _can_be_made(class_: Mapping[str, Any], node: NodeView) -> bool:
    """Report whether the provisioner of the class creates volumes for this node."""
    if class_.get("provisioner") in ("", None, NO_PROVISIONER):
        return False
    topologies = class_.get("allowedTopologies") or ()
    return not topologies or any(
        all(
            node.labels.get(expression.get("key") or "") in (expression.get("values") or ())
            for expression in term.get("matchLabelExpressions") or ()
        )
        for term in topologies
    )
