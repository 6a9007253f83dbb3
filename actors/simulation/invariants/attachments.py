"""Invariants of attached volumes: attached to one node at a time, and detached only after they are unused."""

from __future__ import annotations

from collections.abc import Iterator

from kcm.actors.hollow.kubelet.volumes import mounted_claims
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.observer import Committed, Fail, Handled, Observation, decoded, only
from kcm.protocols.conditions import is_true
from kcm.protocols.csi import attached_names, attached_volume, csi_source, in_use_names, is_attached, is_single_node
from kcm.protocols.nodes import has_out_of_service_taint
from kcm.protocols.objects import Key, Object, is_deleting, key_of, make_key, name_of, uid_of
from kcm.protocols.volumes import claim_keys, is_pod_ended, volume_name_of
from kcm.runtime.apiserver.storage.store import ADDED, DELETED, StoreChange

ATTACHMENTS, NODES, PODS = "volumeattachments.storage.k8s.io", "nodes", "pods"
VOLUMES, CLAIMS = "persistentvolumes", "persistentvolumeclaims"
CLIENT = "attachdetach-controller"
UNREADY = 360.0  # seconds after which a volume is detached by force from a node that is not ready


class AttachedWhereAllowed:
    """Invariant: a volume that only one node may use is attached to one node.

    The attach/detach controller does not even request it for a second node while the first one reports it as attached.
    """

    name = "an exclusive volume is attached to one node"
    observes = (only(Committed, VOLUMES, NODES, ATTACHMENTS), only(Handled, CLIENT))

    def __init__(self) -> None:
        self._volumes: dict[str, Object] = {}
        self._nodes: dict[str, Object] = {}
        self._attached: dict[str, dict[str, str]] = {}  # nodes by name of the VolumeAttachment, by name of the volume

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Committed(changes):
                for change in changes:
                    self._committed(change, fail)
            case Handled(client=client, changes=changes) if client == CLIENT:
                for change in changes:
                    if change.storage == ATTACHMENTS and change.type == ADDED:
                        self._requested(decoded(change.raw), fail)

    def _committed(self, change: StoreChange, fail: Fail) -> None:
        if change.storage in (VOLUMES, NODES):
            known = self._volumes if change.storage == VOLUMES else self._nodes
            if change.type == DELETED:
                known.pop(change.key, None)
            else:
                known[change.key] = decoded(change.raw)
        elif change.storage == ATTACHMENTS:
            attachment = decoded(change.raw)
            nodes = self._attached.setdefault(attached_volume(attachment), {})
            nodes.pop(name_of(attachment), None)
            if change.type == DELETED or not is_attached(attachment):
                return
            nodes[name_of(attachment)] = attachment["spec"]["nodeName"]
            if len(nodes) > 1 and self._is_exclusive(attachment):
                fail(f"volume {attached_volume(attachment)} is attached to {' and '.join(sorted(nodes.values()))}")

    def _is_exclusive(self, attachment: Object) -> bool:
        volume = self._volumes.get(attached_volume(attachment))
        return volume is not None and is_single_node(volume)

    def _requested(self, attachment: Object, fail: Fail) -> None:
        if not self._is_exclusive(attachment):
            return
        source = csi_source(self._volumes[attached_volume(attachment)])
        unique = "" if source is None else source.unique_name
        for node in self._nodes.values():
            if name_of(node) != attachment["spec"]["nodeName"] and unique in attached_names(node):
                fail(
                    f"volume {attached_volume(attachment)} is requested for {attachment['spec']['nodeName']}, "
                    f"but {name_of(node)} reports it as attached"
                )


