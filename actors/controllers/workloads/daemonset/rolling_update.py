"""Which pods a new template replaces now, and which nodes get a second pod.

Source: kubernetes v1.36 pkg/controller/daemon/update.go (rollingUpdate, updatedDesiredNodeCounts,
findUpdatedPodsOnNode). Differences: nodes are taken in the order of the table, there at random; a node that is gone
counts as one that the pods do not fit, there nothing is done until its pods are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kcm.actors.controllers.workloads.daemonset.fields import DaemonSpec, Rolling
from kcm.actors.controllers.workloads.daemonset.placement import NEITHER, Verdict
from kcm.actors.controllers.workloads.daemonset.pod_plan import NodePods, Plan
from kcm.protocols.percentages import scaled_value
from kcm.protocols.pods import PodFacts, is_available
from kcm.runtime.tables.table import Entry


class Limits(NamedTuple):
    """How many nodes may be without an available pod, and how many may have two; one of them is above 0."""

    unavailable: int
    surge: int


def limits_of(rolling: Rolling, desired: int) -> Limits:
    """desired: nodes that pods belong on. Both round up. Source: updatedDesiredNodeCounts."""
    unavailable = scaled_value(rolling.max_unavailable, desired, round_up=True)
    surge = scaled_value(rolling.max_surge, desired, round_up=True)
    return Limits(1 if desired > 0 and unavailable == surge == 0 else unavailable, surge)


# A node's pods that are not being deleted: at most one of the current template and one other, in this order. None if
# there are two of a kind: managing.py removes one first. There is one for every node, so it is a plain tuple.
_OnNode = tuple[Entry | None, Entry | None] | None
_NOBODY: _OnNode = (None, None)


def plan_update(
    nodes: Mapping[str, Verdict], pods: NodePods, *, spec: DaemonSpec, rolling: Rolling, hash: str, now: float
) -> Plan:
    """nodes: all that there are. now: Unix seconds."""
    if not _has_old_pods(pods, spec, hash):  # as nearly always, and on a thousand nodes
        return Plan()
    wanted = [node for node, verdict in nodes.items() if verdict.should_run]
    limits = limits_of(rolling, len(wanted))
    looked_at = _look(dict.fromkeys([*wanted, *pods]), pods, spec, hash)

    def available(pod: Entry) -> bool:
        facts: PodFacts = pod.facts
        if spec.min_ready_seconds == 0:
            return facts.ready
        return is_available(facts, min_ready_seconds=spec.min_ready_seconds, now=now)

    if limits.surge == 0:
        return _replacements(looked_at, limits.unavailable, available)
    fits = {node: nodes.get(node, NEITHER).should_run for node in looked_at}
    return _surge(looked_at, fits, limits.surge, len(wanted), available)


def _has_old_pods(pods: NodePods, spec: DaemonSpec, hash: str) -> bool:
    """Whether there is a pod of another template: only such a one is deleted, or gets a new one beside it."""
    last: Mapping[str, str] | None = None  # pods with equal labels share one mapping
    for several in pods.values():
        for pod in several:
            labels = pod.facts.labels
            if labels is not last and not pod.facts.deleting:
                if not spec.is_updated(pod.facts, hash):
                    return True
                last = labels
    return False


def _look(nodes: Iterable[str], pods: NodePods, spec: DaemonSpec, hash: str) -> dict[str, _OnNode]:
    """At all of them at every sync of an update, and nearly all have one pod."""
    found: dict[str, _OnNode] = {}
    last: Mapping[str, str] | None = None
    is_new = False
    for node in nodes:
        there = pods.get(node, ())
        if len(there) != 1:
            found[node] = _on_node(there, spec, hash)
            continue
        pod = there[0]
        facts = pod.facts
        if facts.labels is not last:
            last, is_new = facts.labels, spec.is_updated(facts, hash)
        found[node] = _NOBODY if facts.deleting else (pod, None) if is_new else (None, pod)
    return found


def _on_node(pods: Sequence[Entry], spec: DaemonSpec, hash: str) -> _OnNode:
    """Source: findUpdatedPodsOnNode."""
    new = old = None
    for pod in pods:
        if pod.facts.deleting:
            continue
        if spec.is_updated(pod.facts, hash):
            if new is not None:
                return None
            new = pod
        else:
            if old is not None:
                return None
            old = pod
    return new, old


def _replacements(nodes: Mapping[str, _OnNode], most: int, available: Callable[[Entry], bool]) -> Plan:
    """Delete old pods: those that are not available at once, others as long as no more than `most` nodes are without.

    The pods that follow them are made when they are gone.
    """
    unavailable = 0
    plan, candidates = Plan(), []
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
    plan.delete += candidates[: max(0, most - unavailable)]
    return plan


def _surge(
    nodes: Mapping[str, _OnNode],
    fits: Mapping[str, bool],
    most: int,
    desired: int,
    available: Callable[[Entry], bool],
) -> Plan:
    """Create new pods beside old ones: at once where the old one is not available, else on `most` nodes at a time.

    An old pod goes when the new one is available. Where pods do not fit any more it goes when there are enough
    elsewhere.
    """
    plan, candidates, unwanted = Plan(), [], []
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
            if fits[node]:
                plan.create.append(node)
            else:
                plan.delete.append(old)
        elif fits[node]:
            candidates.append(node)
        else:
            unwanted.append(old)
    plan.delete += unwanted[: max(0, in_service - desired)]
    plan.create += candidates[: max(0, most - surging)]
    return plan
