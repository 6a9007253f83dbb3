"""Reconciler of the attach/detach controller: attaches volumes to the nodes whose pods need them, and detaches others.

Input: pods, nodes, claims, volumes, CSIDrivers, VolumeAttachments. Output: VolumeAttachments, which an external
attacher carries out; node.status.volumesAttached; events on pods.

Keys: unique name of a volume (attach, detach); "namespace/name" of a pod or of a claim, whose volumes are resolved;
name of a node, whose status is patched; name of a VolumeAttachment, whose volume is enqueued.

A volume is detached in this order: its node no longer reports it as attached, then the node does not use it, then the
VolumeAttachment is deleted. A kubelet mounts a volume only while its node reports it as attached.

Source: kubernetes v1.36 pkg/controller/volume/attachdetach, pkg/volume/csi/csi_attacher.go,
pkg/volume/util/operationexecutor/operation_generator.go. Differences:
- Volumes are reconciled when something changes, or is due; upstream evaluates all of them every 100 ms, and polls
  VolumeAttachments with increasing intervals.
- A volume that may be attached to a node (uncertain) is attached there before others are considered.
- Pods on a node that becomes managed, and of a claim whose PersistentVolume appears late, are resolved at once;
  upstream resolves them within 3 minutes.
- The patch of a node's status has the node's uid as precondition, and is omitted if it changes nothing. But before a
  volume is detached, a patch must have succeeded, also if the table shows that the volume is not reported: it may be
  older than a patch without a response.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kcm.actors.controllers.storage.attach_detach.state import (
    ActualState,
    AttachState,
    DesiredState,
    DesiredVolume,
    Operation,
    OperationKind,
    Operations,
    PodReference,
)
from kcm.actors.controllers.storage.attach_detach.volume_specs import (
    ANY,
    CSI,
    FC,
    ISCSI,
    VOLUMES,
    VolumeSpec,
    is_attachable,
    of_persistent_volume,
    of_pod_volume,
    source_of,
    split_unique_name,
)
from kcm.actors.controllers.storage.persistentvolume_binder.metrics import STORAGE_OPERATION
from kcm.actors.controllers.storage.shared.pods_by_claim import CLAIMS
from kcm.actors.reconciliation import (
    Enqueue,
    Reconciliation,
    RequeueAfter,
    Step,
    create,
    delete,
    get_live,
    merge_status,
    must,
    perform,
    record,
)
from kcm.actors.reconciliation.derived import NODE
from kcm.protocols.csi import attachment_name, is_attached, requires_attach
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.events import Record
from kcm.protocols.messages.outcomes import AlreadyExists, Done, NotFound, Refused
from kcm.protocols.objects import (
    Key,
    Object,
    decode_object,
    is_deleting,
    name_of,
    namespace_of,
    resource_version_of,
    uid_of,
)
from kcm.protocols.resources import (
    CSI_DRIVERS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    VOLUME_ATTACHMENTS,
)
from kcm.protocols.volumes import is_pod_ended, phase_of, volume_name_of
from kcm.runtime.metrics.registry import Family, Metrics
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

VOLUME_QUEUE, POD_QUEUE, NODE_QUEUE = "volume_attachments", "attachable_pods", "attachable_nodes"
MAX_WAIT_FOR_UNMOUNT = 360.0  # seconds after which a volume is detached from a node that is not ready
OPERATION_TIMEOUT = 120.0  # seconds for the external attacher
ADD_PODS = 180.0  # seconds between passes that resolve the volumes of all pods
IN_USE_POLL = 10.0  # seconds after which a node that uses a volume is evaluated again, in case that was only assumed
UNKNOWN_PLUGIN_RETRY = 120.0  # seconds after which a detachment that cannot start is retried
MALFORMED = (ValueError, TypeError, AttributeError, KeyError)  # raised by code that reads a malformed object

FORCED_DETACHES = Family(
    name="attach_detach_controller_attachdetach_controller_forced_detaches",
    kind="counter",
    help="Number of times the A/D Controller performed a forced detach",
    labels=("reason",),
)
TOTAL_VOLUMES = Family(
    name="attachdetach_controller_total_volumes",
    kind="gauge",
    help="Number of volumes in A/D Controller",
    labels=("plugin_name", "state"),
)
IN_USE_VOLUMES = Family(
    name="storage_count_attachable_volumes_in_use",
    kind="gauge",
    help="Measure number of volumes in use",
    labels=("node", "volume_plugin"),
)


NOT_ATTACHABLE = "plugin do not support attachment"  # the CSIDriver has changed


class Detachment(NamedTuple):
    """Decision about a volume that its node no longer needs.

    wait: seconds until it may be detached by force, infinite without a limit; 0.0 if it is detached now.
    reason: "" for a normal detachment, which checks that the node does not use the volume; "timeout" or
        "out-of-service" for a forced one.
    """

    wait: float = 0.0
    reason: str = ""


def decide_detachment(
    *, elapsed: float, in_use: bool, ready: bool, out_of_service: bool, force_on_timeout: bool
) -> Detachment:
    """Decide whether a volume is detached from its node, and whether by force.

    elapsed: seconds since the detachment was first requested.
    in_use: the kubelet uses the volume, or is assumed to.
    ready: the node's condition Ready is True; False if the node does not exist.
    out_of_service: the node has the taint out-of-service.
    force_on_timeout: not --disable-force-detach-on-timeout.

    Source: reconcile.
    """
    expired = elapsed > MAX_WAIT_FOR_UNMOUNT and force_on_timeout
    if in_use and not out_of_service and (ready or not expired):
        may_be_forced = force_on_timeout and not ready
        return Detachment(wait=MAX_WAIT_FOR_UNMOUNT - elapsed + 0.001 if may_be_forced else math.inf)
    if expired:
        return Detachment(reason="timeout")
    return Detachment(reason="out-of-service" if out_of_service else "")


class AttachmentProgress(NamedTuple):
    """State of a VolumeAttachment. error: why the operation failed, or ""."""

    done: bool = False
    error: str = ""


def attach_progress(attachment: Mapping[str, Any] | None) -> AttachmentProgress:
    """Return the progress of an attachment. None: the created object is not in the table yet.

    Source: verifyAttachmentStatus.
    """
    if attachment is None:
        return AttachmentProgress()
    if is_deleting(attachment):
        return AttachmentProgress(error="volume attachment is being deleted")
    if is_attached(attachment):
        return AttachmentProgress(done=True)
    error = (attachment.get("status") or {}).get("attachError")
    return AttachmentProgress() if error is None else AttachmentProgress(error=error.get("message") or "")


def detach_progress(attachment: Mapping[str, Any] | None) -> AttachmentProgress:
    """Return the progress of a detachment. Source: verifyDetachmentStatus."""
    if attachment is None:
        return AttachmentProgress(done=True)
    error = (attachment.get("status") or {}).get("detachError")
    return AttachmentProgress() if error is None else AttachmentProgress(error=error.get("message") or "")


def volume_text(prefix: str, spec: VolumeSpec | None, suffix: str = "") -> str:
    """Return a message about a volume for an event. Source: generateVolumeMsg."""
    return f'{prefix} for volume "{"nil" if spec is None else spec.name}" {suffix}'


def conflict_texts(
    spec: VolumeSpec, scheduled: Iterable[PodReference], users: Iterable[PodReference]
) -> list[tuple[PodReference, str]]:
    """Return the message about a multi-attach error for each scheduled pod.

    users: pods on other nodes that use the volume.
    Messages do not name pods of other namespaces. Source: reportMultiAttachError.
    """
    users, texts = list(users), []
    for pod in scheduled:
        local = [user.name for user in users if user.namespace == pod.namespace]
        others = len(users) - len(local)
        if not users:
            text = "Volume is already exclusively attached to one node and can't be attached to another"
        elif local:
            text = f"Volume is already used by pod(s) {', '.join(local)}"
            text += f" and {others} pod(s) in different namespaces" if others else ""
        else:
            text = f"Volume is already used by {others} pod(s) in different namespaces"
        texts.append((pod, volume_text("Multi-Attach error", spec, text)))
    return texts


def status_with(
    node: Mapping[str, Any], volumes: Iterable[str], device_paths: Mapping[str, str], *, always: bool = False
) -> list[Object] | None:
    """Return volumesAttached of a node that reports these volumes; None if it reports exactly these already.

    always: return it in any case.
    Volumes that were reported before keep their order.
    """
    wanted = dict.fromkeys(volumes)
    before = (node.get("status") or {}).get("volumesAttached") or ()
    if not always and wanted.keys() == {each.get("name") for each in before} and len(wanted) == len(before):
        return None
    names = dict.fromkeys(each.get("name") for each in before if each.get("name") in wanted) | wanted
    return [{"name": name, "devicePath": device_paths.get(name, "")} for name in names]


class AttachDetach:
    """Reconciler of volumes, with the desired and the actual state in memory.

    Every incarnation derives the state from nodes, VolumeAttachments and pods before its first reconciliation.
    """

    def __init__(
        self,
        *,
        tables: Tables,
        clock: Clock,
        log: FilteringBoundLogger,
        metrics: Metrics,
        force_on_timeout: bool = True,
        verifies: bool = True,
    ) -> None:
        """Create the reconciler.

        force_on_timeout: not --disable-force-detach-on-timeout.
        verifies: not --disable-attach-detach-reconcile-sync.
        """
        self._tables, self._clock, self._log, self._metrics = tables, clock, log, metrics
        self._pods, self._nodes = tables[PODS], tables[NODES]
        self._claims, self._volumes = tables[PERSISTENT_VOLUME_CLAIMS], tables[PERSISTENT_VOLUMES]
        self._attachments, self._drivers = tables[VOLUME_ATTACHMENTS], tables[CSI_DRIVERS]
        self._force_on_timeout, self._verifies = force_on_timeout, verifies
        self._started = False
        self._written: set[str] = set()  # nodes whose status was patched, since when no patch has failed
        self._operated: dict[str, str] = {}  # volume with a pending operation, by name of its VolumeAttachment
        self._pods_added = -math.inf  # monotonic time of the last pass over all pods
        self.desired, self.actual, self.operations = DesiredState(), ActualState(), Operations()
        self._plugins: dict[Key, tuple[tuple[str, str], ...]] = {}  # (node, plugin) of each volume by pod
        self._in_use: Counter[tuple[str, str]] = Counter()

    # State at the start.

    def _start(self) -> None:
        """Derive the state, once. Source: populateActualStateOfWorld, populateDesiredStateOfWorld."""
        if self._started:
            return
        self._started = True
        for node in self._nodes.entries():
            if node.facts.volumes_attached:
                for attached in self._nodes.object_of(node)["status"]["volumesAttached"]:
                    path = attached.get("devicePath") or ""
                    self.actual.attach(
                        attached.get("name") or "", node.key, spec=None, device_path=path, confirmed=True
                    )
            self._observe_node(node)  # replaces the assumption that these volumes are in use
        for attachment in self._attachments.objects():
            try:
                self._recover(attachment)
            except MALFORMED as err:
                self._log.warning("VolumeAttachment cannot be read", attachment=name_of(attachment), error=str(err))
        for pod in self._pods.indexed_entries(VOLUMES, ANY):
            self._observe_pod(pod.key)
        self._pods_added = self._clock.monotonic()
        for name, volume, spec in self.desired.volumes():
            if self.actual.state(volume, name) is AttachState.ATTACHED:
                path = self.actual.device_path(volume)
                self.actual.attach(volume, name, spec=spec, device_path=path, confirmed=True)
        self._show_counts()

    def _recover(self, attachment: Object) -> None:
        """Record a VolumeAttachment that its node does not report as an uncertain attachment.

        Source: processVolumeAttachments.
        """
        spec = attachment.get("spec") or {}
        node, name = spec.get("nodeName") or "", (spec.get("source") or {}).get("persistentVolumeName")
        if name is None:
            self._log.info("Skipping the va as its pvName is nil", node=node, vaName=name_of(attachment))
            return
        volume = self._volumes.get(name)
        if volume is None:
            self._log.error("Unable to lookup pv object", PV=name)
            return
        found = of_persistent_volume(volume)
        if not is_attachable(self._tables, found) and not found.migrated:
            self._log.info("Skipping processing the volume on node, no attacher interface found", node=node, PV=name)
            return
        if self.actual.state(found.unique_name, node) is AttachState.DETACHED:
            self._log.info(
                "Marking volume attachment as uncertain as volume is not attached",
                v=1,
                node=node,
                volumeName=found.unique_name,
                attachState=AttachState.DETACHED.value,
            )
            self.actual.attach(found.unique_name, node, spec=found, confirmed=False)

    # Queue of pods, and of their claims.

    def sync_pod(self, key: Key) -> Reconciliation:
        """Update the volumes that the node of a pod needs, and enqueue them. Source: podAdd, podDelete."""
        self._start()
        yield from self._enqueue(self._observe_pod(key))
        return None

    def sync_claim(self, key: Key) -> Reconciliation:
        """Resolve the volumes of the pods that use a bound claim. Source: syncPVCByKey."""
        self._start()
        claim = self._claims.get(key)
        if claim is None or phase_of(claim) != "Bound" or not volume_name_of(claim):
            return None
        for pod in self._pods.indexed_entries(CLAIMS, key):
            yield from self._enqueue(self._observe_pod(pod.key))
        return None

    def _enqueue(self, volumes: Iterable[str]) -> Step[None]:
        self._show_counts()
        for volume in dict.fromkeys(volumes):
            yield Enqueue(VOLUME_QUEUE, volume)

    def _observe_pod(self, key: Key) -> list[str]:
        """Update the desired state from one pod. Return the volumes that it uses, or has used until now."""
        entry = self._pods.entry(key)
        pod = None if entry is None else self._pods.object_of(entry)
        uid = "" if pod is None or is_pod_ended(pod) else uid_of(pod)
        affected = [name for old in self.desired.uids(key) if old != uid for name in self.desired.remove_pod(key, old)]
        if pod is None:
            self._count_in_use(key, "", ())
            return affected
        node, specs = (pod.get("spec") or {}).get("nodeName") or "", list(self._specs_of(pod))
        for spec in specs if uid and self.desired.has_node(node) else ():
            if is_attachable(self._tables, spec):
                self.desired.add(_reference(pod), spec, node)
                affected.append(spec.unique_name)
        self._count_in_use(key, node, [spec.qualified_plugin for spec in specs if spec.plugin])
        return affected

    def _specs_of(self, pod: Object) -> Iterable[VolumeSpec]:
        """Yield the volumes of a scheduled pod that can be resolved."""
        spec = pod.get("spec") or {}
        for volume in (spec.get("volumes") or ()) if spec.get("nodeName") else ():
            try:
                yield of_pod_volume(self._tables, pod, volume)
            except MALFORMED as err:
                text = str(err)
                self._log.info(
                    "Error processing volume for pod", v=10, pod=f"{namespace_of(pod)}/{name_of(pod)}", err=text
                )

    # Queue of nodes.

    def sync_node(self, name: Key) -> Reconciliation:
        """Observe a node, and patch volumesAttached in its status. Source: nodeAdd, nodeUpdate, updateNodeStatus."""
        self._start()
        node = self._nodes.entry(name)
        if node is None:
            if not self.desired.remove_node(name):
                self._log.info("Error removing node from desired-state-of-world", node=name)
        else:
            if self._observe_node(node):
                for pod in self._pods.indexed_entries(NODE, name):
                    if (VOLUMES, ANY) in pod.values:
                        yield Enqueue(POD_QUEUE, pod.key)
            yield from self._report(self._nodes.object_of(node))
        for volume in self.actual.volumes_on(name):
            if self.desired.get(volume, name) is None:
                yield Enqueue(VOLUME_QUEUE, volume)
        return None

    def _observe_node(self, node: Entry) -> bool:
        """Return whether the controller attaches volumes for this node from now on."""
        self.actual.observe_node(node.key, node.facts.volumes_in_use, node.resource_version)
        return node.facts.attaches_for and self.desired.add_node(node.key)

    def _report(self, node: Object) -> Step[None]:
        name = name_of(node)
        volumes = self.actual.reports_about(name)
        if volumes is None:
            return
        paths = {volume: self.actual.device_path(volume) for volume in volumes}
        status = status_with(node, volumes, paths, always=self._has_withdrawn(name) and name not in self._written)
        if status is not None:
            self._written.discard(name)
            changes = {"volumesAttached": status or None}
            yield from must(merge_status(NODES, node, changes, ordered=False), but=(NotFound,))
            self._written.add(name)
            self._log.info("Updating status for node succeeded", v=4, node=name, attachedVolumes=volumes)

    def _has_withdrawn(self, node: str) -> bool:
        """Report whether a volume of the node is no longer reported, because it will be detached."""
        reported = self.actual.reports_about(node) or ()
        return any(volume not in reported for volume in self.actual.volumes_on(node))

    # Queue of VolumeAttachments.

    def sync_attachment(self, name: Key) -> Reconciliation:
        """Enqueue the volume of a VolumeAttachment that has changed."""
        self._start()
        volume = self._operated.get(name)
        if volume is not None:
            yield Enqueue(VOLUME_QUEUE, volume)
        return None

    # Queue of volumes.

    def sync_volume(self, name: Key) -> Reconciliation:
        """Detach a volume from nodes that no longer need it, and attach it to nodes that do. Source: reconcile."""
        self._start()
        wait = math.inf
        for operation in self.operations.pending(name):
            wait = min(wait, (yield from self._continue(name, operation)))
        for node in self.actual.nodes_of(name):
            if self.desired.get(name, node) is None:
                wait = min(wait, (yield from self._detach(name, node)))
        uncertain = set(self.actual.nodes_of(name))
        for node in sorted(self.desired.nodes_of(name), key=lambda node: node not in uncertain):
            desired = self.desired.get(name, node)
            if desired is not None:
                wait = min(wait, (yield from self._attach(name, node, desired)))
        if not self.actual.nodes_of(name) and not self.desired.nodes_of(name):
            self.operations.clear(name)
        self._show_counts()
        return None if math.isinf(wait) else RequeueAfter(wait)

    def _attach(self, volume: str, node: str, desired: DesiredVolume) -> Step[float]:
        """Begin to attach a volume unless it is attached, or must not be attached to this node as well.

        Returns the seconds until the volume is reconciled again, infinite without a limit.

        Source: attachDesiredVolumes.
        """
        lock = node if desired.spec.shared else ""
        known = self.operations.find(volume, lock)
        if known is not None and known.pending:
            return math.inf
        if self.actual.state(volume, node) is AttachState.ATTACHED:
            self.actual.reset_detach(volume, node)
            self.actual.report(volume, node)
            entry = self._nodes.entry(node)
            if entry is not None and volume not in entry.facts.volumes_attached:
                yield Enqueue(NODE_QUEUE, node)  # it was about to be detached
            return math.inf
        others = [] if desired.spec.shared else self.actual.confirmed_nodes(volume)
        if others:
            yield from self._report_conflict(volume, desired, others)
            return math.inf
        now = self._clock.monotonic()
        delay = self.operations.delay(volume, lock, OperationKind.ATTACH, now)
        if delay > 0:
            return delay
        pods = tuple(desired.pods.values())
        operation = Operation(kind=OperationKind.ATTACH, node=node, lock=lock, spec=desired.spec, pods=pods, begun=now)
        self._begin(volume, operation)
        self._log.info(
            "attacherDetacher.AttachVolume started",
            volumeName=volume,
            nodeName=node,
            scheduledPods=[pod.key for pod in pods],
        )
        return (yield from self._continue(volume, operation))

    def _report_conflict(self, volume: str, desired: DesiredVolume, nodes: list[str]) -> Step[None]:
        if desired.conflict_reported:
            return
        desired.conflict_reported = True
        users = self.desired.pods_on(nodes, volume)
        for pod, text in conflict_texts(desired.spec, desired.pods.values(), users):
            yield _event(pod, "Warning", "FailedAttachVolume", text)
        if users:
            pods = [pod.key for pod in users]
            self._log.info(
                "Multi-Attach error: volume is already used by pods", pods=pods, attachedTo=nodes, volume=volume
            )
        else:
            self._log.info(
                "Multi-Attach error: volume is already exclusively attached and can't be attached to another node",
                attachedTo=nodes,
                volume=volume,
            )

    def _detach(self, volume: str, node: str) -> Step[float]:
        """Begin to detach a volume from a node if it may be detached now. Returns the same as _attach."""
        spec = self.actual.spec(volume)
        lock = node if spec is None or spec.shared else ""
        known = self.operations.find(volume, lock)
        if known is not None and known.pending:
            return math.inf
        now = self._clock.monotonic()
        delay = self.operations.delay(volume, lock, OperationKind.DETACH, now)
        if delay > 0:
            return delay
        decision = self._decide_detachment(volume, node, now)
        if decision.wait > 0:
            entry = self._nodes.entry(node)
            is_reported = entry is None or volume in entry.facts.volumes_in_use  # then a change of the node enqueues it
            return decision.wait if is_reported else min(decision.wait, IN_USE_POLL)
        problem = _detach_problem(volume)
        if problem:
            self._log.error(
                "attacherDetacher.DetachVolume failed to start", node=node, volumeName=volume, error=problem
            )
            return UNKNOWN_PLUGIN_RETRY
        self.actual.stop_reporting(volume, node)
        if self._is_reported(volume, node):
            yield Enqueue(NODE_QUEUE, node)  # it enqueues the volume again, when it has patched the node
            return math.inf
        operation = Operation(
            kind=OperationKind.DETACH, node=node, lock=lock, spec=spec, verify=not decision.reason, begun=now
        )
        self._begin(volume, operation)
        self._log_detachment(volume, node, decision.reason)
        return (yield from self._continue(volume, operation))

    def _decide_detachment(self, volume: str, node: str, now: float) -> Detachment:
        entry = self._nodes.entry(node)
        if entry is not None:
            self._observe_node(entry)
        return decide_detachment(
            elapsed=self.actual.request_detach(volume, node, now),
            in_use=self.actual.is_in_use(volume, node),
            ready=entry is not None and entry.facts.ready == "True",
            out_of_service=entry is not None and entry.facts.out_of_service,
            force_on_timeout=self._force_on_timeout,
        )

    def _is_reported(self, volume: str, node: str) -> bool:
        """Report whether the status of the node may still contain a volume whose report was withdrawn.

        While a patch is in flight or has failed, and before the first one, the table may lack what the server has.
        """
        entry = self._nodes.entry(node)
        if entry is None or self.actual.reports_about(node) is None:
            return False
        return volume in entry.facts.volumes_attached or node not in self._written

    def _log_detachment(self, volume: str, node: str, reason: str) -> None:
        if not reason:
            self._log.info("attacherDetacher.DetachVolume started", node=node, volumeName=volume)
            return
        self._metrics.counter(FORCED_DETACHES, reason).inc()
        if reason == "timeout":
            self._log.info(
                "attacherDetacher.DetachVolume started: this volume is not safe to detach, but "
                "maxWaitForUnmountDuration expired, force detaching",
                duration="6m0s",
                node=node,
                volumeName=volume,
            )
        else:
            self._log.info(
                "attacherDetacher.DetachVolume started: node has out-of-service taint, force detaching",
                node=node,
                volumeName=volume,
            )

    # Operations.

    def _begin(self, volume: str, operation: Operation) -> None:
        self.operations.begin(volume, operation)
        attachment = _attachment_of(volume, operation.node)
        if attachment is not None:
            self._operated[attachment] = volume

    def _continue(self, volume: str, operation: Operation) -> Step[float]:
        """Continue a pending operation as far as possible. Returns the seconds until it is evaluated again."""
        if operation.kind is OperationKind.ATTACH:
            progress = yield from self._continue_attach(volume, operation)
        else:
            progress = yield from self._continue_detach(volume, operation)
        now = self._clock.monotonic()
        if not progress.done and not progress.error:
            left = OPERATION_TIMEOUT if operation.sent is None else operation.sent + OPERATION_TIMEOUT - now
            if left > 0:
                return left
            driver = (
                operation.spec.driver
                if operation.spec is not None and operation.kind is OperationKind.ATTACH
                else "unknown"
            )
            verb = "attach" if operation.kind is OperationKind.ATTACH else "detach"
            handle = (source_of(volume) or ("", ""))[1]
            progress = AttachmentProgress(
                error=f"timed out waiting for external-attacher of {driver} CSI driver to {verb} volume {handle}"
            )
        attachment = _attachment_of(volume, operation.node)
        if attachment is not None:
            self._operated.pop(attachment, None)
        self._observe_operation(volume, operation, succeeded=not progress.error, now=now)
        if operation.kind is OperationKind.ATTACH:
            return (yield from self._end_attach(volume, operation, progress.error, now))
        return (yield from self._end_detach(volume, operation, progress.error, now))

    def _continue_attach(self, volume: str, operation: Operation) -> Step[AttachmentProgress]:
        """Create the VolumeAttachment if it does not exist. Source: csiAttacher.Attach."""
        spec = operation.spec
        assert spec is not None
        name = _attachment_of(volume, operation.node)
        if name is None:
            return AttachmentProgress(done=True)  # in-tree plugins attach nothing
        if operation.sent is None:
            if not is_attachable(self._tables, spec):
                return AttachmentProgress(error=NOT_ATTACHABLE)
            if self._attachments.entry(name) is None:
                outcome = yield from perform(create(VOLUME_ATTACHMENTS, new_attachment(name, operation.node, spec)))
                if isinstance(outcome, Refused):
                    raise CommandError(create(VOLUME_ATTACHMENTS, new_attachment(name, operation.node, spec)), outcome)
                if not isinstance(outcome, Done | AlreadyExists):
                    return AttachmentProgress(error=f"{CSI}: attacher.Attach failed: {outcome.message}")
            operation.sent = self._clock.monotonic()
        return attach_progress(self._attachments.get(name))

    def _end_attach(self, volume: str, operation: Operation, error: str, now: float) -> Step[float]:
        """Record the result of an attachment, with events on the pods. Source: GenerateAttachVolumeFunc."""
        spec, node = operation.spec, operation.node
        if not error:
            self.operations.succeeded(volume, operation)
            self.actual.attach(volume, node, spec=spec, confirmed=True)
            for pod in operation.pods:
                text = volume_text("AttachVolume.Attach succeeded", spec)
                yield _event(pod, "Normal", "SuccessfulAttachVolume", text)
            self._log.info("AttachVolume.Attach succeeded", volume=volume, node=node)
            yield Enqueue(NODE_QUEUE, node)
            return math.inf
        if error == NOT_ATTACHABLE:
            text = volume_text("AttachVolume.FindAttachablePluginBySpec failed", spec)
        else:
            self.actual.attach(volume, node, spec=spec, confirmed=False)
            text = volume_text("AttachVolume.Attach failed", spec, f": {error}")
        delay = self.operations.fail(operation, now)
        for pod in operation.pods:
            yield _event(pod, "Warning", "FailedAttachVolume", text)
        self._log.error("AttachVolume.Attach failed", volume=volume, node=node, error=error, retry_after=delay)
        return delay

    def _continue_detach(self, volume: str, operation: Operation) -> Step[AttachmentProgress]:
        """Check that the node does not use the volume, and delete the VolumeAttachment. Source: csiAttacher.Detach."""
        name = _attachment_of(volume, operation.node)
        if operation.sent is None:
            if operation.verify:
                error = yield from self._verify(volume, operation.node)
                if error:
                    return AttachmentProgress(error=error)
            if name is None:
                return AttachmentProgress(done=True)
            which = self._attachments.entry(name) or name
            outcome = yield from perform(delete(VOLUME_ATTACHMENTS, which, depends_on=((NODES, operation.node),)))
            if isinstance(outcome, NotFound):
                return AttachmentProgress(done=True)
            if isinstance(outcome, Refused):
                raise CommandError(delete(VOLUME_ATTACHMENTS, name), outcome)
            if not isinstance(outcome, Done):
                text = f"detacher.Detach failed to delete VolumeAttachment [{name}]: {outcome.message}"
                return AttachmentProgress(error=f"{CSI}: {text}")
            operation.sent = self._clock.monotonic()
        return AttachmentProgress(done=True) if name is None else detach_progress(self._attachments.get(name))

    def _verify(self, volume: str, node: str) -> Step[str]:
        """Return why a volume must not be detached now, or "". Source: verifyVolumeIsSafeToDetach."""
        outcome = yield from perform(get_live(NODES, node))
        if isinstance(outcome, NotFound):
            return ""
        if not isinstance(outcome, Done):
            return f"DetachVolume failed fetching node from API server: {outcome.message}"
        in_use = (decode_object(outcome.body).get("status") or {}).get("volumesInUse") or ()
        return "volume is still in use by node, according to Node status" if volume in in_use else ""

    def _end_detach(self, volume: str, operation: Operation, error: str, now: float) -> Step[float]:
        """Record the result of a detachment. Source: GenerateDetachVolumeFunc."""
        node = operation.node
        if error:
            self.actual.attach(volume, node, spec=operation.spec, confirmed=False)
            delay = self.operations.fail(operation, now)
            self._log.error("DetachVolume.Detach failed", volume=volume, node=node, error=error, retry_after=delay)
            return delay
        self.operations.succeeded(volume, operation)
        self.actual.detach(volume, node)
        self._log.info("DetachVolume.Detach succeeded", volume=volume, node=node)
        yield from ()
        return math.inf

    def _observe_operation(self, volume: str, operation: Operation, *, succeeded: bool, now: float) -> None:
        names = split_unique_name(volume)
        plugin = operation.spec.qualified_plugin if operation.spec is not None else names.plugin if names else ""
        status = "success" if succeeded else "fail-unknown"
        migrated = "true" if operation.spec is not None and operation.spec.migrated else "false"
        series = self._metrics.histogram(STORAGE_OPERATION, plugin, operation.kind.value, status, migrated)
        series.observe(now - operation.begun)

    # Passes.

    def populate(self) -> Reconciliation:
        """Correct the desired state. Source: desiredStateOfWorldPopulator.

        Pods that no longer exist are removed, and volumes that no longer have to be attached. Every 3 minutes the
        volumes of all pods are resolved again.
        """
        self._start()
        affected = []
        for key in self.desired.pods():
            pod = self._pods.entry(key)
            ended = pod is None or pod.facts.stopped or pod.facts.phase in ("Failed", "Succeeded")
            for uid in self.desired.uids(key):
                if ended or pod is None or pod.uid != uid:
                    self._log.info(
                        "Removing pod from dsw because it does not exist in pod informer", v=1, podName=key, podUID=uid
                    )
                    affected += self.desired.remove_pod(key, uid)
        for node, volume, spec in self.desired.volumes():
            if not is_attachable(self._tables, spec):
                self._log.info("Volume changes from attachable to non-attachable", volumeName=volume)
                self.desired.remove_volume(volume, node)
                affected.append(volume)
        now = self._clock.monotonic()
        if now - self._pods_added >= ADD_PODS:
            self._pods_added = now
            for entry in self._pods.indexed_entries(VOLUMES, ANY):
                affected += self._observe_pod(entry.key)
        yield from self._enqueue(affected)
        return None

    def verify(self) -> Reconciliation:
        """Check that the volumes which are recorded as attached still have their VolumeAttachments.

        Source: syncStates, csiAttacher.VolumesAreAttached.
        """
        self._start()
        if not self._verifies:
            return None
        begun, nodes = self._clock.monotonic(), set()
        for node, volume in list(self.actual.attached()):
            spec = self.actual.spec(volume)
            if spec is None:
                self._log.error(
                    "VerifyVolumesAreAttached.GenerateVolumesAreAttachedFunc: nil spec for volume", volume=volume
                )
                continue
            nodes.add(node)
            if spec.plugin != CSI or not requires_attach(self._drivers.get(spec.driver)):
                continue
            attached = yield from self._is_attached(volume, node)
            if not attached and self.actual.state(volume, node) is AttachState.ATTACHED:
                self.actual.detach(volume, node)
                self._log.info(
                    "VerifyVolumesAreAttached determined volume is no longer attached to node, therefore it was marked "
                    "as detached.",
                    v=1,
                    volume=volume,
                    node=node,
                )
                yield Enqueue(NODE_QUEUE, node)
                yield Enqueue(VOLUME_QUEUE, volume)
        for _ in nodes:
            series = self._metrics.histogram(
                STORAGE_OPERATION, "<n/a>", "verify_volumes_are_attached_per_node", "success", "false"
            )
            series.observe(self._clock.monotonic() - begun)
        return None

    def _is_attached(self, volume: str, node: str) -> Step[bool]:
        name = _attachment_of(volume, node)
        if name is None:
            return False
        attachment = self._attachments.get(name)
        if attachment is None:
            outcome = yield from perform(get_live(VOLUME_ATTACHMENTS, name))
            attachment = decode_object(outcome.body) if isinstance(outcome, Done) else {}
        return is_attached(attachment)

    # Metrics.

    def _count_in_use(self, key: Key, node: str, plugins: Sequence[str]) -> None:
        """Count the volumes of a pod in storage_count_attachable_volumes_in_use. Source: getVolumeInUseCount."""
        before = self._plugins.pop(key, ())
        after = tuple((node, plugin) for plugin in plugins)
        if after:
            self._plugins[key] = after
        self._in_use.subtract(before)
        self._in_use.update(after)
        for labels in {*before, *after}:
            if self._in_use[labels]:
                self._metrics.gauge(IN_USE_VOLUMES, *labels).set(self._in_use[labels])
            else:
                del self._in_use[labels]
                self._metrics.remove(IN_USE_VOLUMES, *labels)

    def _show_counts(self) -> None:
        """Show attachdetach_controller_total_volumes. Source: getTotalVolumesCount."""
        states = (("desired_state_of_world", self.desired.counts), ("actual_state_of_world", self.actual.counts))
        for state, counts in states:
            for plugin, count in list(counts.items()):
                if count:
                    self._metrics.gauge(TOTAL_VOLUMES, plugin, state).set(count)
                else:
                    del counts[plugin]
                    self._metrics.remove(TOTAL_VOLUMES, plugin, state)


def new_attachment(name: str, node: str, spec: VolumeSpec) -> Object:
    """Return the VolumeAttachment for a CSI volume on a node."""
    source = {"persistentVolumeName": spec.name} if spec.inline is None else {"inlineVolumeSpec": spec.inline}
    return {"metadata": {"name": name}, "spec": {"attacher": spec.driver, "nodeName": node, "source": source}}


def _attachment_of(volume: str, node: str) -> str | None:
    source = source_of(volume)
    return None if source is None else attachment_name(source, node)


def _detach_problem(volume: str) -> str:
    """Return why a volume cannot be detached, or "". Source: GenerateDetachVolumeFunc."""
    names = split_unique_name(volume)
    if names is None:
        return f"cannot split volume unique name {volume} to plugin/volume components"
    if names.plugin not in (CSI, FC, ISCSI):
        return f"no volume plugin matched name: {names.plugin}"
    if names.plugin == CSI and source_of(volume) is None:
        return "volumeName missing expected data"
    return ""


def _reference(pod: Object) -> PodReference:
    return PodReference(
        namespace=namespace_of(pod), name=name_of(pod), uid=uid_of(pod), resource_version=resource_version_of(pod)
    )


def _event(pod: PodReference, type: Any, reason: str, message: str) -> Record:
    return record(PODS, pod.about, type, reason, message)
