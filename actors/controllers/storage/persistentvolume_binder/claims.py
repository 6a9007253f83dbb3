"""Sync of claims: bind a claim to a volume, provision a volume for it, let it wait, or mark it as Lost.

Source: kubernetes v1.36 pkg/controller/volume/persistentvolume/pv_controller.go (syncClaim, syncUnboundClaim,
syncBoundClaim, assignDefaultStorageClass, provisionClaim). Difference: before a claim is marked as Lost, its volume is
read from the API server, because the table of volumes may be older than the table of claims.
"""

from __future__ import annotations

from kcm.actors.controllers.storage.persistentvolume_binder.binding import with_annotations
from kcm.actors.controllers.storage.persistentvolume_binder.matching import (
    best_volume,
    candidates,
    labels_in,
    mismatch,
    requirements_of,
)
from kcm.actors.controllers.storage.persistentvolume_binder.metrics import BinderMetrics
from kcm.actors.controllers.storage.persistentvolume_binder.migration import migrated_claim, migrated_to
from kcm.actors.controllers.storage.persistentvolume_binder.plugins import NoPluginError, is_external, provisioner_name
from kcm.actors.controllers.storage.persistentvolume_binder.writes import Writes, read_live
from kcm.actors.controllers.storage.shared.pods_by_claim import CLAIMS
from kcm.actors.reconciliation import Because, Enqueue, Step, must, must_object, record, step, update
from kcm.protocols.field_types import TEXT, check
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.events import Record, RecordType
from kcm.protocols.objects import Key, Object, annotations_of, key_of, name_of, uid_of
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES
from kcm.protocols.volumes import (
    BETA_PROVISIONER,
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    MIGRATED_TO,
    PROVISIONER,
    SELECTED_NODE,
    class_of,
    default_class,
    is_of,
    is_pod_ended,
    key_of_reference,
    names_class,
    volume_name_of,
    waits_for_consumer,
)
from kcm.runtime.tables.tables import Tables

PROVISIONINGS = "provisionings"  # queue of claims whose volumes this controller provisions


