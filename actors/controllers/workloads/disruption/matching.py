"""Which pods a PodDisruptionBudget selects, and which budgets select a pod.

Source: kubernetes v1.36 client-go listers/policy/v1/poddisruptionbudget_expansion.go (GetPodPodDisruptionBudgets) and
pkg/controller/disruption (addPod, updatePod, deletePod). Differences: all budgets of a pod are looked at when it
changes, there an arbitrary one; and those that selected it before its labels changed, there none. Another size of what
makes the pods has their budgets counted, there the next pod that comes or goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kcm.actors.controllers.workloads.disruption.pod_counts import needs_scale
from kcm.actors.reconciliation import Change
from kcm.actors.reconciliation.specs import Facts
from kcm.protocols.budgets import DISRUPTION_ALLOWED, SYNC_FAILED
from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import Key, Object, encode_object, labels_of, metadata, resource_version_of
from kcm.protocols.pods import pod_facts
from kcm.protocols.resources import POD_DISRUPTION_BUDGETS, PODS
from kcm.protocols.selectors import LabelSelector, label_selector_of
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.tables import Tables


class BudgetFacts(NamedTuple):
    """selector: None if the budget's is none: it selects nothing.

    state: a change of it has the budget counted. Its version; while it says SyncFailed, what it says without the text
    of the failure: we write that, and one that reads otherwise each time would have us fail again at once.
    """

    selector: LabelSelector | None
    state: str | bytes


def budget_facts(budget: Object) -> BudgetFacts:
    state = state_of(budget)
    try:
        return BudgetFacts(selector_of(budget), state)
    except ValueError:
        return BudgetFacts(None, state)


def state_of(budget: Object) -> str | bytes:
    """See BudgetFacts."""
    status = budget.get("status") or {}
    condition = find_condition(status.get("conditions"), DISRUPTION_ALLOWED)
    if condition is None or condition.get("reason") != SYNC_FAILED:
        return resource_version_of(budget)
    failed = {"status": condition.get("status")}  # without message and lastTransitionTime
    return encode_object({**status, "conditions": [failed], "generation": metadata(budget).get("generation")})


def selector_of(budget: Mapping[str, Any]) -> LabelSelector:
    """Raises ValueError. One that is missing selects nothing, an empty one everything."""
    spec = budget.get("spec") or {}
    selector = spec.get("selector")
    if selector is not None and not isinstance(selector, Mapping):
        raise ValueError(f"spec.selector is a map, got {selector!r}")
    return label_selector_of(selector)


class SizeFacts(NamedTuple):
    """replicas: of a controller of pods, as it was sent."""

    replicas: Any


def size_facts(controller: Object) -> SizeFacts:
    spec = controller.get("spec")
    replicas = spec.get("replicas") if isinstance(spec, dict) else None
    return SizeFacts(replicas if isinstance(replicas, int) else None)


BUDGET_FACTS = Facts(POD_DISRUPTION_BUDGETS, budget_facts)


def selecting_budgets(budgets: Lister, namespace: str, labels: Mapping[str, str]) -> list[Key]:
    """In the order of their names."""
    return sorted(
        entry.key
        for entry in budgets.entries(namespace)
        if entry.facts.selector is not None and entry.facts.selector.matches(labels)
    )


def budgets_of_pod(change: Change, tables: Tables) -> Iterable[Key]:
    """The budgets that select a pod, or did so before it changed."""
    budgets, namespace = tables[POD_DISRUPTION_BUDGETS], change.namespace
    if not budgets.entries(namespace):
        return ()
    entry = None if change.deleted else tables[PODS].entry(change.key)
    now = pod_facts(change.new).labels if entry is None else entry.facts.labels
    found = set(selecting_budgets(budgets, namespace, now))
    if change.old is not None:
        before = pod_facts(change.old).labels
        if before != now:
            found.update(selecting_budgets(budgets, namespace, before))
    return sorted(found)


def budgets_of_size(change: Change, tables: Tables) -> Iterable[Key]:
    """The budgets that count a share of what a controller wants, and select the pods that it makes."""
    budgets, namespace = tables[POD_DISRUPTION_BUDGETS], change.namespace
    if not budgets.entries(namespace):
        return ()
    template = (change.new.get("spec") or {}).get("template") or {}
    keys = selecting_budgets(budgets, namespace, labels_of(template))
    return [key for key in keys if needs_scale((budgets.get(key) or {}).get("spec") or {})]


def pod_with_several_budgets(change: Change, tables: Tables) -> Iterable[Key]:
    """The key of a pod that more than one budget selects."""
    budgets, namespace = tables[POD_DISRUPTION_BUDGETS], change.namespace
    entry = None if change.deleted else tables[PODS].entry(change.key)
    if entry is None or len(budgets.entries(namespace)) < 2:
        return ()
    return (change.key,) if len(selecting_budgets(budgets, namespace, entry.facts.labels)) > 1 else ()