class DetachedWhenUnused:
    """Invariant: the attach/detach controller detaches a volume only after its node stopped reporting and using it.

    When the VolumeAttachment is deleted, the node's volumesAttached does not contain the volume, its volumesInUse does
    not contain it, and no container that mounts it runs on the node. Two nodes are exempt from the conditions about
    use: a node with the taint out-of-service, and a node that is not ready, and has not been for six minutes or has had
    no pod with the volume for as long.

    Use that began after the volume was removed from volumesAttached does not count, because the kubelet reads its node
    from a cache.
    """

    name = "a volume is detached when it is unused, or by force"
    observes = (only(Committed, PODS, NODES, VOLUMES, CLAIMS), only(Handled, CLIENT))

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._clock = cluster.clock
        self._nodes: dict[str, Object] = {}
        self._unready: dict[str, float] = {}  # since when, by name of the node; also of deleted nodes
        self._volumes: dict[str, Object] = {}
        self._claims: dict[Key, Object] = {}
        self._pods: dict[str, Object] = {}  # pods with claims, by uid
        self._released: dict[tuple[str, Key], float] = {}  # when the last pod with a claim left a node
        self._started: dict[str, int] = {}  # revision at which a container of the pod ran, by uid
        self._withdrawn: dict[tuple[str, str], int] = {}  # revision at which a node stopped reporting a volume
        self._in_use: dict[tuple[str, str], int] = {}  # revision since which a kubelet reports a volume as in use

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Committed(changes):
                for change in changes:
                    self._committed(change)
            case Handled(client=client, changes=changes) if client == CLIENT:
                for change in changes:
                    if change.storage == ATTACHMENTS and change.previous:
                        self._changed(change, fail)

    def _committed(self, change: StoreChange) -> None:
        kinds = {NODES: self._nodes, VOLUMES: self._volumes, CLAIMS: self._claims}
        if change.storage == PODS:
            if b'"persistentVolumeClaim"' in change.raw or b'"ephemeral"' in change.raw:
                pod = decoded(change.raw)
                before = self._pods.pop(uid_of(pod), None)
                if change.type != DELETED:
                    self._pods[uid_of(pod)] = pod
                for claim in () if before is None or is_pod_ended(before) else claim_keys(pod):
                    self._released[pod["spec"].get("nodeName") or "", claim] = self._clock.monotonic()
                if _runs(pod):
                    self._started.setdefault(uid_of(pod), change.revision)
            return
        known = kinds.get(change.storage)
        if known is None:
            return
        obj = decoded(change.raw)
        if change.type == DELETED:
            known.pop(change.key, None)
        else:
            known[change.key] = obj
        if change.storage == NODES:
            if change.previous:
                previous = decoded(change.previous)
                for unique in attached_names(previous) - attached_names(obj):
                    self._withdrawn[change.key, unique] = change.revision
                for unique in {*in_use_names(obj)} - {*in_use_names(previous)}:
                    self._in_use[change.key, unique] = change.revision
            if change.type != DELETED and _is_ready(obj):
                self._unready.pop(change.key, None)
            else:
                self._unready.setdefault(change.key, self._clock.monotonic())

    def _changed(self, change: StoreChange, fail: Fail) -> None:
        before, after = decoded(change.previous), decoded(change.raw)
        if is_deleting(before) or not (change.type == DELETED or is_deleting(after)):
            return
        name, volume = before["spec"]["nodeName"], self._volumes.get(attached_volume(before))
        source, node = None if volume is None else csi_source(volume), self._nodes.get(name)
        if volume is None or source is None:
            return
        if node is not None and source.unique_name in attached_names(node):
            fail(f"volume {name_of(volume)} is detached from {name}, which reports it as attached")
        if node is not None and has_out_of_service_taint(node):
            return
        if name in self._unready:
            reference = volume["spec"].get("claimRef") or {}
            claim = make_key(reference.get("namespace") or "", reference.get("name") or "")
            now = self._clock.monotonic()
            released = now if self._has_pods(name, claim) else self._released.get((name, claim), now)
            if now - min(self._unready[name], released) > UNREADY:
                return
        withdrawn = self._withdrawn.get((name, source.unique_name), 0)
        in_use = node is not None and source.unique_name in in_use_names(node)
        if in_use and self._in_use.get((name, source.unique_name), 0) < withdrawn:
            fail(f"volume {name_of(volume)} is detached from {name}, whose kubelet uses it")
        for pod in self._users(name, volume):
            if self._started[uid_of(pod)] > withdrawn:
                continue
            fail(f"volume {name_of(volume)} is detached from {name}, but pod {key_of(pod)} uses it")

    def _has_pods(self, node: str, claim: Key) -> bool:
        pods = (pod for pod in self._pods.values() if pod["spec"].get("nodeName") == node and not is_pod_ended(pod))
        return any(claim in claim_keys(pod) for pod in pods)

    def _users(self, node: str, volume: Object) -> Iterator[Object]:
        """Yield the pods on the node whose containers mount the volume, and run.

        A pod that mounts it nowhere starts without it, and its kubelet does not report it in use. Such a pod may start
        just before the controller detaches the volume, because it was deleted.
        """
        reference = (volume["spec"].get("claimRef") or {}).get("uid")
        for pod in self._pods.values():
            if pod["spec"].get("nodeName") != node or is_pod_ended(pod) or not _runs(pod):
                continue
            for _, use in mounted_claims(pod):
                claim = self._claims.get(use.claim)
                if claim is not None and uid_of(claim) == reference and volume_name_of(claim) == name_of(volume):
                    yield pod


def _is_ready(node: Object) -> bool:
    return is_true((node.get("status") or {}).get("conditions"), "Ready")


def _runs(pod: Object) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return any((status.get("state") or {}).get("running") is not None for status in statuses)
