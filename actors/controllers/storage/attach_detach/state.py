"""State of the attach/detach controller: which volumes nodes need, which they have, and operations on them.

Volumes have unique names as in node.status: "kubernetes.io/csi/<driver>^<handle>".

Source: kubernetes v1.36 pkg/controller/volume/attachdetach/cache/{actual,desired}_state_of_world.go,
pkg/volume/util/nestedpendingoperations. Differences:
- A pod that is deleted is removed by its uid from all of its volumes, also if its claim can no longer be resolved.
- An operation of another kind than the failed one starts with a new backoff, also if the old delay has expired.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct, field

from kcm.actors.controllers.storage.attach_detach.volume_specs import VolumeSpec
from kcm.protocols.objects import Key, Object, make_key
from kcm.runtime.scheduling.backoff import Backoff

RETRIES = Backoff(first=0.5, most=122.0)


class PodReference(Struct, frozen=True, kw_only=True):
    """Pod that needs a volume, for events."""

    namespace: str
    name: str
    uid: str
    resource_version: str

    @property
    def key(self) -> Key:
        return make_key(self.namespace, self.name)

    @property
    def about(self) -> Object:
        """Return the metadata of the pod as the object of an event."""
        meta = {"namespace": self.namespace, "name": self.name}
        return {"metadata": {**meta, "uid": self.uid, "resourceVersion": self.resource_version}}


class DesiredVolume(Struct, kw_only=True):
    """Volume that a node needs.

    pods: pods on the node that use it, by uid.
    conflict_reported: its pods have an event about a multi-attach error.
    """

    spec: VolumeSpec
    pods: dict[str, PodReference] = field(default_factory=dict)
    conflict_reported: bool = False


class DesiredState:
    """Volumes that nodes need because of their pods. Only nodes for which the controller attaches volumes are included.

    counts: number of (node, volume) pairs by plugin.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._nodes: dict[str, dict[str, DesiredVolume]] = {}
        self._nodes_of: dict[str, dict[str, None]] = {}  # nodes by volume, in order of arrival
        self._uses: dict[str, set[tuple[str, str]]] = {}  # (node, volume) pairs by uid of the pod
        self._uids: dict[Key, set[str]] = {}  # uids by key of the pod

    def add_node(self, node: str) -> bool:
        """Add a node for which the controller attaches volumes. Return False if it was added before."""
        if node in self._nodes:
            return False
        self._nodes[node] = {}
        return True

    def remove_node(self, node: str) -> bool:
        """Remove a node. If pods on the node still use volumes, the node is kept, and False is returned."""
        if self._nodes.get(node):
            return False
        self._nodes.pop(node, None)
        return True

    def has_node(self, node: str) -> bool:
        return node in self._nodes

    def add(self, pod: PodReference, spec: VolumeSpec, node: str) -> None:
        """Record that a pod uses a volume. Raises KeyError if the pod's node was not added."""
        volume = spec.unique_name
        desired = self._nodes[node].get(volume)
        if desired is None:
            desired = self._nodes[node][volume] = DesiredVolume(spec=spec)
            self._nodes_of.setdefault(volume, {})[node] = None
            self.counts[spec.qualified_plugin] += 1
        if pod.uid not in desired.pods:
            desired.pods[pod.uid] = pod
            self._uses.setdefault(pod.uid, set()).add((node, volume))
            self._uids.setdefault(pod.key, set()).add(pod.uid)

    def remove_pod(self, key: Key, uid: str) -> list[str]:
        """Remove a pod from all volumes that it uses. Return these volumes, in order."""
        pairs = sorted(self._uses.pop(uid, ()))
        for node, volume in pairs:
            self._remove(node, volume, uid)
        uids = self._uids.get(key)
        if uids is not None:
            uids.discard(uid)
            if not uids:
                del self._uids[key]
        return [volume for _, volume in pairs]

    def remove_volume(self, volume: str, node: str) -> None:
        """Remove a volume that no longer has to be attached from a node."""
        desired = self.get(volume, node)
        for pod in () if desired is None else list(desired.pods.values()):
            self._remove(node, volume, pod.uid)
            uses = self._uses[pod.uid]
            uses.discard((node, volume))
            if not uses:
                self.remove_pod(pod.key, pod.uid)

    def _remove(self, node: str, volume: str, uid: str) -> None:
        desired = self._nodes[node][volume]
        desired.pods.pop(uid, None)
        if not desired.pods:
            del self._nodes[node][volume]
            del self._nodes_of[volume][node]
            if not self._nodes_of[volume]:
                del self._nodes_of[volume]
            self.counts[desired.spec.qualified_plugin] -= 1

    def get(self, volume: str, node: str) -> DesiredVolume | None:
        return self._nodes.get(node, {}).get(volume)

    def nodes_of(self, volume: str) -> list[str]:
        """Return the nodes that need a volume, in order of arrival."""
        return list(self._nodes_of.get(volume, ()))

    def uids(self, key: Key) -> list[str]:
        """Return the uids of the pods with this key that use volumes; more than one while a pod is replaced."""
        return sorted(self._uids.get(key, ()))

    def pods(self) -> list[Key]:
        return list(self._uids)

    def volumes(self) -> list[tuple[str, str, VolumeSpec]]:
        """Return (node, unique name of the volume, spec) for each volume that a node needs."""
        return [(node, name, volume.spec) for node, volumes in self._nodes.items() for name, volume in volumes.items()]

    def pods_on(self, nodes: list[str], volume: str) -> list[PodReference]:
        """Return the pods on these nodes that use a volume."""
        found = (self.get(volume, node) for node in nodes)
        return [pod for desired in found if desired is not None for pod in desired.pods.values()]