class Claims:
    """Sync of PersistentVolumeClaims: binds a claim to a volume, or requests a new volume for it."""

    def __init__(self, *, tables: Tables, writes: Writes, metrics: BinderMetrics, provisions: bool) -> None:
        """Create the part of the binder that handles claims. provisions: value of --enable-dynamic-provisioning."""
        self._claims, self._volumes = tables[PERSISTENT_VOLUME_CLAIMS], tables[PERSISTENT_VOLUMES]
        self._classes, self._pods = tables[STORAGE_CLASSES], tables[PODS]
        self._writes, self._metrics, self._provisions = writes, metrics, provisions

    @step
    def sync(self, claim: Object) -> Step[None]:
        """Bind or provision a claim, or check the binding of a bound claim. Source: syncClaim."""
        refreshed = migrated_claim(claim)
        if refreshed is not None:
            claim = yield from must_object(update(PERSISTENT_VOLUME_CLAIMS, refreshed))
        if BIND_COMPLETED in annotations_of(claim):
            yield from self._sync_bound(claim)
        elif volume_name_of(claim):
            yield from self._sync_with_volume_name(claim)
        else:
            yield from self._sync_unbound(claim)

    def _sync_unbound(self, claim: Object) -> Step[None]:
        """Bind a claim without spec.volumeName to a matching volume, or provision a volume for it.

        A claim that can be neither bound nor provisioned now is set to Pending. Source: syncUnboundClaim.
        """
        delayed = waits_for_consumer(self._classes.get(class_of(claim)) if class_of(claim) else None)
        required = requirements_of(claim)
        found = best_volume(required, candidates(self._volumes, required), labels_in(self._volumes), delayed=delayed)
        if found is not None:
            yield Because(f"volume {found.key} matches its request: binds them")
            yield from self._bind_found(self._volumes.object_of(found), claim)
            return
        if (yield from self._set_default_class(claim)):
            yield Because("no volume matches and it names no class: sets the default StorageClass")
            return  # the update enqueues the claim
        if delayed and SELECTED_NODE not in annotations_of(claim):
            waiting = self._waiting_event(claim)
            yield Because(f"no volume matches; {waiting.message}")
            yield waiting
        elif class_of(claim):
            yield from self._provision(claim)
            return
        else:
            text = "no persistent volumes available for this claim and no storage class is set"
            yield Because(text)
            yield _event(claim, "Normal", "FailedBinding", text)
        yield from self._writes.set_claim_phase(claim, "Pending")

    def _bind_found(self, volume: Object, claim: Object) -> Step[None]:
        key = key_of(claim)
        try:
            yield from self._writes.bind(volume, claim)
        except CommandError:
            self._metrics.failed(key)
            raise
        self._metrics.done(key)

    def _set_default_class(self, claim: Object) -> Step[bool]:
        """Set the default StorageClass on a claim without a class. Returns whether the claim was updated."""
        class_ = None if names_class(claim) else default_class(self._classes.objects())
        if class_ is None:
            return False
        self._metrics.retroactive.inc()
        put = update(
            PERSISTENT_VOLUME_CLAIMS, {**claim, "spec": {**claim["spec"], "storageClassName": name_of(class_)}}
        )
        try:
            yield from must(put)
        except CommandError:
            self._metrics.retroactive_errors.inc()
            raise
        return True

    def _waiting_event(self, claim: Object) -> Record:
        pods = self._pods.indexed(CLAIMS, key_of(claim))
        names = sorted(name_of(pod) for pod in pods if not is_pod_ended(pod) and not pod["spec"].get("nodeName"))
        if not names:
            text = "waiting for first consumer to be created before binding"
            return _event(claim, "Normal", "WaitForFirstConsumer", text)
        what = "pod" if len(names) == 1 else "pods"
        text = f"waiting for {what} {','.join(names)} to be scheduled"
        return _event(claim, "Normal", "WaitForPodScheduled", text)

    # Claims with a volume name.

    def _sync_with_volume_name(self, claim: Object) -> Step[None]:
        """Bind a claim to the volume in its spec.volumeName, or let it wait until this is possible.

        Raises MisboundError if the volume belongs to another claim, although this controller chose it.
        """
        volume = self._volumes.get(volume_name_of(claim))
        if volume is None:
            yield Because(f"waits for volume {volume_name_of(claim)}, which does not exist")
            yield from self._writes.set_claim_phase(claim, "Pending")
            return
        reference = volume["spec"].get("claimRef")
        if reference is None:
            why = mismatch(volume, claim)
            if not why:
                yield Because(f"binds it to volume {name_of(volume)}, which spec.volumeName requests")
                yield from self._writes.bind(volume, claim)
                return
            text = f'Cannot bind to requested volume "{name_of(volume)}": {why}'
            yield Because(text)
            yield _event(claim, "Warning", "VolumeMismatch", text)
        elif is_of(volume, claim):
            yield from self._writes.bind(volume, claim)
            return
        else:
            text = f'volume "{name_of(volume)}" already bound to a different claim.'
            yield Because(f"{text} {key_of_reference(reference)}")
            yield _event(claim, "Warning", "FailedBinding", text)
            if BOUND_BY_CONTROLLER in annotations_of(claim):
                raise MisboundError(key_of(claim), name_of(volume), key_of_reference(reference))
        yield from self._writes.set_claim_phase(claim, "Pending")

    def _sync_bound(self, claim: Object) -> Step[None]:
        """Mark a bound claim as Lost if its volume is missing or belongs to another claim; otherwise finish binding it.

        Source: syncBoundClaim.
        """
        name = volume_name_of(claim)
        if not name:
            text = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
            yield Because("is Lost: it was bound, and spec.volumeName is empty")
            yield from self._writes.mark_lost(claim, "ClaimLost", text)
            return
        volume = self._volumes.get(name)
        if volume is None or not _may_belong_to(volume, claim):
            volume = yield from read_live(PERSISTENT_VOLUMES, name)
        if volume is None:
            yield Because(f"is Lost: its volume {name} does not exist")
            text = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
            yield from self._writes.mark_lost(claim, "ClaimLost", text)
        elif _may_belong_to(volume, claim):
            yield from self._writes.bind(volume, claim)
        else:
            yield Because(f"is Lost: its volume {name} belongs to another claim")
            text = "Two claims are bound to the same volume, this one is bound incorrectly"
            yield from self._writes.mark_lost(claim, "ClaimMisbound", text)

    # Provisioning.

    def _provision(self, claim: Object) -> Step[None]:
        """Enqueue a claim for an in-tree plugin, or annotate it for an external provisioner. Source: provisionClaim."""
        if not self._provisions:
            yield Because("no volume matches, and --enable-dynamic-provisioning is false")
            return
        class_ = self._classes.get(class_of(claim))
        if class_ is None:
            text = f'storageclass.storage.k8s.io "{class_of(claim)}" not found'
            yield Because(f"no volume matches: {text}")
            yield _event(claim, "Warning", "ProvisioningFailed", text)
            return
        check(class_, {"provisioner": TEXT}, at="storage class")
        try:
            external = is_external(class_.get("provisioner") or "")
        except NoPluginError as err:
            yield Because(f"no volume matches: {err}")
            yield _event(claim, "Warning", "ProvisioningFailed", str(err))
            return
        key, provisioner = key_of(claim), provisioner_name(class_.get("provisioner") or "")
        self._metrics.begin(key, plugin=provisioner, operation="provision")
        if not external:
            yield Because(f"no volume matches: provisions one with {provisioner}")
            yield Enqueue(PROVISIONINGS, key)
            return
        yield Because(f"no volume matches: waits for a volume from the external provisioner {provisioner}")
        try:
            claim = yield from self.annotate(claim, provisioner)
        except CommandError as err:
            self._metrics.failed(key)
            yield _event(claim, "Warning", "ProvisioningFailed", f"Error saving claim: {err.failure.message}")
            raise
        text = (
            f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the "
            "system administrator. If volume creation is delayed, please verify that the provisioner is running and "
            "correctly registered."
        )
        yield _event(claim, "Normal", "ExternalProvisioning", text)

    @step
    def annotate(self, claim: Object, provisioner: str) -> Step[Object]:
        """Set the annotations that request a volume from an external provisioner. Source: setClaimProvisioner.

        provisioner: name of the provisioner, or of the CSI driver that replaces an in-tree plugin.
        Returns the updated claim. Raises CommandError if the update failed.
        """
        annotations = annotations_of(claim)
        if annotations.get(PROVISIONER) == provisioner:
            return claim
        marks: dict[str, str | None] = {PROVISIONER: provisioner, BETA_PROVISIONER: provisioner}
        marks[MIGRATED_TO] = migrated_to(provisioner, annotations.get(MIGRATED_TO))
        return (yield from must_object(update(PERSISTENT_VOLUME_CLAIMS, with_annotations(claim, marks))))


class MisboundError(Exception):
    """Raised if a claim names a volume that is bound to another claim, although this controller chose the volume.

    Only a write by another client can cause this.
    """

    def __init__(self, claim: Key, volume: str, other: Key) -> None:
        super().__init__(
            f'invalid binding of claim "{claim}" to volume "{volume}": volume already claimed by "{other}"'
        )


def _may_belong_to(volume: Object, claim: Object) -> bool:
    reference = volume["spec"].get("claimRef")
    return reference is None or reference.get("uid") == uid_of(claim)


def _event(claim: Object, type_: RecordType, reason: str, message: str) -> Record:
    return record(PERSISTENT_VOLUME_CLAIMS, claim, type_, reason, message)
