"""Sync of volumes: update the phase of a volume by its claim, and enqueue the reclamation of a released volume.

Source: kubernetes v1.36 pkg/controller/volume/persistentvolume/pv_controller.go (syncVolume, reclaimVolume,
isVolumeReleased).
"""

from __future__ import annotations

from kcm.actors.controllers.storage.persistentvolume_binder.metrics import BinderMetrics
from kcm.actors.controllers.storage.persistentvolume_binder.migration import migrated_volume
from kcm.actors.controllers.storage.persistentvolume_binder.plugins import (
    NONE,
    NoPluginError,
    is_deleted_externally,
    plugin_of,
    provisioner_name,
)
from kcm.actors.controllers.storage.persistentvolume_binder.writes import Writes, read_live
from kcm.actors.reconciliation import Because, Enqueue, Step, must_object, record, step, update
from kcm.protocols.objects import Key, Object, annotations_of, key_of, name_of, uid_of
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from kcm.protocols.volumes import (
    MIGRATED_TO,
    PROVISIONED_BY,
    class_of,
    key_of_reference,
    mode_of,
    phase_of,
    volume_name_of,
)
from kcm.runtime.tables.tables import Tables

CLAIM_QUEUE, RECYCLINGS, DELETIONS = "claims", "recyclings", "deletions"
RELEASED = ("Released", "Failed")  # phases of volumes whose claim is known to be deleted


class Volumes:
    """Sync of PersistentVolumes: maintains their phase, and enqueues released volumes for reclamation."""

    def __init__(self, *, tables: Tables, writes: Writes, metrics: BinderMetrics) -> None:
        self._claims, self._classes = tables[PERSISTENT_VOLUME_CLAIMS], tables[STORAGE_CLASSES]
        self._writes, self._metrics = writes, metrics

    @step
    def sync(self, volume: Object) -> Step[None]:
        """Update the phase of a volume (Available, Bound or Released). Source: syncVolume.

        A released volume is enqueued for its reclamation. The claim that a volume is reserved for is enqueued, so that
        its sync binds them.
        """
        refreshed = migrated_volume(volume)
        if refreshed is not None:
            volume = yield from must_object(update(PERSISTENT_VOLUMES, refreshed))
        reference = volume["spec"].get("claimRef")
        if reference is None or not reference.get("uid"):
            yield from self._writes.set_phase(volume, "Available")
            return
        claim = yield from self._claim_of(volume, reference)
        if claim is None:
            yield from self._release(volume)
        elif not volume_name_of(claim):
            yield from self._enqueue_claim(volume, claim)
        elif volume_name_of(claim) == name_of(volume):
            yield from self._writes.set_phase(volume, "Bound")
        elif PROVISIONED_BY in annotations_of(volume) and _policy(volume) == "Delete":
            yield from self._release(volume)  # the claim is bound to another volume
        else:
            yield from self._writes.unbind(volume)

    def _claim_of(self, volume: Object, reference: Object) -> Step[Object | None]:
        """Return the claim that the volume's claimRef refers to; None if the claim has been deleted.

        Unless the volume is released already, the deletion is confirmed by a read from the API server.
        Raises UnreadableError if the claim cannot be decoded.

        reference: the claimRef, with a uid.
        """
        key = key_of_reference(reference)
        claim = self._known_claim(key)
        if claim is None and phase_of(volume) in RELEASED:
            return None
        if claim is None or uid_of(claim) != reference["uid"]:
            claim = yield from read_live(PERSISTENT_VOLUME_CLAIMS, key)
        return claim if claim is not None and uid_of(claim) == reference["uid"] else None

    def _known_claim(self, key: Key) -> Object | None:
        """Return the claim from the table; None if it is missing. Raises UnreadableError if it cannot be decoded."""
        self._claims.require(key)
        return self._claims.get(key)

    def _enqueue_claim(self, volume: Object, claim: Object) -> Step[None]:
        """Enqueue the claim that the volume is reserved for, so that its sync binds it to the volume.

        If their volumeModes differ, they cannot be bound, and events are recorded instead.
        """
        if mode_of(claim) == mode_of(volume):
            yield Enqueue(CLAIM_QUEUE, key_of(claim))
            return
        yield Because(f"cannot be bound to claim {key_of(claim)}: their volumeModes differ")
        why = "due to incompatible volumeMode."
        of_volume = f'Cannot bind PersistentVolume to requested PersistentVolumeClaim "{name_of(claim)}" {why}'
        yield record(PERSISTENT_VOLUMES, volume, "Warning", "VolumeMismatch", of_volume)
        of_claim = f'Cannot bind PersistentVolume "{name_of(volume)}" to requested PersistentVolumeClaim {why}'
        yield record(PERSISTENT_VOLUME_CLAIMS, claim, "Warning", "VolumeMismatch", of_claim)

    def _release(self, volume: Object) -> Step[None]:
        """Set a volume to Released, and reclaim it by its policy: enqueue its recycling or deletion, or retain it.

        Source: reclaimVolume.
        """
        if phase_of(volume) not in RELEASED:
            volume = yield from self._writes.set_phase(volume, "Released")
        if annotations_of(volume).get(MIGRATED_TO):
            yield Because("was released: its CSI driver reclaims it")
            return  # the CSI driver reclaims the volume
        policy, name = _policy(volume), name_of(volume)
        yield Because(f"was released by its claim: reclaim policy {policy or '(none)'}")
        if policy == "Recycle":
            yield Enqueue(RECYCLINGS, name)
        elif policy == "Delete":
            self._metrics.begin(name, plugin=self._deleter_of(volume), operation="delete")
            yield Enqueue(DELETIONS, name)
        elif policy != "Retain":
            text = "Volume has unrecognized PersistentVolumeReclaimPolicy"
            yield from self._writes.mark_failed(volume, "VolumeUnknownReclaimPolicy", text)

    def _deleter_of(self, volume: Object) -> str:
        """Return the label plugin_name for the metrics of a volume's deletion.

        This is the in-tree plugin, or the provisioner of the StorageClass for a volume that is deleted externally.
        """
        try:
            external = is_deleted_externally(volume)
        except NoPluginError:
            return NONE
        if not external:
            return plugin_of(volume)
        class_ = self._classes.get(class_of(volume)) if class_of(volume) else None
        return NONE if class_ is None else provisioner_name(class_.get("provisioner") or "")

    @step
    def still_released(self, name: Key) -> Step[Object | None]:
        """Read a volume from the API server, and return it if no claim uses it; otherwise None.

        Called before the volume is recycled or deleted. Raises CommandError if the read failed, or UnreadableError if
        the claim cannot be decoded.
        """
        volume = yield from read_live(PERSISTENT_VOLUMES, name)
        return volume if volume is not None and self._is_released(volume) else None

    def _is_released(self, volume: Object) -> bool:
        """Report whether the volume has a claimRef, but the table contains no claim that uses it.

        Source: isVolumeReleased.
        """
        reference = volume["spec"].get("claimRef")
        if reference is None or not reference.get("uid"):
            return False
        claim = self._known_claim(key_of_reference(reference))
        if claim is None or uid_of(claim) != reference["uid"]:
            return True
        return volume_name_of(claim) not in ("", name_of(volume))


def _policy(volume: Object) -> str:
    return volume["spec"].get("persistentVolumeReclaimPolicy") or ""
