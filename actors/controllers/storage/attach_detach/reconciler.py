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
- The patch of a node's status has the node's uid as precondition, and is omitted if it changes nothing. Before a volume
  is detached, however, a patch must have succeeded, even if the node in the table does not report the volume: the table
  may be older than a patch whose response was lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kcm.actors.controllers.storage.attach_detach.decisions import (
    Detachment,
    attachment_of,
    conflict_texts,
    decide_detachment,
    detach_problem,
    status_with,
)
from kcm.actors.controllers.storage.attach_detach.metrics import VolumeMetrics
from kcm.actors.controllers.storage.attach_detach.observation import WorldObserver
from kcm.actors.controllers.storage.attach_detach.operation_executor import (
    NODE_QUEUE,
    OperationExecutor,
    pod_event,
)
from kcm.actors.controllers.storage.attach_detach.state import (
    AttachState,
    DesiredVolume,
    Operation,
    OperationKind,
    Operations,
)
from kcm.actors.controllers.storage.attach_detach.volume_specs import (
    ANY,
    CSI,
    VOLUMES,
)
from kcm.actors.controllers.storage.shared.pods_by_claim import CLAIMS
from kcm.actors.reconciliation import (
    Because,
    Enqueue,
    Reconciliation,
    RequeueAfter,
    Step,
    get_live,
    merge_status,
    must,
    perform,
)
from kcm.actors.reconciliation.derived import NODE
from kcm.protocols.csi import is_attached, requires_attach
from kcm.protocols.integers import counted
from kcm.protocols.messages.outcomes import Done, NotFound
from kcm.protocols.objects import (
    Key,
    Object,
    decode_object,
    name_of,
)
from kcm.protocols.resources import (
    CSI_DRIVERS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    VOLUME_ATTACHMENTS,
)
from kcm.protocols.volumes import phase_of, volume_name_of
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

