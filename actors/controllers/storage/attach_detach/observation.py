"""Observation of the cluster by the attach/detach controller: fills the desired and the actual state.

Source: kubernetes v1.36 pkg/controller/volume/attachdetach/attach_detach_controller.go, and populator/
desired_state_of_world_populator.go.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kcm.actors.controllers.storage.attach_detach.metrics import VolumeMetrics
from kcm.actors.controllers.storage.attach_detach.state import ActualState, AttachState, DesiredState, PodReference
from kcm.actors.controllers.storage.attach_detach.volume_specs import (
    ANY,
    VOLUMES,
    VolumeSpec,
    is_attachable,
    of_persistent_volume,
    of_pod_volume,
)
from kcm.protocols.objects import Key, Object, name_of, namespace_of, resource_version_of, uid_of
from kcm.protocols.resources import NODES, PERSISTENT_VOLUMES, PODS, VOLUME_ATTACHMENTS
from kcm.protocols.volumes import is_pod_ended
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

ADD_PODS = 180.0  # seconds between passes that resolve the volumes of all pods
MALFORMED = (ValueError, TypeError, AttributeError, KeyError)  # raised by code that reads a malformed object


class WorldObserver:
    """WorldObserver of nodes, VolumeAttachments and pods. `desired` and `actual` are what it has observed."""

    def __init__(self, *, tables: Tables, clock: Clock, log: FilteringBoundLogger, metrics: VolumeMetrics) -> None:
        self.desired, self.actual = DesiredState(), ActualState()
        self._tables, self._clock, self._log, self._metrics = tables, clock, log, metrics
        self._pods, self._nodes = tables[PODS], tables[NODES]
        self._volumes, self._attachments = tables[PERSISTENT_VOLUMES], tables[VOLUME_ATTACHMENTS]
        self._started = False
        self._pods_added = -math.inf  # monotonic time of the last pass over all pods

    def begin(self) -> None:
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
            self.observe_node(node)  # replaces the assumption that these volumes are in use
        for attachment in self._attachments.objects():
            try:
                self._recover(attachment)
            except MALFORMED as err:
                self._log.warning("VolumeAttachment cannot be read", attachment=name_of(attachment), error=str(err))
        for pod in self._pods.indexed_entries(VOLUMES, ANY):
            self.observe_pod(pod.key)
        self._pods_added = self._clock.monotonic()
        for name, volume, spec in self.desired.volumes():
            if self.actual.state(volume, name) is AttachState.ATTACHED:
                path = self.actual.device_path(volume)
                self.actual.attach(volume, name, spec=spec, device_path=path, confirmed=True)
        self._metrics.show_totals(self.desired, self.actual)

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

    def observe_pod(self, key: Key) -> list[str]:
        """Update the desired state from one pod. Return the volumes that it uses, or has used until now."""
        entry = self._pods.entry(key)
        pod = None if entry is None else self._pods.object_of(entry)
        uid = "" if pod is None or is_pod_ended(pod) else uid_of(pod)
        affected = [name for old in self.desired.uids(key) if old != uid for name in self.desired.remove_pod(key, old)]
        if pod is None:
            self._metrics.count_in_use(key, "", ())
            return affected
        node, specs = (pod.get("spec") or {}).get("nodeName") or "", list(self._specs_of(pod))
        for spec in specs if uid and self.desired.has_node(node) else ():
            if is_attachable(self._tables, spec):
                self.desired.add(_reference(pod), spec, node)
                affected.append(spec.unique_name)
        self._metrics.count_in_use(key, node, [spec.qualified_plugin for spec in specs if spec.plugin])
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

    def observe_node(self, node: Entry) -> bool:
        """Record a node's volumes in use. Return True if the controller begins to attach volumes for the node."""
        self.actual.observe_node(node.key, node.facts.volumes_in_use, node.resource_version)
        return node.facts.attaches_for and self.desired.add_node(node.key)

    def correct(self) -> list[str]:
        """Correct the desired state, and return the volumes to reconcile. See AttachDetach.populate."""
        affected = self._volumes_of_deleted_nodes()
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
                affected += self.observe_pod(entry.key)
        return affected

    def _volumes_of_deleted_nodes(self) -> list[str]:
        return [
            volume
            for volume in self.actual.volumes()
            for node in self.actual.nodes_of(volume)
            if self._nodes.entry(node) is None and self.desired.get(volume, node) is None
        ]


def _reference(pod: Object) -> PodReference:
    return PodReference(
        namespace=namespace_of(pod), name=name_of(pod), uid=uid_of(pod), resource_version=resource_version_of(pod)
    )
