"""Volumes of pods as a hollow kubelet attaches and mounts them: in appearance.

A pod waits until its claims are bound and its CSI volumes are in volumesInUse and volumesAttached of its node's status,
and mounted. Volumes of drivers that the node does not register, and those without CSI source, are mounted at once.
Keys of the queues: the name of a node.

Source: kubernetes v1.36 pkg/kubelet/volumemanager (populator, reconciler), pkg/volume/util/operationexecutor
(GenerateVerifyControllerAttachedVolumeFunc, GenerateMountVolumeFunc), pkg/kubelet/volumemanager/cache
(MarkVolumesReportedInUse), pkg/volume/csi/nodeinfomanager. Unlike upstream, volumesInUse is written at once, and not
with the next heartbeat.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from kcm.actors.controllers.storage.shared.pods_by_claim import CLAIMS
from kcm.actors.hollow import behaviour
from kcm.actors.hollow.behaviour import CsiDriver, csi_drivers, has_csi_driver, silence
from kcm.actors.hollow.intervals import look_again
from kcm.actors.hollow.kubelet.images import PodEvent
from kcm.actors.hollow.nodes.fleet import HollowNode
from kcm.actors.hollow.scheduler.node_fit import ZONE_LABEL
from kcm.actors.reconciliation import Enqueue, Reconciliation, create, must, patch
from kcm.actors.reconciliation.commands import in_name_of
from kcm.actors.reconciliation.derived import NODE
from kcm.protocols.csi import (
    NODE_ID,
    READ_WRITE_ONCE_POD,
    CsiSource,
    attached_names,
    attachment_name,
    csi_source,
    in_use_names,
    is_attached,
    requires_attach,
)
from kcm.protocols.messages.outcomes import AlreadyExists, Conflict, Done, NotFound
from kcm.protocols.objects import (
    Key,
    Object,
    annotations_of,
    controller_of,
    finalizers_of,
    is_deleting,
    key_of,
    labels_of,
    metadata,
    name_of,
    split_key,
    uid_of,
)
from kcm.protocols.pods import is_terminal
from kcm.protocols.resources import (
    CSI_DRIVERS,
    CSI_NODES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    VOLUME_ATTACHMENTS,
)
from kcm.protocols.volumes import (
    CLAIM_PROTECTION,
    ClaimUse,
    claims_of,
    key_of_reference,
    phase_of,
    volume_name_of,
)
from kcm.runtime.scheduling.backoff import Backoff
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

POD_QUEUE = "hollow-kubelet"
SYNC_BACKOFF = Backoff(first=10.0, most=300.0)  # of pods whose claims cannot be used
MOUNT_BACKOFF = Backoff(first=0.5, most=122.0)  # Source: pkg/util/goroutinemap/exponentialbackoff
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


class PodVolume(NamedTuple):
    """Volume of a claim that a pod mounts.

    name: in the pod.
    error: why the claim cannot be used, or "".
    volume: its PersistentVolume, unless there is an error.
    source: its CSI source if its node registers the driver.
    attachable: whether the controller must attach it first.
    """

    name: str
    error: str = ""
    volume: Object | None = None
    source: CsiSource | None = None
    attachable: bool = False


class VolumeWait(NamedTuple):
    """Pod that waits for its volumes. due: Unix seconds of the next attempt, or None."""

    due: float | None = None
    events: Sequence[PodEvent] = ()


def mounted_names(pod: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the volumes that containers mount, or use as block devices."""
    spec = pod.get("spec") or {}
    containers = [container for field in _CONTAINERS for container in spec.get(field) or ()]
    uses = [container.get(part) or () for container in containers for part in ("volumeMounts", "volumeDevices")]
    return frozenset(use.get("name") or "" for group in uses for use in group)


def mounted_claims(pod: Mapping[str, Any]) -> Iterator[tuple[str, ClaimUse]]:
    """Yield the claims that containers mount, or use as block devices, each with the name of its volume in the pod."""
    mounted = mounted_names(pod) if has_claims(pod) else frozenset()
    for volume in pod["spec"].get("volumes") or () if mounted else ():
        name = volume.get("name") or ""
        if name in mounted:
            for use in claims_of({"metadata": pod["metadata"], "spec": {"volumes": [volume]}}):
                yield name, use


def has_claims(pod: Mapping[str, Any]) -> bool:
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    return any("persistentVolumeClaim" in volume or "ephemeral" in volume for volume in volumes)


def uses_claims(entry: Entry) -> bool:
    """Report whether a pod of a table with the index PODS_BY_CLAIM uses claims."""
    return any(index == CLAIMS for index, _ in entry.values)


