"""Plan of the pods to create and delete on each node, apart from rolling updates.

Source: kubernetes v1.36 pkg/controller/daemon/daemon_controller.go (podsShouldBeOnNode,
getUnscheduledPodsWithoutNode). Difference: while the deletion of a failed pod is delayed, its node gets no further pod
even if the strategy allows surge; upstream creates pod after pod there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from msgspec import Struct, field

from kcm.actors.controllers.workloads.daemonset.objects import HASH_LABEL, DaemonSet
from kcm.actors.controllers.workloads.daemonset.placement import NodeVerdict
from kcm.protocols.messages.events import RecordType
from kcm.protocols.objects import split_key
from kcm.protocols.pods import is_available
from kcm.runtime.tables.table import Entry

NodePods = Mapping[str, Sequence[Entry]]


class DaemonSetPlan(Struct):
    """The pods to create and delete in one sync of a DaemonSet."""

    create: list[str] = field(default_factory=list)  # names of nodes
    delete: list[Entry] = field(default_factory=list)  # pods
    events: list[tuple[RecordType, str, str]] = field(default_factory=list)  # (type, reason, message)
    failed: list[str] = field(default_factory=list)  # nodes with a failed pod in `delete`
    wait: float | None = None  # seconds until the next failed pod may be deleted

    @property
    def is_empty(self) -> bool:
        return not self.create and not self.delete


def by_node(pods: Iterable[Entry]) -> dict[str, list[Entry]]:
    """Group pods by their node, or by the node that they require if they are not bound yet. Each group is in pod_order.

    Omits pods without a node, and terminal pods that are being deleted.
    """
    # This runs for every pod at every sync, and nearly all nodes have one pod.
    found: dict[str, list[Entry]] = {}
    shared: set[str] = set()  # nodes with several pods
    for pod in pods:
        facts = pod.facts
        node = facts.target
        if not node or (facts.deleting and facts.phase in ("Failed", "Succeeded")):
            continue
        on_node = found.get(node)
        if on_node is None:
            found[node] = [pod]
        else:
            on_node.append(pod)
            shared.add(node)
    for node in shared:
        found[node].sort(key=pod_order)
    return found


def pod_order(pod: Entry) -> tuple[bool, float, str]:
    """Return a sort key that orders pods bound to a node first, then older pods.

    Source: podByCreationTimestampAndPhase.
    """
    facts = pod.facts
    return facts.node == "", facts.created or 0.0, pod.key


def plan_pods(
    nodes: Mapping[str, NodeVerdict],  # all nodes
    pods: NodePods,
    *,
    unreadable: Collection[str],  # names of unreadable nodes, whose pods are left alone
    daemon_set: DaemonSet,
    hash: str,  # of the current revision
    now: float,  # Unix seconds
    seconds_left: Callable[[str], float],  # until a failed pod of this node may be deleted
) -> DaemonSetPlan:
    """Plan a pod for each eligible node without one, and the deletion of surplus and failed pods.

    Source: podsShouldBeOnNode.
    """
    plan, surges = DaemonSetPlan(), daemon_set.surges
    for node, verdict in nodes.items():
        on_node = pods.get(node)
        if on_node is None:
            if verdict.should_run:
                plan.create.append(node)
        elif not verdict.may_stay:
            plan.delete += [pod for pod in on_node if not pod.facts.deleting]
        elif len(on_node) > 1 or surges or on_node[0].facts.phase in ("Failed", "Succeeded"):
            _plan_node(
                plan, node, on_node, verdict, daemon_set=daemon_set, hash=hash, now=now, seconds_left=seconds_left
            )
    for node, unbound in pods.items():
        if node not in nodes and node not in unreadable:
            # These pods can never be bound, and the pod garbage collector does not read required nodes.
            plan.delete += [pod for pod in unbound if not pod.facts.node and not pod.facts.deleting]
    return plan


def _plan_node(
    plan: DaemonSetPlan,
    node: str,
    pods: Sequence[Entry],
    verdict: NodeVerdict,
    *,
    daemon_set: DaemonSet,
    hash: str,
    now: float,
    seconds_left: Callable[[str], float],
) -> None:
    running, is_held, has_failed = [], False, False
    for pod in pods:
        facts = pod.facts
        if facts.deleting:
            continue
        namespace, name = split_key(pod.key)
        if facts.phase == "Failed":
            if has_failed:
                continue  # one failed pod at a time: its deletion starts the node's backoff and enqueues the DaemonSet
            left = seconds_left(node)
            if left > 0:
                plan.wait = left if plan.wait is None else min(plan.wait, left)
                is_held = True
                continue
            has_failed = True
            plan.failed.append(node)
            text = f"Found failed daemon pod {namespace}/{name} on node {node}, will try to kill it"
            plan.events.append(("Warning", "FailedDaemonPod", text))
            plan.delete.append(pod)
        elif facts.phase == "Succeeded":
            text = f"Found succeeded daemon pod {namespace}/{name} on node {node}, will try to delete it"
            plan.events.append(("Normal", "SucceededDaemonPod", text))
            plan.delete.append(pod)
        else:
            running.append(pod)
    if not daemon_set.surges:
        plan.delete += running[1:]
    elif not running:
        if verdict.should_run and not is_held:
            plan.create.append(node)
    elif len(running) > 1:
        plan.delete += _surplus(running, daemon_set=daemon_set, hash=hash, now=now)


def _surplus(running: Sequence[Entry], *, daemon_set: DaemonSet, hash: str, now: float) -> list[Entry]:
    """Return the pods to delete of a node with several running pods during an update with surge.

    The oldest pod of the current revision is kept. So is the oldest pod of another revision, as long as it is ready and
    the new pod is not available yet.
    """
    new = [pod for pod in running if pod.facts.labels.get(HASH_LABEL) == hash]
    old = [pod for pod in running if pod.facts.labels.get(HASH_LABEL) != hash]
    surplus = new[1:] + old[1:]
    if new and old:
        is_replaced = is_available(new[0].facts, min_ready_seconds=daemon_set.min_ready_seconds, now=now)
        if is_replaced or not old[0].facts.ready:
            surplus.append(old[0])
    return surplus