class AttachState(StrEnum):
    """State of a volume on a node.

    UNCERTAIN: an attachment or detachment failed, or only a VolumeAttachment shows that the volume may be attached.
    """

    ATTACHED = "Attached"
    UNCERTAIN = "Uncertain"
    DETACHED = "Detached"


class _OnNode(Struct):
    """Attachment of a volume to a node. detach_requested: monotonic seconds."""

    confirmed: bool
    detach_requested: float | None = None


class _AttachedVolume(Struct):
    spec: VolumeSpec | None  # None if it is known only by its name in a node's status
    device_path: str
    nodes: dict[str, _OnNode] = field(default_factory=dict)


class ActualState:
    """Volumes that are attached, or may be attached, to nodes; and volumes that kubelets use.

    counts: number of (node, volume) pairs by plugin, of volumes whose plugin is known.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._volumes: dict[str, _AttachedVolume] = {}
        self._on: dict[str, dict[str, None]] = {}  # volumes by node
        self._reports: dict[str, dict[str, None]] = {}  # volumes by node that its status reports as attached
        self._in_use: dict[str, set[str]] = {}  # by node
        self._versions: dict[str, int] = {}  # resourceVersion of the node that _in_use is from

    def attach(
        self, volume: str, node: str, *, spec: VolumeSpec | None, device_path: str = "", confirmed: bool
    ) -> None:
        """Record that a volume is or may be attached to a node. A new volume is assumed to be in use by the node.

        Source: AddVolumeNode.
        """
        known = self._volumes.get(volume)
        if known is None:
            known = self._volumes[volume] = _AttachedVolume(spec=spec, device_path=device_path)
        else:
            self._recount(known, -len(known.nodes))
            known.spec, known.device_path = spec, device_path
            self._recount(known, len(known.nodes))
        on_node = known.nodes.get(node)
        if on_node is None:
            known.nodes[node] = _OnNode(confirmed=confirmed)
            self._recount(known, 1)
            self._on.setdefault(node, {})[volume] = None
            self._in_use.setdefault(node, set()).add(volume)
        else:
            on_node.confirmed = confirmed
        if confirmed:
            self.report(volume, node)

    def detach(self, volume: str, node: str) -> None:
        """Record that a volume is not attached to a node. Source: DeleteVolumeNode."""
        self.stop_reporting(volume, node)
        known = self._volumes.get(volume)
        if known is None or known.nodes.pop(node, None) is None:
            return
        self._recount(known, -1)
        self._on[node].pop(volume, None)
        if not known.nodes:
            del self._volumes[volume]

    def _recount(self, volume: _AttachedVolume, change: int) -> None:
        if volume.spec is not None:
            self.counts[volume.spec.qualified_plugin] += change

    def report(self, volume: str, node: str) -> None:
        """Report a volume as attached in the status of its node. Source: addVolumeToReportAsAttached."""
        if self.state(volume, node) is not AttachState.DETACHED:
            self._reports.setdefault(node, {})[volume] = None

    def stop_reporting(self, volume: str, node: str) -> None:
        self._reports.get(node, {}).pop(volume, None)

    def reports_about(self, node: str) -> list[str] | None:
        """Return the volumes to report for a node; None if no volume was ever attached, so that nothing is written."""
        reported = self._reports.get(node)
        return None if reported is None else list(reported)

    def observe_node(self, node: str, in_use: tuple[str, ...], version: int) -> None:
        """Record the volumes that a kubelet uses. Source: SetVolumesMountedByNode.

        They replace the volumes that were assumed to be in use, unless this version of the node was recorded before.

        version: resourceVersion of the node.
        """
        if self._versions.get(node) != version:
            self._versions[node] = version
            self._in_use[node] = set(in_use)

    def is_in_use(self, volume: str, node: str) -> bool:
        return volume in self._in_use.get(node, ())

    def request_detach(self, volume: str, node: str, now: float) -> float:
        """Return the seconds since the first request to detach a volume. now: monotonic. Source: SetDetachRequestTime.

        Raises KeyError if it is not attached.
        """
        on_node = self._volumes[volume].nodes[node]
        if on_node.detach_requested is None:
            on_node.detach_requested = now
        return now - on_node.detach_requested

    def reset_detach(self, volume: str, node: str) -> None:
        """Withdraw the request to detach a volume. Raises KeyError if it is not attached."""
        self._volumes[volume].nodes[node].detach_requested = None

    def state(self, volume: str, node: str) -> AttachState:
        known = self._volumes.get(volume)
        on_node = None if known is None else known.nodes.get(node)
        if on_node is None:
            return AttachState.DETACHED
        return AttachState.ATTACHED if on_node.confirmed else AttachState.UNCERTAIN

    def spec(self, volume: str) -> VolumeSpec | None:
        known = self._volumes.get(volume)
        return None if known is None else known.spec

    def device_path(self, volume: str) -> str:
        known = self._volumes.get(volume)
        return "" if known is None else known.device_path

    def nodes_of(self, volume: str) -> list[str]:
        """Return the nodes to which a volume is attached or may be attached."""
        known = self._volumes.get(volume)
        return [] if known is None else list(known.nodes)

    def confirmed_nodes(self, volume: str) -> list[str]:
        return [node for node in self.nodes_of(volume) if self.state(volume, node) is AttachState.ATTACHED]

    def volumes(self) -> list[str]:
        return list(self._volumes)

    def volumes_on(self, node: str) -> list[str]:
        return list(self._on.get(node, ()))

    def attached(self) -> Iterator[tuple[str, str]]:
        """Yield all confirmed (node, volume) pairs."""
        for volume in list(self._volumes):
            for node in self.confirmed_nodes(volume):
                yield node, volume


class OperationKind(StrEnum):
    """Kinds of operations, by their names in storage_operation_duration_seconds."""

    ATTACH = "volume_attach"
    DETACH = "volume_detach"


class Operation(Struct, kw_only=True):
    """Attachment or detachment of a volume that is pending, or that has failed and waits for its retry.

    node: name of the node.
    lock: name of the node for a shared volume: operations on other nodes may be pending at the same time. "" for an
        exclusive volume: only one operation on it may be pending.
    spec: None for a volume that is known only by its name.
    pods: pods that receive its events.
    verify: before the volume is detached, check that its node does not use it.
    begun: monotonic time of the start.
    sent: monotonic time at which the VolumeAttachment was created or deleted; None before that.
    failures: number of failures in a row, from which the backoff is computed.
    failed: monotonic time of the last failure.
    """

    kind: OperationKind
    node: str
    lock: str
    spec: VolumeSpec | None
    pods: tuple[PodReference, ...] = ()
    verify: bool = True
    pending: bool = True
    begun: float = 0.0
    sent: float | None = None
    failures: int = 0
    failed: float = 0.0

    def waits(self, now: float) -> float:
        """Return the seconds until the failed operation may be retried; 0.0 if it may be retried now."""
        if not self.failures:
            return 0.0
        return max(0.0, self.failed + RETRIES.delay(self.failures - 1) - now)


class Operations:
    """Operations by volume. Source: nestedPendingOperations."""

    def __init__(self) -> None:
        self._of: dict[str, list[Operation]] = {}

    def pending(self, volume: str) -> list[Operation]:
        return [operation for operation in self._of.get(volume, ()) if operation.pending]

    def find(self, volume: str, lock: str) -> Operation | None:
        """Return the operation that excludes an operation with this lock: a pending one first."""
        found = [
            operation
            for operation in self._of.get(volume, ())
            if not operation.lock or not lock or operation.lock == lock
        ]
        return min(found, key=lambda operation: (not operation.pending, operation.lock != lock), default=None)

    def delay(self, volume: str, lock: str, kind: OperationKind, now: float) -> float:
        """Return the seconds until an operation of this kind may begin, unless another one is pending."""
        known = self.find(volume, lock)
        return known.waits(now) if known is not None and known.kind is kind else 0.0

    def begin(self, volume: str, operation: Operation) -> Operation:
        """Begin an operation. It continues the backoff of a failed operation of its kind, and replaces any other."""
        known = self.find(volume, operation.lock)
        assert known is None or not known.pending, f"an operation on {volume} is pending"
        if known is not None:
            self._of[volume].remove(known)
            if known.kind is operation.kind:
                operation.failures, operation.failed = known.failures, known.failed
        self._of.setdefault(volume, []).append(operation)
        return operation

    def succeeded(self, volume: str, operation: Operation) -> None:
        self._of[volume].remove(operation)
        if not self._of[volume]:
            del self._of[volume]

    def fail(self, operation: Operation, now: float) -> float:
        """End an operation with a failure. Return the seconds until it may be retried."""
        operation.pending, operation.sent = False, None
        operation.failures += 1
        operation.failed = now
        return operation.waits(now)

    def clear(self, volume: str) -> None:
        """Delete the failed operations on a volume that is neither needed nor attached."""
        if not self.pending(volume):
            self._of.pop(volume, None)
