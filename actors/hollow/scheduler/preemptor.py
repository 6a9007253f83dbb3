"""Preemption for one pod: the plan, and the writes.

Source: kubernetes v1.36 pkg/scheduler/framework/preemption/{preemption,executor}.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kcm.actors.controllers.shared.pod_disruption import disruption_condition
from kcm.actors.hollow.scheduler.filters import Filters, Rejection, SchedulingAttempt, may_be_preempted
from kcm.actors.hollow.scheduler.node_fit import UNUSED, NodeView, failure_message
from kcm.actors.hollow.scheduler.placements import Nomination, Nominations, Placements
from kcm.actors.hollow.scheduler.preemption import (
    BY_SCHEDULER,
    NEVER,
    NO_VICTIMS,
    NOT_HELPFUL,
    TERMINATING,
    Budget,
    Victim,
    Victims,
    best_candidate,
    budgets_of,
    candidates_to_find,
    is_terminating_by_preemption,
    select_victims,
    victim_of,
)
from kcm.actors.reconciliation import Step, delete, merge_status, must, record, step
from kcm.protocols.messages.outcomes import Conflict, NotFound
from kcm.protocols.objects import Key, is_deleting, uid_of
from kcm.protocols.resources import POD_DISRUPTION_BUDGETS, PODS
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.tables import Tables

_PREFIX = "preemption: "


class PreemptionPlan(NamedTuple):
    """Decision about a pod that fits no node.

    message: why preemption does not help; "" if pods are preempted.
    node, victims: where pods are preempted, and which.
    keeps_nomination: the pod keeps the node that it is nominated to, if any.
    """

    message: str = ""
    node: str = ""
    victims: tuple[Victim, ...] = ()
    keeps_nomination: bool = False


class Preemptor:
    def __init__(self, tables: Tables, clock: Clock) -> None:
        self._pods, self._budgets, self._clock = tables[PODS], tables[POD_DISRUPTION_BUDGETS], clock

    def plan(
        self,
        attempt: SchedulingAttempt,
        rejections: Sequence[Rejection],
        filters: Filters,
        placements: Placements,
        nominations: Nominations,
        *,
        nodes: int,
    ) -> PreemptionPlan:
        """Return what to do for a pod.

        rejections: all nodes, with the reasons why the pod does not fit them; empty if the pod cannot be scheduled for
            a reason that does not depend on the node.
        nodes: number of nodes.
        """
        if attempt.pod["spec"].get("preemptionPolicy") == "Never":
            return PreemptionPlan(_PREFIX + NEVER, keeps_nomination=True)
        priority = attempt.demand.priority
        resolvable = [
            rejection.node
            for rejection in rejections
            if may_be_preempted(attempt.demand, rejection.node, rejection.reasons)
        ]
        nomination = nominations.get(attempt.key, attempt.entry.uid)
        names = {node.name for node in resolvable}
        lower = placements.below(priority, names) if names else {}
        if nomination is not None and nomination.node in names:
            for key, _ in lower.get(nomination.node, ()):
                pod = self._pods.get(key)
                if pod is not None and is_terminating_by_preemption(pod):
                    return PreemptionPlan(_PREFIX + TERMINATING, keeps_nomination=True)
        reasons: Counter[str] = Counter()
        candidates = self._candidates(attempt, resolvable, filters, placements, nominations, lower, reasons)
        if not candidates:
            reasons[NOT_HELPFUL] += nodes - len(resolvable)
            return PreemptionPlan(_PREFIX + failure_message(nodes, +reasons))
        node = best_candidate(candidates)
        return PreemptionPlan("", node, candidates[node].pods)

    def _candidates(
        self,
        attempt: SchedulingAttempt,
        resolvable: Sequence[NodeView],
        filters: Filters,
        placements: Placements,
        nominations: Nominations,
        lower: Mapping[str, Sequence[tuple[Key, object]]],
        reasons: Counter[str],
    ) -> dict[str, Victims]:
        """Return the nodes on which preemption helps. reasons: is filled with why others do not."""
        budgets: list[Budget] | None = None
        enough = candidates_to_find(len(resolvable))
        candidates: dict[str, Victims] = {}
        for node in resolvable:
            if len(candidates) >= enough and any(not victims.violations for victims in candidates.values()):
                break
            potential = self._potential(lower.get(node.name, ()), placements)
            if not potential:
                reasons[NO_VICTIMS] += 1
                continue
            if budgets is None:
                budgets = budgets_of(self._budgets.objects())
            last: Sequence[str] = ()

            def fits_without(removed: Sequence[Victim], node: NodeView = node) -> bool:
                nonlocal last
                usage = placements.usages.get(node.name, UNUSED).copy()
                for victim in removed:
                    usage.add(victim.demand, -1)
                usage = nominations.usage(node.name, usage, attempt.key, attempt.demand)
                last = filters.misfits(attempt, node, usage, [victim.key for victim in removed])
                return not last

            victims = select_victims(potential, budgets, fits_without)
            if victims is None:
                reasons.update(last)
            elif victims.pods:
                candidates[node.name] = victims
        return candidates

    def _potential(self, lower: Sequence[tuple[Key, object]], placements: Placements) -> list[Victim]:
        found = []
        for key, _ in lower:
            pod, placement = self._pods.get(key), placements.get(key)
            if pod is not None and placement is not None and uid_of(pod) == placement.uid:
                found.append(victim_of(pod, placement.demand))
        return found

    @step
    def carry_out(self, attempt: SchedulingAttempt, plan: PreemptionPlan, nominations: Nominations) -> Step[None]:
        """Preempt the pods of a plan, and take the node from nominated pods of lower priority."""
        for key in nominations.below(attempt.demand.priority, plan.node):
            nominated = self._pods.get(key)
            nominations.remove(key)
            if nominated is not None:
                yield from must(merge_status(PODS, nominated, {"nominatedNodeName": None}), but=(NotFound, Conflict))
        for victim in plan.victims:
            if is_deleting(victim.pod):
                continue
            scheduler = attempt.pod["spec"].get("schedulerName") or "default-scheduler"
            message = f"{scheduler}: preempting to accommodate a higher priority pod"
            condition = disruption_condition(victim.pod, reason=BY_SCHEDULER, message=message, now=self._clock.now())
            if condition is not None:
                changes = {"conditions": [condition]}
                yield from must(merge_status(PODS, victim.pod, changes), but=(NotFound, Conflict))
            deletion = delete(PODS, victim.pod, depends_on=((PODS, victim.key),))
            outcome = yield from must(deletion, but=(NotFound, Conflict))
            if not isinstance(outcome, NotFound | Conflict):
                text = f"Preempted by pod {attempt.entry.uid} on node {plan.node}"
                yield record(PODS, victim.pod, "Normal", "Preempted", text)


def nomination_of(attempt: SchedulingAttempt, node: str) -> Nomination:
    return Nomination(attempt.entry.uid, node, attempt.demand)
