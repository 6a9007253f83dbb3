"""Which pods come and go on each node, besides those that a new template replaces.

Source: kubernetes v1.36 pkg/controller/daemon/daemon_controller.go (podsShouldBeOnNode,
getUnscheduledPodsWithoutNode). Difference: while a failed pod waits to be deleted its node gets no further one when
surging either; upstream makes pod after pod there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field

from kcm.actors.controllers.workloads.daemonset.fields import HASH_LABEL, DaemonSpec
from kcm.actors.controllers.workloads.daemonset.placement import Verdict
from kcm.protocols.late_methods import dataclass
from kcm.protocols.messages.events import RecordType
from kcm.protocols.objects import split_key
from kcm.protocols.pods import is_available
from kcm.runtime.tables.table import Entry

NodePods = Mapping[str, Sequence[Entry]]


@dataclass(slots=True)
class Plan:
    """create: names of nodes that get a pod. delete: pods. events: (type, reason, message) about the DaemonSet.

    failed: nodes with a failed pod among those to delete. wait: seconds until the next failed pod may be deleted.
    """

    create: list[str] = field(default_factory=list)
    delete: list[Entry] = field(default_factory=list)
    events: list[tuple[RecordType, str, str]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    wait: float | None = None

    @property
    def is_empty(self) -> bool:
        """No pod comes or goes."""
        return not self.create and not self.delete


def by_node(pods: Iterable[Entry]) -> dict[str, list[Entry]]:
    """The pods of each node, by the name of the node that they run on or wait for; see pod_order.

    Without those that wait for none, and those that have ended and are being deleted: nothing is left to do for them.
    """
    # This runs for every pod at every sync, and nearly all nodes have one.
    found: dict[str, list[Entry]] = {}
    shared: set[str] = set()  # nodes with several
    for pod in pods:
        facts = pod.facts
        node = facts.target
        if not node or (facts.deleting and facts.phase in ("Failed", "Succeeded")):
            continue
        there = found.get(node)
        if there is None:
            found[node] = [pod]
        else:
            there.append(pod)
            shared.add(node)
    for node in shared:
        found[node].sort(key=pod_order)
    return found


def pod_order(pod: Entry) -> tuple[bool, float, str]:
    """Those that have a node first, then the oldest. Source: podByCreationTimestampAndPhase."""
    facts = pod.facts
    return facts.node == "", facts.created or 0.0, pod.key


def plan_pods(
    nodes: Mapping[str, Verdict],
    pods: NodePods,
    *,
    unknown: Collection[str],
    spec: DaemonSpec,
    hash: str,
    now: float,
    seconds_left: Callable[[str], float],
) -> Plan:
    """nodes: all that there are. unknown: names of nodes that cannot be read: nothing is done there.

    seconds_left: until a failed pod of this node may be deleted. now: Unix seconds.
    """
    plan, surges = Plan(), spec.surges
    for node, verdict in nodes.items():
        there = pods.get(node)
        if there is None:
            if verdict.should_run:
                plan.create.append(node)
        elif not verdict.may_stay:
            plan.delete += [pod for pod in there if not pod.facts.deleting]
        elif len(there) > 1 or surges or there[0].facts.phase in ("Failed", "Succeeded"):
            _plan_node(plan, node, there, verdict, spec=spec, hash=hash, now=now, seconds_left=seconds_left)
    for node, waiting in pods.items():
        if node not in nodes and node not in unknown:
            # They will never be bound, and the pod garbage collector does not know whom they wait for.
            plan.delete += [pod for pod in waiting if not pod.facts.node and not pod.facts.deleting]
    return plan


def _plan_node(
    plan: Plan,
    node: str,
    pods: Sequence[Entry],
    verdict: Verdict,
    *,
    spec: DaemonSpec,
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
                continue  # its node's backoff begins with the one that is deleted now, whose deletion brings us back
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
    if not spec.surges:
        plan.delete += running[1:]
    elif not running:
        if verdict.should_run and not is_held:
            plan.create.append(node)
    elif len(running) > 1:
        plan.delete += _surplus(running, spec=spec, hash=hash, now=now)


def _surplus(running: Sequence[Entry], *, spec: DaemonSpec, hash: str, now: float) -> list[Entry]:
    """All but the oldest of the current revision and the oldest other one; that too if it is not needed any more."""
    new = [pod for pod in running if pod.facts.labels.get(HASH_LABEL) == hash]
    old = [pod for pod in running if pod.facts.labels.get(HASH_LABEL) != hash]
    surplus = new[1:] + old[1:]
    if new and old:
        is_replaced = is_available(new[0].facts, min_ready_seconds=spec.min_ready_seconds, now=now)
        if is_replaced or not old[0].facts.ready:
            surplus.append(old[0])
    return surplus