def claim_error(claim: Mapping[str, Any] | None, name: str) -> str:
    """Return why the volume of a claim cannot be mounted; "" if it can. Source: getPVCExtractPV."""
    if claim is None:
        return f'failed to fetch PVC from API server: persistentvolumeclaims "{name}" not found'
    if is_deleting(claim) and CLAIM_PROTECTION not in finalizers_of(claim):
        return "PVC is being deleted"
    if phase_of(claim) != "Bound":
        return "PVC is not bound"
    return "" if volume_name_of(claim) else "PVC has empty pvc.Spec.VolumeName"


def volume_error(volume: Mapping[str, Any] | None, name: str, claim: Mapping[str, Any]) -> str:
    """Return why the volume of a bound claim cannot be mounted; "" if it can. Source: getPVSpec."""
    if volume is None:
        return f'failed to fetch PV {name} from API server: persistentvolumes "{name}" not found'
    reference = (volume.get("spec") or {}).get("claimRef")
    if reference is None:
        return f"found PV object {name} but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
    uid, wanted = reference.get("uid") or "", uid_of(claim)
    if uid != wanted:
        return f"found PV object {name} but its pv.Spec.ClaimRef.UID {uid} does not point to claim.UID {wanted}"
    return ""


def unprocessed_message(volumes: Sequence[PodVolume], *, unattached: Collection[str]) -> str:
    """Return the message about a pod of which some claims cannot be used. Source: WaitForAttachAndMount."""
    lists = (
        ("unmounted volumes", sorted(volume.name for volume in volumes)),
        ("unattached volumes", sorted(unattached)),
        ("failed to process volumes", sorted(volume.name for volume in volumes if volume.error)),
    )
    listed = ", ".join(f"{what}=[{' '.join(names)}]" for what, names in lists)
    errors = "; ".join(volume.error for volume in volumes if volume.error)
    return f"Unable to attach or mount volumes: {listed}: {errors}"


def csi_node(node: Object, drivers: Sequence[CsiDriver]) -> Object:
    """Build the CSINode of a node. Source: pkg/volume/csi/nodeinfomanager, CreateCSINode."""
    name = name_of(node)
    return {
        "metadata": {
            "name": name,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid_of(node)}],
        },
        "spec": {"drivers": [_registered(driver, node) for driver in drivers]},
    }


def _registered(driver: CsiDriver, node: Object) -> Object:
    entry: Object = {"name": driver.name, "nodeID": name_of(node)}
    entry["topologyKeys"] = [ZONE_LABEL] if ZONE_LABEL in labels_of(node) else None
    if driver.limit is not None:
        entry["allocatable"] = {"count": driver.limit}
    return entry


def node_ids(node: Object, drivers: Sequence[CsiDriver]) -> str:
    """Return the node's IDs by driver, as the annotation NODE_ID contains them."""
    return json.dumps({driver.name: name_of(node) for driver in drivers}, separators=(",", ":"), sort_keys=True)


class _Attempts(Struct):
    """Attempts to mount the volumes of a pod that failed with the same problem. until: Unix seconds of the next."""

    uid: str
    problem: str
    count: int = 0
    until: float = 0.0


class _Mounting(NamedTuple):
    """Mounting of a pod's volumes, which began at this time (Unix seconds)."""

    uid: str
    since: float


class _Reported(NamedTuple):
    """Names of the volumes that the node with this uid reports in use, by the writes of this process alone.

    The table may show an older state: volumes whose removal from volumesInUse was requested, but is not visible yet.
    """

    uid: str
    names: frozenset[str]