VOLUME_QUEUE, POD_QUEUE = "volume_attachments", "attachable_pods"
IN_USE_POLL = 10.0  # seconds after which a node that uses a volume is evaluated again, in case that was only assumed
UNKNOWN_PLUGIN_RETRY = 120.0  # seconds after which a detachment that cannot start is retried
_ENDED = {OperationKind.ATTACH: "attached to", OperationKind.DETACH: "detached from"}


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
        self._tables, self._clock, self._log, self._metrics = tables, clock, log, VolumeMetrics(metrics)
        self._pods, self._nodes = tables[PODS], tables[NODES]
        self._claims, self._volumes = tables[PERSISTENT_VOLUME_CLAIMS], tables[PERSISTENT_VOLUMES]
        self._attachments, self._drivers = tables[VOLUME_ATTACHMENTS], tables[CSI_DRIVERS]
        self._force_on_timeout, self._verifies = force_on_timeout, verifies
        self._written: set[str] = set()  # nodes whose status was patched, since when no patch has failed
        self._observer = WorldObserver(tables=tables, clock=clock, log=log, metrics=self._metrics)
        self.desired, self.actual, self.operations = self._observer.desired, self._observer.actual, Operations()
        self._executor = OperationExecutor(
            tables=tables,
            clock=clock,
            log=log,
            metrics=self._metrics,
            actual=self.actual,
            operations=self.operations,
        )

    # Queue of pods, and of their claims.

    def sync_pod(self, key: Key) -> Reconciliation:
        """Update the volumes that the node of a pod needs, and enqueue them. Source: podAdd, podDelete."""
        self._observer.begin()
        yield from self._enqueue(self._observer.observe_pod(key))
        return None

    def sync_claim(self, key: Key) -> Reconciliation:
        """Resolve the volumes of the pods that use a bound claim. Source: syncPVCByKey."""
        self._observer.begin()
        claim = self._claims.get(key)
        if claim is None or phase_of(claim) != "Bound" or not volume_name_of(claim):
            return None
        for pod in self._pods.indexed_entries(CLAIMS, key):
            yield from self._enqueue(self._observer.observe_pod(pod.key))
        return None

    def _enqueue(self, volumes: Iterable[str]) -> Step[None]:
        self._metrics.show_totals(self.desired, self.actual)
        for volume in dict.fromkeys(volumes):
            yield Enqueue(VOLUME_QUEUE, volume)

    # Queue of nodes.

    def sync_node(self, name: Key) -> Reconciliation:
        """Observe a node, and patch volumesAttached in its status. Source: nodeAdd, nodeUpdate, updateNodeStatus."""
        self._observer.begin()
        node = self._nodes.entry(name)
        if node is None:
            if not self.desired.remove_node(name):
                self._log.info("Error removing node from desired-state-of-world", node=name)
        else:
            if self._observer.observe_node(node):
                for pod in self._pods.indexed_entries(NODE, name):
                    if (VOLUMES, ANY) in pod.values:
                        yield Enqueue(POD_QUEUE, pod.key)
            yield from self._report(self._nodes.object_of(node))
        for volume in self.actual.volumes_on(name):
            if self.desired.get(volume, name) is None:
                yield Enqueue(VOLUME_QUEUE, volume)
        return None

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
        self._observer.begin()
        volume = self._executor.volume_of(name)
        if volume is not None:
            yield Enqueue(VOLUME_QUEUE, volume)
        return None

    # Queue of volumes.

    def sync_volume(self, name: Key) -> Reconciliation:
        """Detach a volume from nodes that no longer need it, and attach it to nodes that do. Source: reconcile."""
        self._observer.begin()
        wait = math.inf
        for operation in self.operations.pending(name):
            wait = min(wait, (yield from self._executor.advance(name, operation)))
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
        self._metrics.show_totals(self.desired, self.actual)
        return None if math.isinf(wait) else RequeueAfter(wait)

    def _attach(self, volume: str, node: str, desired: DesiredVolume) -> Step[float]:
        """Begin to attach a volume unless it is attached, or must not be attached to this node as well.

        Returns the seconds until the volume is reconciled again, infinite without a limit.

        Source: attachDesiredVolumes.
        """
        lock = node if desired.spec.shared else ""
        known = self.operations.find(volume, lock)
        if known is not None and known.pending:
            yield Because(f"waits until it is {_ENDED[known.kind]} node {known.node}")
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
            yield Because(f"cannot be attached to node {node}: Multi-Attach, it is attached to {', '.join(others)}")
            yield from self._report_conflict(volume, desired, others)
            return math.inf
        now = self._clock.monotonic()
        delay = self.operations.delay(volume, lock, OperationKind.ATTACH, now)
        if delay > 0:
            yield Because(f"attaching it to node {node} failed: tries again in {delay:.0f} s")
            return delay
        yield Because(f"is needed by {counted(len(desired.pods), 'pod')} on node {node}: attaches it")
        pods = tuple(desired.pods.values())
        operation = Operation(kind=OperationKind.ATTACH, node=node, lock=lock, spec=desired.spec, pods=pods, begun=now)
        self._executor.begin(volume, operation)
        self._log.info(
            "attacherDetacher.AttachVolume started",
            volumeName=volume,
            nodeName=node,
            scheduledPods=[pod.key for pod in pods],
        )
        return (yield from self._executor.advance(volume, operation))

    def _report_conflict(self, volume: str, desired: DesiredVolume, nodes: list[str]) -> Step[None]:
        if desired.conflict_reported:
            return
        desired.conflict_reported = True
        users = self.desired.pods_on(nodes, volume)
        for pod, text in conflict_texts(desired.spec, desired.pods.values(), users):
            yield pod_event(pod, "Warning", "FailedAttachVolume", text)
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
        """Begin to detach a volume from a node if it may be detached now.

        Returns the seconds until the volume is reconciled again, infinite without a limit.
        """
        spec = self.actual.spec(volume)
        lock = node if spec is None or spec.shared else ""
        known = self.operations.find(volume, lock)
        if known is not None and known.pending:
            yield Because(f"waits until it is {_ENDED[known.kind]} node {known.node}")
            return math.inf
        now = self._clock.monotonic()
        delay = self.operations.delay(volume, lock, OperationKind.DETACH, now)
        if delay > 0:
            yield Because(f"detaching it from node {node} failed: tries again in {delay:.0f} s")
            return delay
        decision = self._decide_detachment(volume, node, now)
        if decision.wait > 0:
            yield Because(f"node {node} still uses it: waits up to {decision.wait:.0f} s for its unmount")
            entry = self._nodes.entry(node)
            is_reported = entry is None or volume in entry.facts.volumes_in_use  # then a change of the node enqueues it
            return decision.wait if is_reported else min(decision.wait, IN_USE_POLL)
        problem = detach_problem(volume)
        if problem:
            self._log.error(
                "attacherDetacher.DetachVolume failed to start", node=node, volumeName=volume, error=problem
            )
            return UNKNOWN_PLUGIN_RETRY
        self.actual.stop_reporting(volume, node)
        if self._is_reported(volume, node):
            yield Because(f"is detached when node {node} no longer reports it in status.volumesAttached")
            yield Enqueue(NODE_QUEUE, node)  # it enqueues the volume again, when it has patched the node
            return math.inf
        operation = Operation(
            kind=OperationKind.DETACH, node=node, lock=lock, spec=spec, verify=not decision.reason, begun=now
        )
        yield Because(
            f"no pod on node {node} needs it: detaches it{' by force: ' + decision.reason if decision.reason else ''}"
        )
        self._executor.begin(volume, operation)
        self._log_detachment(volume, node, decision.reason)
        return (yield from self._executor.advance(volume, operation))

    def _decide_detachment(self, volume: str, node: str, now: float) -> Detachment:
        entry = self._nodes.entry(node)
        if entry is not None:
            self._observer.observe_node(entry)
        return decide_detachment(
            elapsed=self.actual.request_detach(volume, node, now),
            in_use=self.actual.is_in_use(volume, node),
            ready=entry is not None and entry.facts.ready == "True",
            out_of_service=entry is not None and entry.facts.out_of_service,
            force_on_timeout=self._force_on_timeout,
        )

    def _is_reported(self, volume: str, node: str) -> bool:
        """Report whether the status of the node may still contain a volume that will be detached.

        The table shows this only after a patch has succeeded: a patch that is in flight or has failed, or that an
        earlier incarnation sent, may have added the volume on the server.
        """
        entry = self._nodes.entry(node)
        if entry is None or self.actual.reports_about(node) is None:
            return False
        return volume in entry.facts.volumes_attached or node not in self._written

    def _log_detachment(self, volume: str, node: str, reason: str) -> None:
        if not reason:
            self._log.info("attacherDetacher.DetachVolume started", node=node, volumeName=volume)
            return
        self._metrics.count_forced_detachment(reason)
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

    # Passes.

    def populate(self) -> Reconciliation:
        """Correct the desired state. Source: desiredStateOfWorldPopulator.

        Pods that no longer exist are removed, and volumes that no longer have to be attached. Every 3 minutes the
        volumes of all pods are resolved again.

        Unused volumes of deleted nodes are enqueued: after a restart no change of such a node does so.
        """
        self._observer.begin()
        affected = self._observer.correct()
        yield from self._enqueue(affected)
        return None

    def verify(self) -> Reconciliation:
        """Check that the volumes which are recorded as attached still have their VolumeAttachments.

        Source: syncStates, csiAttacher.VolumesAreAttached.
        """
        self._observer.begin()
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
            self._metrics.observe_verification(self._clock.monotonic() - begun)
        return None

    def _is_attached(self, volume: str, node: str) -> Step[bool]:
        name = attachment_of(volume, node)
        if name is None:
            return False
        attachment = self._attachments.get(name)
        if attachment is None:
            outcome = yield from perform(get_live(VOLUME_ATTACHMENTS, name))
            attachment = decode_object(outcome.body) if isinstance(outcome, Done) else {}
        return is_attached(attachment)
