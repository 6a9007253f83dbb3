"""Plan of a rolling update: which old pods to delete now, and which nodes get a new pod beside the old one.

Source: kubernetes v1.36 pkg/controller/daemon/update.go (rollingUpdate, updatedDesiredNodeCounts,
findUpdatedPodsOnNode). Differences: nodes are processed in the order of the table, upstream in random order. A deleted
node counts as not eligible; upstream does not touch its pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kcm.actors.controllers.workloads.daemonset.objects import DaemonSet, Rolling
from kcm.actors.controllers.workloads.daemonset.placement import NEITHER, NodeVerdict
from kcm.actors.controllers.workloads.daemonset.pod_plan import DaemonSetPlan, NodePods
from kcm.protocols.percentages import scaled_value
from kcm.protocols.pods import PodFacts, is_available
from kcm.runtime.tables.table import Entry


class Limits(NamedTuple):
    """Numbers of nodes that limit a rolling update. At least one of them is above 0 if any node is eligible."""

    unavailable: int  # nodes that may be without an available pod
    surge: int  # nodes that may have two pods


def limits_of(rolling: Rolling, desired: int) -> Limits:
    """Resolve maxUnavailable and maxSurge for this number of eligible nodes, rounding both up.

    Source: updatedDesiredNodeCounts.
    """
    unavailable = scaled_value(rolling.max_unavailable, desired, round_up=True)
    surge = scaled_value(rolling.max_surge, desired, round_up=True)
    return Limits(1 if desired > 0 and unavailable == surge == 0 else unavailable, surge)


# The (new, old) pods of a node that are not being deleted: at most one of the current template and one of another. None
# if there are two of a kind: pod_plan.py deletes one of them first. A plain tuple, as there is one for every node.
_OnNode = tuple[Entry | None, Entry | None] | None
_EMPTY: _OnNode = (None, None)


def plan_update(
    nodes: Mapping[str, NodeVerdict],  # all nodes
    pods: NodePods,
    *,
    daemon_set: DaemonSet,
    rolling: Rolling,
    hash: str,  # of the current revision
    now: float,  # Unix seconds
) -> DaemonSetPlan:
    """Plan the pods to delete and create in the next step of a rolling update. Source: rollingUpdate."""
    if not _has_old_pods(pods, daemon_set, hash):  # nearly always, on perhaps a thousand nodes
        return DaemonSetPlan()
    eligible = [node for node, verdict in nodes.items() if verdict.should_run]
    limits = limits_of(rolling, len(eligible))
    on_nodes = _new_and_old_pods(dict.fromkeys([*eligible, *pods]), pods, daemon_set, hash)

    def available(pod: Entry) -> bool:
        facts: PodFacts = pod.facts
        if daemon_set.min_ready_seconds == 0:
            return facts.ready
        return is_available(facts, min_ready_seconds=daemon_set.min_ready_seconds, now=now)

    if limits.surge == 0:
        return _replacements(on_nodes, limits.unavailable, available)
    is_eligible = {node: nodes.get(node, NEITHER).should_run for node in on_nodes}
    return _surge(on_nodes, is_eligible, limits.surge, len(eligible), available)


def _has_old_pods(pods: NodePods, daemon_set: DaemonSet, hash: str) -> bool:
    last: Mapping[str, str] | None = None  # pods with equal labels share one mapping
    for on_node in pods.values():
        for pod in on_node:
            labels = pod.facts.labels
            if labels is not last and not pod.facts.deleting:
                if not daemon_set.is_updated(pod.facts, hash):
                    return True
                last = labels
    return False


def _new_and_old_pods(nodes: Iterable[str], pods: NodePods, daemon_set: DaemonSet, hash: str) -> dict[str, _OnNode]:
    # This runs for all nodes at every sync of an update, and nearly all nodes have one pod.
    found: dict[str, _OnNode] = {}
    last: Mapping[str, str] | None = None
    is_new = False
    for node in nodes:
        on_node = pods.get(node, ())
        if len(on_node) != 1:
            found[node] = _new_and_old_pod(on_node, daemon_set, hash)
            continue
        pod = on_node[0]
        facts = pod.facts
        if facts.labels is not last:
            last, is_new = facts.labels, daemon_set.is_updated(facts, hash)
        found[node] = _EMPTY if facts.deleting else (pod, None) if is_new else (None, pod)
    return found


def _new_and_old_pod(pods: Sequence[Entry], daemon_set: DaemonSet, hash: str) -> _OnNode:
    """Return the (new, old) pods of a node, or None if there are two new or two old pods.

    Source: findUpdatedPodsOnNode.
    """
    new = old = None
    for pod in pods:
        if pod.facts.deleting:
            continue
        if daemon_set.is_updated(pod.facts, hash):
            if new is not None:
                return None
            new = pod
        else:
            if old is not None:
                return None
            old = pod
    return new, old


def _replacements(
    nodes: Mapping[str, _OnNode], max_unavailable: int, available: Callable[[Entry], bool]
) -> DaemonSetPlan:
    """Plan an update without surge: delete unavailable old pods, and available ones up to max_unavailable.

    Later syncs create the new pods, after the old ones have been deleted.
    """
    unavailable = 0
    plan, candidates = DaemonSetPlan(), []
    for found in nodes.values():
        new, old = (None, None) if found is None else found
        if (new is None) == (old is None):
            unavailable += 1
        elif new is not None:
            unavailable += not available(new)
        elif old is not None:
            if available(old):
                candidates.append(old)
            else:
                plan.delete.append(old)
                unavailable += 1
    plan.delete += candidates[: max(0, max_unavailable - unavailable)]
    return plan


def _surge(
    nodes: Mapping[str, _OnNode],
    is_eligible: Mapping[str, bool],
    max_surge: int,
    desired: int,  # number of eligible nodes
    available: Callable[[Entry], bool],
) -> DaemonSetPlan:
    """Plan an update with surge: create new pods beside old ones, on at most max_surge nodes at a time.

    Nodes whose old pod is unavailable do not count towards max_surge. An old pod is deleted when the new pod of its
    node is available. On a node that has become ineligible, the old pod is deleted when enough pods are available
    elsewhere.
    """
    plan, candidates, unwanted = DaemonSetPlan(), [], []
    surging = in_service = 0
    for node, found in nodes.items():
        if found is None:
            surging += 1
            continue
        new, old = found
        serving = new if old is None else old
        in_service += serving is not None and available(serving)
        if old is None:
            continue
        if new is not None:
            if available(new):
                plan.delete.append(old)
            else:
                surging += 1
        elif not available(old):
            if is_eligible[node]:
                plan.create.append(node)
            else:
                plan.delete.append(old)
        elif is_eligible[node]:
            candidates.append(node)
        else:
            unwanted.append(old)
    plan.delete += unwanted[: max(0, in_service - desired)]
    plan.create += candidates[: max(0, max_surge - surging)]
    return plan
