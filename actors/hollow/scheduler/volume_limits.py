"""Limits of CSI volumes per node, and claims that only one pod may use.

Source: kubernetes v1.36 pkg/scheduler/framework/plugins/nodevolumelimits/csi.go, plugins/volumerestrictions. Not
supported: volumes of in-tree plugins, and the feature gate VolumeLimitScaling.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kcm.actors.hollow.attacher import ON_NODE
from kcm.actors.hollow.scheduler.node_fit import NodeUsage
from kcm.actors.hollow.scheduler.placements import Placements
from kcm.actors.reconciliation import Change, Interest, Watch
from kcm.protocols.csi import READ_WRITE_ONCE_POD, CsiSource, attach_limits, attached_volume, csi_source
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, Object
from kcm.protocols.resources import (
    CSI_NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
)
from kcm.protocols.volumes import class_of, volume_name_of
from kcm.runtime.tables.tables import Tables

TOO_MANY_VOLUMES = "node(s) exceed max volume count"
USED_BY_ANOTHER_POD = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


class VolumeLimits:
    def __init__(self, tables: Tables) -> None:
        self._claims, self._volumes = tables[PERSISTENT_VOLUME_CLAIMS], tables[PERSISTENT_VOLUMES]
        self._classes, self._attachments = tables[STORAGE_CLASSES], tables[VOLUME_ATTACHMENTS]
        self._csi_nodes = tables[CSI_NODES]

    def is_used_by_another_pod(self, pod: Mapping[str, Any], placements: Placements) -> bool:
        """Report whether a pod that is placed uses a ReadWriteOncePod claim of this pod, which is not placed."""
        for volume in (pod.get("spec") or {}).get("volumes") or ():
            name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            key = f"{pod['metadata'].get('namespace')}/{name}"
            claim = self._claims.get(key) if name and placements.claims[key] else None
            if claim is not None and READ_WRITE_ONCE_POD in (claim["spec"].get("accessModes") or ()):
                return True
        return False

    def volumes_of(self, claims: Iterable[Key]) -> frozenset[CsiSource]:
        """Return the CSI volumes of claims.

        A volume that is not provisioned yet is counted for the provisioner of its class; its handle is the claim.
        """
        return frozenset(self._sources(claims))

    def _sources(self, claims: Iterable[Key]) -> Iterator[CsiSource]:
        for key in claims:
            claim = self._claims.get(key)
            if claim is None:
                continue
            volume = self._volumes.get(volume_name_of(claim)) if volume_name_of(claim) else None
            if volume is not None:
                source = csi_source(volume)
            else:
                class_ = self._classes.get(class_of(claim)) if class_of(claim) else None
                source = CsiSource(class_.get("provisioner") or "", key) if class_ is not None else None
            if source is not None and source.driver and source.handle:
                yield source

    def exceeds(self, volumes: frozenset[CsiSource], node: str, usage: NodeUsage) -> bool:
        """Report whether the node cannot attach these volumes of a pod in addition to those of its present pods."""
        limits = attach_limits(self._csi_nodes.get(node)) if volumes else None
        if not limits:
            return False
        used = self.volumes_of(claim for claim, count in usage.claims.items() if count > 0)
        return exceeded(volumes, used, frozenset(self._attached(node)), limits)

    def _attached(self, node: str) -> Iterator[CsiSource]:
        for attachment in self._attachments.indexed(ON_NODE, node):
            volume = self._volumes.get(attached_volume(attachment))
            source = None if volume is None else csi_source(volume)
            if source is not None:
                yield CsiSource(attachment["spec"].get("attacher") or "", source.handle)


def exceeded(
    new: frozenset[CsiSource],
    used: frozenset[CsiSource],
    attached: frozenset[CsiSource],
    limits: Mapping[str, int],
) -> bool:
    """Report whether the volumes of a driver exceed its limit.

    new: volumes of the pod.
    used: volumes of the pods on the node.
    attached: volumes with a VolumeAttachment to the node, which count even if no pod uses them.
    """
    counts = Counter(source.driver for source in used | attached)
    wanted = Counter(source.driver for source in new - used)
    return any(counts[driver] + count > limits[driver] for driver, count in wanted.items() if driver in limits)


def limit_watches(waiting: Callable[[Tables], Iterable[Key]]) -> tuple[Watch[Key], ...]:
    """Return the watches of changes after which more volumes fit a node. waiting: keys of all unassigned pods."""

    def after_csi_node(change: Change, tables: Tables) -> Iterable[Key]:
        if change.deleted or (change.old is not None and not _is_raised(change.old, change.new)):
            return ()
        return waiting(tables)

    def after_detachment(_change: Change, tables: Tables) -> Iterable[Key]:
        return waiting(tables)

    gone = Interest(types=(EventType.DELETED,))
    return (
        Watch(CSI_NODES, to=after_csi_node),
        Watch(VOLUME_ATTACHMENTS, to=after_detachment, interest=gone),
    )


def _is_raised(old: Object, new: Object) -> bool:
    before = attach_limits(old)
    return any(limit > before.get(driver, 0) for driver, limit in attach_limits(new).items())
