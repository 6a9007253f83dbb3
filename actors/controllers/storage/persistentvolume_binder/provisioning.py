"""Provisioning and deletion of hostPath volumes: directories on this host, for tests on a single node.

Source: kubernetes v1.36 pkg/controller/volume/persistentvolume/pv_controller.go (provisionClaimOperation,
deleteVolumeOperation). Differences: a failed operation is retried after the backoff of its queue, or at the next sync
of its claim or volume if that is earlier; there is no delay between the five attempts to delete an unused directory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.actors.controllers.storage.persistentvolume_binder.binding import YES
from kcm.actors.controllers.storage.persistentvolume_binder.claims import Claims
from kcm.actors.controllers.storage.persistentvolume_binder.host_path import (
    CREATED_BY,
    CREATOR,
    HOST_PATH,
    delete_directory,
    deletion_problem,
    directory_for,
    make_directory,
)
from kcm.actors.controllers.storage.persistentvolume_binder.metrics import BinderMetrics
from kcm.actors.controllers.storage.persistentvolume_binder.plugins import NoPluginError, is_deleted_externally
from kcm.actors.controllers.storage.persistentvolume_binder.volumes import Volumes
from kcm.actors.controllers.storage.persistentvolume_binder.writes import Writes, read_live
from kcm.actors.reconciliation import (
    Because,
    Reconciliation,
    RequeueAfter,
    Step,
    TerminalError,
    call,
    create,
    delete,
    must,
    must_object,
    perform,
    record,
    update,
)
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import AlreadyExists, Done, NotFound, Raised
from kcm.protocols.objects import Key, Object, annotations_of, finalizers_of, metadata, name_of, uid_of
from kcm.protocols.resources import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from kcm.protocols.volumes import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    IN_TREE_PROTECTION,
    PROVISIONED_BY,
    SELECTED_NODE,
    claim_reference,
    class_of,
    mode_of,
    requested_storage,
    volume_name_of,
    waits_for_consumer,
)
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.tables import Tables

TRIES = 5  # attempts to create the PersistentVolume of a directory, and to delete an unused directory
RETRY_DELAY = 10.0  # seconds between two attempts to create the PersistentVolume


class ProvisioningError(Exception):
    """Raised if a volume could not be provisioned, after an event was recorded. The operation is retried."""


class Provisioning:
    """Provisioner and deleter of hostPath volumes.

    It counts the failed attempts to create the PersistentVolume of a directory. After five of them the directory is
    deleted.
    """

    def __init__(
        self,
        *,
        tables: Tables,
        clock: Clock,
        claims: Claims,
        volumes: Volumes,
        writes: Writes,
        metrics: BinderMetrics,
        host_path: bool,
    ) -> None:
        """Create the provisioner. host_path: value of --enable-hostpath-provisioner."""
        self._claims, self._volumes = tables[PERSISTENT_VOLUME_CLAIMS], tables[PERSISTENT_VOLUMES]
        self._classes, self._nodes, self._clock = tables[STORAGE_CLASSES], tables[NODES], clock
        self._of_claims, self._of_volumes, self._writes, self._metrics = claims, volumes, writes, metrics
        self._host_path = host_path
        self._failed_creations: dict[str, int] = {}  # by the claim's uid, the number of failed attempts

    # Queue provisionings.

    def provision(self, key: Key) -> Reconciliation:
        """Create a directory and a PersistentVolume for a claim whose StorageClass has the hostPath provisioner.

        Source: provisionClaimOperation.
        """
        claim = self._claims.get(key)
        if claim is None or volume_name_of(claim) or BIND_COMPLETED in annotations_of(claim):
            return None
        class_ = self._classes.get(class_of(claim)) if class_of(claim) else None
        if class_ is None or class_.get("provisioner") != HOST_PATH:
            return None
        if waits_for_consumer(class_) and SELECTED_NODE not in annotations_of(claim):
            yield Because("waits until the scheduler chooses a node for its first consumer")
            return None  # the scheduler must choose another node, which enqueues the claim
        try:
            return (yield from self._provision(claim, class_))
        except (CommandError, ProvisioningError):
            self._metrics.failed(key)
            raise

    def _provision(self, claim: Object, class_: Object) -> Step[RequeueAfter | None]:
        """Create the directory and the PersistentVolume of a claim.

        Returns RequeueAfter if the PersistentVolume could not be created and the creation will be repeated.
        """
        if (claim.get("spec") or {}).get("dataSource") is not None:
            text = f'plugin "{HOST_PATH}" is not a CSI plugin. Only CSI plugin can provision a claim with a datasource'
            yield from self._fail_claim(claim, text)
        claim = yield from self._of_claims.annotate(claim, HOST_PATH)
        name = f"pvc-{uid_of(claim)}"
        if (yield from read_live(PERSISTENT_VOLUMES, name)) is not None:
            return None
        path = directory_for(uid_of(claim))
        yield Because(f"provisions a hostPath volume in {path}")
        yield from self._make(claim, class_, path)
        volume = provisioned_volume(claim, class_, name=name, path=path)
        outcome = yield from perform(create(PERSISTENT_VOLUMES, volume))
        if isinstance(outcome, Done | AlreadyExists):
            self._failed_creations.pop(uid_of(claim), None)
            text = f"Successfully provisioned volume {name} using {HOST_PATH}"
            yield record(PERSISTENT_VOLUME_CLAIMS, claim, "Normal", "ProvisioningSucceeded", text)
            return None
        tries = self._failed_creations[uid_of(claim)] = self._failed_creations.get(uid_of(claim), 0) + 1
        if tries < TRIES:
            yield Because(f"attempt {tries} of {TRIES} to create the volume failed: {outcome.message}")
            return RequeueAfter(RETRY_DELAY)
        del self._failed_creations[uid_of(claim)]
        yield from self._clean_up(claim, path, outcome.message)
        return None

    def _make(self, claim: Object, class_: Object, path: str) -> Step[None]:
        """Create the directory for a claim.

        Raises ProvisioningError, after an event, if the claim cannot be provisioned or the directory cannot be created.
        """
        if options := class_.get("mountOptions"):
            listed = f"[{' '.join(options)}]"
            text = f'Mount options are not supported by the provisioner but StorageClass "{name_of(class_)}"'
            yield from self._fail_claim(claim, f"{text} has mount options {listed}")
        if not self._host_path:
            text = f'Failed to create provisioner: provisioning in volume plugin "{HOST_PATH}" is disabled'
            yield from self._fail_claim(claim, text)
        node = annotations_of(claim).get(SELECTED_NODE)
        if node is not None and self._nodes.get(node) is None:
            yield from self._fail_claim(claim, f'Failed to get target node: node "{node}" not found')
        why = f"{HOST_PATH} does not support block volume provisioning" if mode_of(claim) == "Block" else ""
        if not why:
            why = yield from self._call_plugin("volume_provision", make_directory, path)
        if why:
            if node is not None:
                # Makes the scheduler choose another node. If this write fails, the next attempt repeats it.
                yield from perform(update(PERSISTENT_VOLUME_CLAIMS, _without_node(claim)))
            text = f'Failed to provision volume with StorageClass "{name_of(class_)}": {why}'
            yield from self._fail_claim(claim, text)

    def _clean_up(self, claim: Object, path: str, why: str) -> Step[None]:
        """Delete the directory of a claim whose PersistentVolume could not be created. why: error message."""
        key = f"{metadata(claim).get('namespace')}/{name_of(claim)}"
        text = f"Error creating provisioned PV object for claim {key}: {why}. Deleting the volume."
        yield record(PERSISTENT_VOLUME_CLAIMS, claim, "Warning", "ProvisioningFailed", text)
        left = ""
        for _ in range(TRIES):
            left = yield from self._call_plugin("volume_delete", delete_directory, path)
            if not left:
                return
        text = f"Error cleaning provisioned volume for claim {key}: {left}. Please delete manually."
        yield record(PERSISTENT_VOLUME_CLAIMS, claim, "Warning", "ProvisioningCleanupFailed", text)

    def _call_plugin(self, operation: str, function: Any, path: str) -> Step[str]:
        """Call a function with a path on this host, and measure its duration.

        operation: label of the metric, "volume_provision" or "volume_delete".
        Returns the error message of the function; "" if it succeeded. Raises CommandError if the outcome is unknown.
        """
        since = self._clock.monotonic()
        outcome = yield from call(function, path, but=(Raised,))
        raised = isinstance(outcome, Raised)
        self._metrics.record_plugin_call(HOST_PATH, operation, since=since, succeeded=not raised)
        return outcome.message if isinstance(outcome, Raised) else ""

    def _fail_claim(self, claim: Object, text: str) -> Step[None]:
        yield record(PERSISTENT_VOLUME_CLAIMS, claim, "Warning", "ProvisioningFailed", text)
        raise ProvisioningError(text)

    # Queue deletions.

    def delete(self, name: Key) -> Reconciliation:
        """Delete the directory and the PersistentVolume of a released volume.

        Does nothing if an external provisioner deletes the volume.
        """
        volume = self._volumes.get(name)
        if volume is None:
            return None
        try:
            if is_deleted_externally(volume):
                yield Because("waits until its external provisioner deletes it")
                return None
        except NoPluginError as err:
            yield from self._writes.mark_failed(volume, "VolumeFailedDelete", str(err))
            return None
        volume = yield from self._of_volumes.still_released(name)
        if volume is None:
            yield Because("is not deleted: a claim uses it, or it does not exist")
            return None
        yield Because("was released, reclaim policy Delete: deletes its directory and the volume")
        yield from self._delete_storage(volume)
        if IN_TREE_PROTECTION in finalizers_of(volume):
            volume = yield from must_object(update(PERSISTENT_VOLUMES, _without_finalizer(volume)))
        yield from must(delete(PERSISTENT_VOLUMES, volume), but=(NotFound,))
        return None

    def _delete_storage(self, volume: Object) -> Step[None]:
        """Delete the directory of a volume. If that fails, set the volume to Failed and raise an exception."""
        path = (volume["spec"].get("hostPath") or {}).get("path")
        if path is None:
            failed = (
                f'failed to create deleter for volume "{name_of(volume)}": spec.PersistentVolumeSource.HostPath is nil'
            )
        else:
            failed = deletion_problem(path) or (yield from self._call_plugin("volume_delete", delete_directory, path))
        if failed:
            self._metrics.failed(name_of(volume))
            yield from self._writes.mark_failed(volume, "VolumeFailedDelete", failed)
            raise DeletionError(failed) if path is not None else TerminalError(failed)


class DeletionError(Exception):
    """Raised after an event if the directory of a volume could not be deleted. The deletion is retried."""


def provisioned_volume(claim: Mapping[str, Any], class_: Mapping[str, Any], *, name: str, path: str) -> Object:
    """Return the PersistentVolume for a directory that has been created for a claim."""
    policy = class_.get("reclaimPolicy") or "Delete"
    annotations = {BOUND_BY_CONTROLLER: YES, PROVISIONED_BY: HOST_PATH, CREATED_BY: CREATOR}
    meta: Object = {"name": name, "annotations": annotations}
    if policy == "Delete":
        meta["finalizers"] = [IN_TREE_PROTECTION]
    spec = {
        "capacity": {"storage": requested_storage(claim)},
        "accessModes": list(claim["spec"].get("accessModes") or ["ReadWriteOnce"]),
        "persistentVolumeReclaimPolicy": policy,
        "storageClassName": class_of(claim),
        "claimRef": claim_reference(claim),
        "hostPath": {"path": path},
    }
    return {"metadata": meta, "spec": spec, "status": {"phase": "Bound"}}


def _without_node(claim: Mapping[str, Any]) -> Object:
    rest = {name: value for name, value in annotations_of(claim).items() if name != SELECTED_NODE}
    return {**claim, "metadata": {**metadata(claim), "annotations": rest}}


def _without_finalizer(volume: Mapping[str, Any]) -> Object:
    rest = [name for name in finalizers_of(volume) if name != IN_TREE_PROTECTION]
    return {**volume, "metadata": {**metadata(volume), "finalizers": rest}}