class KubeletVolumes:
    """Volumes of the pods of all hollow nodes.

    It remembers failed attempts, since when volumes are being mounted, and which volumes the nodes report in use.
    """

    def __init__(self, *, tables: Tables, clock: Clock, fleet: Mapping[str, HollowNode]) -> None:
        self._pods, self._nodes = tables[PODS], tables[NODES]
        self._claims, self._volumes = tables[PERSISTENT_VOLUME_CLAIMS], tables[PERSISTENT_VOLUMES]
        self._attachments, self._drivers = tables[VOLUME_ATTACHMENTS], tables[CSI_DRIVERS]
        self._csi_nodes = tables[CSI_NODES]
        self._clock, self._fleet = clock, fleet
        self._attempts: dict[Key, _Attempts] = {}
        self._mounting: dict[Key, _Mounting] = {}
        self._reported: dict[Key, _Reported] = {}

    def forget(self, pod: Key) -> None:
        self._attempts.pop(pod, None)
        self._mounting.pop(pod, None)

    def wait(self, entry: Entry, pod: Object, node: Object, *, now: float) -> VolumeWait | None:
        """Return why a pod waits for its volumes; None once all are mounted."""
        volumes = list(self.volumes_of(pod, node))
        if not volumes:
            return None
        in_use, attached = self._reported_by(node), attached_names(node)
        unattached = {
            volume.name
            for volume in volumes
            if volume.source is not None
            and volume.attachable
            and (volume.source.unique_name not in in_use or volume.source.unique_name not in attached)
        }
        if any(volume.error for volume in volumes):
            message = unprocessed_message(volumes, unattached=unattached)
            return self._fail(entry, message, SYNC_BACKOFF, now=now)
        if unattached or not all(self._is_attached(volume, node) for volume in volumes if volume.attachable):
            return VolumeWait()
        return self._mount(entry, volumes, node, now=now)

    def _is_attached(self, volume: PodVolume, node: Object) -> bool:
        assert volume.source is not None
        attachment = self._attachments.get(attachment_name(volume.source, name_of(node)))
        return attachment is not None and is_attached(attachment)

    def _mount(self, entry: Entry, volumes: Sequence[PodVolume], node: Object, *, now: float) -> VolumeWait | None:
        mounting = self._mounting.get(entry.key)
        if mounting is None or mounting.uid != entry.uid:
            mounting = self._mounting[entry.key] = _Mounting(entry.uid, now)
        needed = max(behaviour.longest(behaviour.MOUNT_SECONDS, volume.volume, node) for volume in volumes)
        if now < mounting.since + needed:
            return VolumeWait(mounting.since + needed)
        for volume in volumes:
            problem = self._mount_problem(entry, volume, node)
            if problem:
                return self._fail(entry, problem, MOUNT_BACKOFF, now=now)
        self.forget(entry.key)
        return None

    def _mount_problem(self, entry: Entry, volume: PodVolume, node: Object) -> str:
        """Return why a volume that is attached cannot be mounted; "" if it can."""
        assert volume.volume is not None
        name = name_of(volume.volume)
        if list(volume.volume["spec"].get("accessModes") or ()) == [READ_WRITE_ONCE_POD]:
            if self._is_mounted_elsewhere(entry, volume.volume):
                why = "volume uses the ReadWriteOncePod access mode and is already in use by another pod"
                return f'MountVolume.SetUp failed for volume "{name}" : {why}'
        text = behaviour.first_text(behaviour.MOUNT_ERROR, volume.volume, node) if volume.source is not None else ""
        if not text:
            return ""
        step = "MountDevice" if volume.attachable else "SetUp"
        return f'MountVolume.{step} failed for volume "{name}" : rpc error: code = Internal desc = {text}'

    def _is_mounted_elsewhere(self, entry: Entry, volume: Object) -> bool:
        claim = key_of_reference(volume["spec"].get("claimRef") or {})
        return any(
            other.uid != entry.uid
            and other.facts.node == entry.facts.node
            and not is_terminal(other.facts)
            and has_begun(self._pods.object_of(other))
            for other in self._pods.indexed_entries(CLAIMS, claim)
        )

    def _fail(self, entry: Entry, problem: str, backoff: Backoff, *, now: float) -> VolumeWait:
        """Record an event about a failed attempt, unless it is too early for the next attempt."""
        known = self._attempts.get(entry.key)
        if known is None or known.uid != entry.uid or known.problem != problem:
            known = self._attempts[entry.key] = _Attempts(entry.uid, problem)
        if now < known.until:
            return VolumeWait(known.until)
        known.until = now + backoff.delay(known.count)
        known.count += 1
        return VolumeWait(known.until, (PodEvent("Warning", "FailedMount", problem),))

    def volumes_of(self, pod: Object, node: Object) -> Iterator[PodVolume]:
        """Yield the volumes of claims that the pod mounts."""
        for name, (key, ephemeral) in mounted_claims(pod):
            claim = self._claims.get(key)
            error = claim_error(claim, split_key(key)[1])
            if error or claim is None:
                yield PodVolume(name, f"error processing PVC {key}: {error}")
                continue
            owner = controller_of(claim)
            if ephemeral and (owner is None or owner.uid != uid_of(pod)):
                yield PodVolume(name, f"PVC {key} was not created for pod {key_of(pod)} (pod is not owner)")
                continue
            found = self._volumes.get(volume_name_of(claim))
            error = volume_error(found, volume_name_of(claim), claim)
            if error or found is None:
                yield PodVolume(name, f"error processing PVC {key}: {error}")
                continue
            source = csi_source(found)
            if source is None or not has_csi_driver(node, source.driver):
                yield PodVolume(name, volume=found)
                continue
            attachable = requires_attach(self._drivers.get(source.driver))
            yield PodVolume(name, volume=found, source=source, attachable=attachable)

    # Queue of nodes: volumes in use.

    def report(self, key: Key) -> Reconciliation:
        """Write volumesInUse of a node's status: the volumes of pods that run, or will run, on the node."""
        hollow, node = self._fleet.get(key), self._nodes.get(key)
        if hollow is None or node is None:
            return None
        now = self._clock.now()
        quiet = silence(node, now=now)
        if quiet.silent:
            return None if quiet.until is None else look_again(due=quiet.until, now=now)
        uid, used = uid_of(node), frozenset(self._used_on(node))
        reported = self._reported_by(node)
        if used == reported == set(in_use_names(node)):
            return None
        # Until the write has succeeded, a pod may count only on the volumes that are reported before and after it.
        self._reported[key] = _Reported(uid, reported & used)
        body = {"metadata": {"uid": uid}, "status": {"volumesInUse": sorted(used) or None}}
        put = patch(NODES, key, body, subresource="status")
        outcome = yield from must(in_name_of(hollow.user, put), but=(NotFound, Conflict))
        if isinstance(outcome, Done):
            self._reported[key] = _Reported(uid, used)
            # Their watch shows no change if the node reported these volumes before this process started.
            for entry in self._pods.indexed_entries(NODE, key) if used - reported else ():
                if entry.facts.phase == "Pending" and uses_claims(entry):
                    yield Enqueue(POD_QUEUE, entry.key)
        return None

    def _reported_by(self, node: Object) -> frozenset[str]:
        known = self._reported.get(name_of(node))
        return known.names if known is not None and known.uid == uid_of(node) else frozenset()

    def _used_on(self, node: Object) -> Iterator[str]:
        for entry in self._pods.indexed_entries(NODE, name_of(node)):
            if is_terminal(entry.facts) or not uses_claims(entry):
                continue
            for volume in self.volumes_of(self._pods.object_of(entry), node):
                if volume.source is not None and volume.attachable:
                    yield volume.source.unique_name

    # Queue of nodes: registration of drivers.

    def register(self, key: Key) -> Reconciliation:
        """Write the CSINode of a node, and the IDs of the node in its annotation."""
        hollow, node = self._fleet.get(key), self._nodes.get(key)
        if hollow is None or node is None or is_deleting(node) or silence(node, now=self._clock.now()).silent:
            return None
        drivers = csi_drivers(node)
        ids = node_ids(node, drivers)
        if annotations_of(node).get(NODE_ID) != ids:
            body = {"metadata": {"uid": uid_of(node), "annotations": {NODE_ID: ids}}}
            yield from must(in_name_of(hollow.user, patch(NODES, key, body)), but=(NotFound, Conflict))
        wanted, present = csi_node(node, drivers), self._csi_nodes.get(key)
        if present is None:
            yield from must(in_name_of(hollow.user, create(CSI_NODES, wanted)), but=(AlreadyExists,))
        elif is_deleting(present):
            return None  # its deletion enqueues the node
        elif _parts(present) != _parts(wanted):
            changes = {
                "metadata": {"uid": uid_of(present), "ownerReferences": metadata(wanted)["ownerReferences"]},
                "spec": wanted["spec"],
            }
            put = in_name_of(hollow.user, patch(CSI_NODES, key, changes))
            yield from must(put, but=(NotFound, Conflict))
        return None


def _parts(csi_node: Object) -> tuple[Any, ...]:
    """Return what the kubelet writes of a CSINode, for comparison."""
    drivers = (csi_node.get("spec") or {}).get("drivers") or ()
    owners = [owner.get("uid") for owner in metadata(csi_node).get("ownerReferences") or ()]
    return owners, [
        (driver["name"], driver["nodeID"], driver.get("topologyKeys") or None, driver.get("allocatable"))
        for driver in drivers
    ]


def has_begun(pod: Mapping[str, Any]) -> bool:
    """Report whether a container of the pod has started, which shows that its volumes were mounted."""
    status = pod.get("status") or {}
    lists = (status.get("initContainerStatuses"), status.get("containerStatuses"))
    return any(container.get("containerID") for statuses in lists for container in statuses or ())
