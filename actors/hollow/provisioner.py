"""Hollow provisioner: creates volumes without disks for claims, and deletes released volumes.

At the start it creates two StorageClasses if they do not exist: `hollow`, the default class, with immediate binding,
and `hollow-wait`, with WaitForFirstConsumer, whose volumes are reachable only from the zone of the selected node.
Volumes look like those of a CSI driver with the provisioner's name. Keys: "namespace/name" of a claim; a volume's name.

Source: kubernetes-sigs/sig-storage-lib-external-provisioner controller/controller.go, for the conditions of
provisioning and deletion, and for the events; kubernetes-csi/external-provisioner pkg/controller/controller.go
(canDeleteVolume).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from kcm.actors.hollow.attacher import ATTACHMENTS_BY_VOLUME, VOLUME, volume_of_attachment
from kcm.actors.hollow.behaviour import DRIVER
from kcm.actors.hollow.intervals import MANY
from kcm.actors.hollow.scheduler.node_fit import ZONE_LABEL
from kcm.actors.reconciliation import (
    Because,
    Change,
    Interest,
    Reconciliation,
    Step,
    Watch,
    create,
    delete,
    itself,
    must,
    must_all,
    record,
    update,
)
from kcm.actors.reconciliation.specs import ControllerSpec, Pass, Queue
from kcm.protocols.messages.outcomes import AlreadyExists, Done, NotFound
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import (
    Key,
    Object,
    annotations_of,
    finalizers_of,
    is_deleting,
    key_of,
    labels_of,
    metadata,
    name_of,
    uid_of,
)
from kcm.protocols.resources import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
)
from kcm.protocols.volumes import (
    BETA_PROVISIONER,
    DEFAULT_CLASS,
    EXTERNAL_PROTECTION,
    FIRST_CONSUMER,
    PROVISIONED_BY,
    PROVISIONER,
    SELECTED_NODE,
    claim_reference,
    class_of,
    is_bound,
    key_of_reference,
    mode_of,
    phase_of,
    requested_storage,
    volume_name_of,
)
from kcm.runtime.tables.tables import Tables

NAME = DRIVER  # name of the provisioner, and of the CSI driver in its volumes
CLASS, WAITING_CLASS = "hollow", "hollow-wait"
GONE = Interest(types=(EventType.DELETED,))


def classes() -> list[Object]:
    """Return the StorageClasses that the provisioner creates."""
    common = {"provisioner": NAME, "reclaimPolicy": "Delete", "allowVolumeExpansion": True}
    default = {"name": CLASS, "annotations": {DEFAULT_CLASS[0]: "true"}}
    return [
        {**common, "metadata": default, "volumeBindingMode": "Immediate"},
        {**common, "metadata": {"name": WAITING_CLASS}, "volumeBindingMode": FIRST_CONSUMER},
    ]


def is_ours(claim: Mapping[str, Any]) -> bool:
    annotations = annotations_of(claim)
    return annotations.get(PROVISIONER, annotations.get(BETA_PROVISIONER)) == NAME


class HollowProvisioner:
    def __init__(self, *, tables: Tables) -> None:
        self._claims, self._volumes = tables[PERSISTENT_VOLUME_CLAIMS], tables[PERSISTENT_VOLUMES]
        self._classes, self._nodes = tables[STORAGE_CLASSES], tables[NODES]
        self._attachments = tables[VOLUME_ATTACHMENTS]

    def make_classes(self) -> Reconciliation:
        """Create the missing StorageClasses, once at the start. Changes by users are kept."""
        missing = [cls for cls in classes() if self._classes.get(name_of(cls)) is None]
        yield from must_all([create(STORAGE_CLASSES, storage_class) for storage_class in missing], but=(AlreadyExists,))
        return None

    # Queue of claims.

    def provision(self, key: Key) -> Reconciliation:
        claim = self._claims.get(key)
        if claim is None or not is_ours(claim) or volume_name_of(claim) or is_bound(claim) or is_deleting(claim):
            return None
        class_ = self._classes.get(class_of(claim)) if class_of(claim) else None
        if class_ is None or class_.get("provisioner") != NAME:
            return None
        zone = ""
        if class_.get("volumeBindingMode") == FIRST_CONSUMER:
            name = annotations_of(claim).get(SELECTED_NODE)
            if name is None:
                yield Because("waits until the scheduler has chosen a node for its first consumer")
                return None
            node = self._nodes.get(name)
            if node is None:
                yield from self._forget_node(claim)
                return None
            zone = labels_of(node).get(ZONE_LABEL) or ""
        yield from self._make(claim, class_, zone)
        return None

    def _forget_node(self, claim: Object) -> Step[None]:
        """Remove the selected node, which was deleted, from the claim, so that the scheduler selects another."""
        rest = {name: value for name, value in annotations_of(claim).items() if name != SELECTED_NODE}
        put = update(PERSISTENT_VOLUME_CLAIMS, {**claim, "metadata": {**metadata(claim), "annotations": rest}})
        yield from must(put, but=(NotFound,))

    def _make(self, claim: Object, class_: Object, zone: str) -> Step[None]:
        volume = volume_for(claim, class_, zone=zone)
        if self._volumes.get(name_of(volume)) is not None:
            return
        yield Because(f"requests a volume: provisions {name_of(volume)}{' in zone ' + zone if zone else ''}")
        outcome = yield from must(create(PERSISTENT_VOLUMES, volume), but=(AlreadyExists,))
        if isinstance(outcome, Done):
            text = f"Successfully provisioned volume {name_of(volume)}"
            yield record(PERSISTENT_VOLUME_CLAIMS, claim, "Normal", "ProvisioningSucceeded", text)

    # Queue of volumes.

    def reclaim(self, name: Key) -> Reconciliation:
        """Delete a released volume with reclaim policy Delete, and remove the finalizer of a deleted volume."""
        volume = self._volumes.get(name)
        if volume is None or annotations_of(volume).get(PROVISIONED_BY) != NAME:
            return None
        is_deleted = volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete"
        if is_deleted and (phase_of(volume) != "Released" or self._is_claimed(volume)):
            return None
        if self._attachments.indexed_entries(VOLUME, name):
            yield Because("is not deleted yet: it is still attached")
            return None  # the deletion of the VolumeAttachment enqueues the volume
        if is_deleted and not is_deleting(volume):
            yield from must(delete(PERSISTENT_VOLUMES, volume), but=(NotFound,))
            volume = self._volumes.get(name)
        if volume is not None and is_deleting(volume) and EXTERNAL_PROTECTION in finalizers_of(volume):
            rest = [finalizer for finalizer in finalizers_of(volume) if finalizer != EXTERNAL_PROTECTION]
            put = update(PERSISTENT_VOLUMES, {**volume, "metadata": {**metadata(volume), "finalizers": rest}})
            yield from must(put, but=(NotFound,))
        return None

    def _is_claimed(self, volume: Object) -> bool:
        """Report whether the volume's claim exists and is bound to it.

        Raises UnreadableError for an unreadable claim.
        """
        reference = volume["spec"].get("claimRef") or {}
        self._claims.require(key_of_reference(reference))
        claim = self._claims.get(key_of_reference(reference))
        return claim is not None and uid_of(claim) == reference.get("uid") and volume_name_of(claim) == name_of(volume)


def volume_for(claim: Mapping[str, Any], class_: Mapping[str, Any], *, zone: str) -> Object:
    """Build the volume for a claim. zone: "" if all nodes can reach the volume."""
    name, spec = f"pvc-{uid_of(claim)}", claim["spec"]
    policy = class_.get("reclaimPolicy") or "Delete"
    meta: Object = {"name": name, "annotations": {PROVISIONED_BY: NAME}}
    if policy == "Delete":
        meta["finalizers"] = [EXTERNAL_PROTECTION]
    made: Object = {
        "capacity": {"storage": requested_storage(claim)},
        "accessModes": list(spec.get("accessModes") or ["ReadWriteOnce"]),
        "persistentVolumeReclaimPolicy": policy,
        "storageClassName": class_of(claim),
        "volumeMode": mode_of(claim),
        "claimRef": claim_reference(claim),
        "csi": {"driver": NAME, "volumeHandle": name},
    }
    if options := class_.get("mountOptions"):
        made["mountOptions"] = list(options)
    if attributes := spec.get("volumeAttributesClassName"):
        made["volumeAttributesClassName"] = attributes
    if zone:
        there = {"key": ZONE_LABEL, "operator": "In", "values": [zone]}
        made["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [there]}]}}
    return {"metadata": meta, "spec": made}


def _claims_of_class(change: Change, tables: Tables) -> Iterable[Key]:
    if change.deleted or change.new.get("provisioner") != NAME:
        return ()
    claims = tables[PERSISTENT_VOLUME_CLAIMS].objects()
    return [key_of(claim) for claim in claims if class_of(claim) == change.key and not is_bound(claim)]


def _volume_of_claim(change: Change, _tables: Tables) -> Iterable[Key]:
    """Return the volume of a deleted claim, also if another claim has its name already."""
    old = change.old
    gone = change.new if change.deleted or old is None else old
    name = volume_name_of(gone)
    return (name,) if name else ()


def _claims_on_node(change: Change, tables: Tables) -> Iterable[Key]:
    """Return the claims that wait for a volume."""
    claims = tables[PERSISTENT_VOLUME_CLAIMS].objects()
    return [
        key_of(claim)
        for claim in claims
        if annotations_of(claim).get(SELECTED_NODE) == change.key and not is_bound(claim)
    ]


SPEC = ControllerSpec(
    name="hollow-provisioner-controller",
    never_blocks=True,
    client="hollow-provisioner",
    component=NAME,
    queues=(
        Queue(
            "hollow-claims",
            watches=(
                Watch(PERSISTENT_VOLUME_CLAIMS, to=itself),
                Watch(STORAGE_CLASSES, to=_claims_of_class),
                Watch(NODES, to=_claims_on_node, interest=GONE),
            ),
            reconcile=HollowProvisioner.provision,
            concurrency=MANY,
            terminal=(),
        ),
        Queue(
            "hollow-volumes",
            watches=(
                Watch(PERSISTENT_VOLUMES, to=itself),
                Watch(PERSISTENT_VOLUME_CLAIMS, to=_volume_of_claim, interest=GONE),
                Watch(VOLUME_ATTACHMENTS, to=volume_of_attachment, interest=GONE),
            ),
            reconcile=HollowProvisioner.reclaim,
            concurrency=MANY,
            terminal=(),
        ),
    ),
    indexes=(ATTACHMENTS_BY_VOLUME,),
    passes=(Pass("classes", every=math.inf, run=HollowProvisioner.make_classes),),
    build=lambda context: HollowProvisioner(tables=context.tables),
)
