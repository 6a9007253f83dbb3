"""Invariants of the hollow nodes' volumes: reported and attached before they are used, and reported while used."""

from __future__ import annotations

from collections.abc import Iterator

from kcm.actors.hollow.behaviour import has_csi_driver
from kcm.actors.hollow.kubelet.volumes import has_begun, mounted_claims
from kcm.actors.simulation.invariants.observer import Committed, Fail, Handled, Observation, decoded, only
from kcm.protocols.csi import attached_names, csi_source, in_use_names, is_attached, requires_attach
from kcm.protocols.objects import Key, Object, finalizers_of, is_deleting, key_of, name_of, uid_of
from kcm.protocols.pods import is_terminal, pod_facts
from kcm.protocols.volumes import volume_name_of
from kcm.runtime.apiserver.storage.store import DELETED, StoreChange

PODS, NODES, ATTACHMENTS = "pods", "nodes", "volumeattachments.storage.k8s.io"
CLAIMS, VOLUMES, DRIVERS = "persistentvolumeclaims", "persistentvolumes", "csidrivers.storage.k8s.io"
KUBELET, ATTACHER = "hollow-kubelet", "hollow-attacher"


class MountedWhileUsed:
    """Invariant: containers start after their volumes were attached, and use volumes that their node reports in use.

    A volume counts as attached if its node has ever reported it since the pod was bound, because a kubelet reads nodes
    from a cache. The attacher removes its finalizer only from a deleted VolumeAttachment whose volume is detached.
    """

    name = "volumes of hollow pods are attached before they are used, and reported while they are used"
    observes = (only(Committed, PODS, NODES, CLAIMS, VOLUMES, DRIVERS), only(Handled, KUBELET, ATTACHER))

    def __init__(self) -> None:
        self._objects: dict[str, dict[Key, Object]] = {
            storage: {} for storage in (PODS, NODES, CLAIMS, VOLUMES, DRIVERS)
        }
        self._attached: dict[str, set[str]] = {}  # by uid of a pod: names that its node has reported since its binding

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Committed(changes):
                for change in changes:
                    self._committed(change)
            case Handled(client=client, changes=changes) if client == KUBELET:
                for change in changes:
                    self._written_by_kubelet(change, fail)
            case Handled(client=client, changes=changes) if client == ATTACHER:
                for change in changes:
                    if change.storage == ATTACHMENTS and change.previous:
                        _check_release(decoded(change.previous), decoded(change.raw), change.type, fail)

    def _committed(self, change: StoreChange) -> None:
        known = self._objects.get(change.storage)
        if known is None or (change.storage == PODS and b'"persistentVolumeClaim"' not in change.raw):
            return
        if change.type == DELETED:
            gone = known.pop(change.key, None)
            if gone is not None and change.storage == PODS:
                self._attached.pop(uid_of(gone), None)
            return
        obj = known[change.key] = decoded(change.raw)
        if change.storage == PODS:
            node = self._objects[NODES].get(obj["spec"].get("nodeName") or "")
            if node is not None:
                self._attached.setdefault(uid_of(obj), set()).update(attached_names(node))
        elif change.storage == NODES:
            for pod in self._objects[PODS].values():
                if pod["spec"].get("nodeName") == change.key:
                    self._attached.setdefault(uid_of(pod), set()).update(attached_names(obj))

    def _written_by_kubelet(self, change: StoreChange, fail: Fail) -> None:
        if change.type == DELETED or not change.previous:
            return
        if change.storage == PODS and b'"persistentVolumeClaim"' in change.raw:
            before, pod = decoded(change.previous), decoded(change.raw)
            if not has_begun(before) and has_begun(pod):
                self._check_start(pod, fail)
        elif change.storage == NODES:
            before, node = decoded(change.previous), decoded(change.raw)
            for unique in {*in_use_names(before)} - {*in_use_names(node)}:
                for pod in self._objects[PODS].values():
                    if pod["spec"].get("nodeName") == name_of(node) and _runs(pod) and unique in self._volumes_of(pod):
                        fail(f"node {name_of(node)} no longer reports {unique}, which pod {key_of(pod)} uses")

    def _check_start(self, pod: Object, fail: Fail) -> None:
        node = self._objects[NODES].get(pod["spec"].get("nodeName") or "")
        if node is None:
            return
        for unique in self._volumes_of(pod):
            if unique not in in_use_names(node):
                fail(f"pod {key_of(pod)} starts, but its node does not report {unique} in use")
            if unique not in self._attached.get(uid_of(pod), ()):
                fail(f"pod {key_of(pod)} starts, but {unique} was not attached to its node")

    def _volumes_of(self, pod: Object) -> Iterator[str]:
        """Yield the unique names of the attachable volumes that the pod mounts."""
        node = self._objects[NODES].get(pod["spec"].get("nodeName") or "")
        for _, use in mounted_claims(pod):
            claim = self._objects[CLAIMS].get(use.claim)
            found = None if claim is None else self._objects[VOLUMES].get(volume_name_of(claim))
            source = None if found is None else csi_source(found)
            if node is None or source is None:
                continue
            if has_csi_driver(node, source.driver) and requires_attach(self._objects[DRIVERS].get(source.driver)):
                yield source.unique_name


def _runs(pod: Object) -> bool:
    return has_begun(pod) and not is_terminal(pod_facts(pod))


def _check_release(before: Object, after: Object, type: str, fail: Fail) -> None:
    """Fail if the attacher removes its finalizer too early."""
    gone = finalizers_of(before) if type == DELETED else {*finalizers_of(before)} - {*finalizers_of(after)}
    if gone and (not is_deleting(before) or is_attached(before)):
        fail(f"VolumeAttachment {name_of(before)} loses its finalizer, but is attached or not deleted")
