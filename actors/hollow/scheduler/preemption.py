"""Preemption: which pods of lower priority are deleted so that a pod can be scheduled.

Source: kubernetes v1.36 pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go;
pkg/scheduler/framework/preemption/preemption.go; pkg/scheduler/util/utils.go, MoreImportantPod. Difference: the search
begins at a given node, where upstream begins at a random one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from kcm.actors.controllers.shared.pod_disruption import DISRUPTION_TARGET
from kcm.actors.hollow.scheduler.demand import Demand
from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import Key, Object, is_deleting, key_of, labels_of, name_of, namespace_of
from kcm.protocols.selectors import LabelSelector, label_selector_of
from kcm.protocols.times import parse_time

NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NEVER = "not eligible due to preemptionPolicy=Never."
TERMINATING = "not eligible due to a terminating pod on the nominated node."
BY_SCHEDULER = "PreemptionByScheduler"  # reason of the condition DisruptionTarget
LEAST_CANDIDATES, CANDIDATE_PERCENTAGE = 100, 10
_OFFSET = 2**31  # makes the sum of priorities grow with each pod, also if priorities are negative


class Victim(Struct, frozen=True):
    """Pod that may be preempted. started: Unix seconds of status.startTime; infinite if it is unset."""

    key: Key
    pod: Object
    priority: int
    started: float
    demand: Demand


class Victims(NamedTuple):
    """Pods of one node to preempt, the most important first. violations: number of those protected by a budget."""

    pods: tuple[Victim, ...]
    violations: int


class Budget(Struct):
    """PodDisruptionBudget. allowed: disruptions that are left of it. disrupted: pods that are already counted."""

    namespace: str
    selector: LabelSelector
    allowed: int
    disrupted: frozenset[str]


def victim_of(pod: Object, demand: Demand) -> Victim:
    started = (pod.get("status") or {}).get("startTime")
    return Victim(
        key=key_of(pod),
        pod=pod,
        priority=demand.priority,
        started=math.inf if started is None else parse_time(started),
        demand=demand,
    )


def budgets_of(objects: Iterable[Object]) -> list[Budget]:
    """Return the budgets that can protect a pod. A budget with an invalid or empty selector protects none."""
    budgets = []
    for obj in objects:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        try:
            selector = label_selector_of(spec.get("selector"))
        except ValueError:
            continue
        if selector.empty or spec.get("selector") is None:
            continue
        disrupted = frozenset(status.get("disruptedPods") or ())
        budgets.append(Budget(namespace_of(obj), selector, int(status.get("disruptionsAllowed") or 0), disrupted))
    return budgets


def is_terminating_by_preemption(pod: Mapping[str, Any]) -> bool:
    condition = find_condition((pod.get("status") or {}).get("conditions"), DISRUPTION_TARGET)
    if not is_deleting(pod) or condition is None:
        return False
    return condition.get("status") == "True" and condition.get("reason") == BY_SCHEDULER


def by_importance(victims: Iterable[Victim]) -> list[Victim]:
    """Sort pods by priority, and pods of equal priority by their start; the most important first."""
    return sorted(victims, key=lambda victim: (-victim.priority, victim.started))


def split_by_budgets(victims: Iterable[Victim], budgets: Sequence[Budget]) -> tuple[list[Victim], list[Victim]]:
    """Return the pods whose eviction would violate a budget, and the others, in their order."""
    left = [budget.allowed for budget in budgets]
    violating: list[Victim] = []
    others: list[Victim] = []
    for victim in victims:
        labels = labels_of(victim.pod)
        is_violating = False
        for index, budget in enumerate(budgets if labels else ()):
            if budget.namespace != namespace_of(victim.pod) or not budget.selector.matches(labels):
                continue
            if name_of(victim.pod) not in budget.disrupted:
                left[index] -= 1
                is_violating = is_violating or left[index] < 0
        (violating if is_violating else others).append(victim)
    return violating, others


def select_victims(
    potential: Iterable[Victim], budgets: Sequence[Budget], fits_without: Callable[[Sequence[Victim]], bool]
) -> Victims | None:
    """Return the fewest pods of a node to preempt, or None if the pod does not fit even without all of them.

    potential: pods of lower priority on the node.
    fits_without: reports whether the pod fits the node without these pods.
    """
    removed = by_importance(potential)
    if not fits_without(removed):
        return None
    violating, others = split_by_budgets(removed, budgets)
    violations = 0
    for victims in (violating, others):
        for victim in victims:  # keep as many as possible, beginning with the most important
            rest = [other for other in removed if other is not victim]
            if fits_without(rest):
                removed = rest
            else:
                violations += victims is violating
    return Victims(tuple(removed), violations)


def candidates_to_find(nodes: int) -> int:
    """Return the number of candidates after which the search ends."""
    return min(max(nodes * CANDIDATE_PERCENTAGE // 100, LEAST_CANDIDATES), nodes)


def best_candidate(candidates: Mapping[str, Victims]) -> str:
    """Return the node on which preemption does the least harm; of equal nodes, the first. candidates: at least one.

    A node is better with fewer violated budgets, then with a lower highest priority, a lower sum of priorities, fewer
    pods, and a later earliest start of the pods with the highest priority.
    """

    def harm(node: str) -> tuple[float, ...]:
        pods, violations = candidates[node]
        highest = pods[0].priority
        earliest = min(victim.started for victim in pods if victim.priority == highest)
        total = sum(victim.priority + _OFFSET for victim in pods)
        return violations, highest, total, len(pods), -earliest

    return min(candidates, key=harm)
