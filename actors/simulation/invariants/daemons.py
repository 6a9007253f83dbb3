"""No node gets a further pod of a DaemonSet that has one there, but the one that a surge allows."""

from __future__ import annotations

from actors.controllers.workloads.daemonset.fields import HASH_LABEL
from actors.simulation import SimulatedCluster
from actors.simulation.invariants.observing import Committed, Fail, Handled, Observation
from actors.simulation.invariants.ownership import storage_of
from protocols.late_methods import dataclass
from protocols.objects import controller_of, decode_object, key_of, uid_of
from protocols.pods import is_active, pod_facts
from protocols.resources import DAEMONSETS
from runtime.apiserver.storage.store import ADDED, DELETED, Change

CLIENT = "daemon-set-controller"


@dataclass(frozen=True, slots=True)
class _Pod:
    key: str
    owner: str  # uid
    node: str
    hash: str


class OneDaemonPodOnANode:
    """At the moment in which the server creates a pod for a DaemonSet there is no other active one on its node.

    With a surge there may be one of another template. A DaemonSet that surged at any time may do so: its controller may
    not have seen the change yet. Pods that users made count once they are adopted.
    """

    name = "a DaemonSet has one pod on a node"
    observes = (Committed, Handled)

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._pods: dict[str, _Pod] = {}  # active ones of DaemonSets, by uid
        self._surging: set[str] = set()  # uids of DaemonSets

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Committed(changes):
                for change in changes:
                    self._note(change)
            case Handled(client=client, changes=changes) if client == CLIENT:
                for change in changes:
                    if change.storage == "pods" and change.type == ADDED:
                        self._judge(uid_of(decode_object(change.raw)), fail)

    def _note(self, change: Change) -> None:
        if change.storage == storage_of(DAEMONSETS):
            obj = decode_object(change.raw)
            rolling = (obj["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
            if rolling.get("maxSurge") not in (None, 0, "0%"):
                self._surging.add(uid_of(obj))
        elif change.storage == "pods":
            pod = decode_object(change.raw)
            owner, facts = controller_of(pod), pod_facts(pod)
            if change.type == DELETED or owner is None or owner.kind != DAEMONSETS.kind or not is_active(facts):
                self._pods.pop(uid_of(pod), None)
            else:
                self._pods[uid_of(pod)] = _Pod(key_of(pod), owner.uid, facts.target, facts.labels.get(HASH_LABEL) or "")

    def _judge(self, uid: str, fail: Fail) -> None:
        made = self._pods.get(uid)
        if made is None:
            return
        beside = [
            pod
            for other, pod in self._pods.items()
            if other != uid and (pod.owner, pod.node) == (made.owner, made.node)
        ]
        if made.owner in self._surging:
            beside = [pod for pod in beside if pod.hash == made.hash]
        if beside:
            fail(f"{made.key} is created on {made.node}, where {sorted(pod.key for pod in beside)} run already")
