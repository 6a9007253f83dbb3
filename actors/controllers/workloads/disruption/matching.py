"""Selection of pods by PodDisruptionBudgets, and the budgets that a change enqueues.

Source: kubernetes v1.36 client-go listers/policy/v1/poddisruptionbudget_expansion.go (GetPodPodDisruptionBudgets) and
pkg/controller/disruption (addPod, updatePod, deletePod). Differences:
- A changed pod enqueues all its budgets, and the budgets that selected it before its labels changed. Upstream enqueues
  an arbitrary one of the current budgets.
- Scaling a controller enqueues the budgets of its pods. Upstream waits for the next pod that is created or deleted.
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
    """Facts derived once from each version of a budget."""

    selector: LabelSelector | None  # None if it is invalid: then it selects nothing
    # A change of this value enqueues the budget. Usually its resourceVersion. While the condition is SyncFailed, the
    # status without the text of the failure: the controller writes that text itself, and if it differed each time,
    # every failure would cause the next sync at once.
    state: str | bytes


def budget_facts(budget: Object) -> BudgetFacts:
    state = state_of(budget)
    try:
        return BudgetFacts(selector_of(budget), state)
    except ValueError:
        return BudgetFacts(None, state)


def state_of(budget: Object) -> str | bytes:
    """Return BudgetFacts.state."""
    status = budget.get("status") or {}
    condition = find_condition(status.get("conditions"), DISRUPTION_ALLOWED)
    if condition is None or condition.get("reason") != SYNC_FAILED:
        return resource_version_of(budget)
    failed = {"status": condition.get("status")}  # without message and lastTransitionTime
    return encode_object({**status, "conditions": [failed], "generation": metadata(budget).get("generation")})


def selector_of(budget: Mapping[str, Any]) -> LabelSelector:
    """Return the selector: if missing, it selects nothing, if empty, everything. Raises ValueError if invalid."""
    spec = budget.get("spec") or {}
    selector = spec.get("selector")
    if selector is not None and not isinstance(selector, Mapping):
        raise ValueError(f"spec.selector is a map, got {selector!r}")
    return label_selector_of(selector)


class SizeFacts(NamedTuple):
    """Facts derived once from each version of a controller of pods."""

    replicas: Any  # spec.replicas; None if it is not a number


def size_facts(controller: Object) -> SizeFacts:
    spec = controller.get("spec")
    replicas = spec.get("replicas") if isinstance(spec, dict) else None
    return SizeFacts(replicas if isinstance(replicas, int) else None)


BUDGET_FACTS = Facts(POD_DISRUPTION_BUDGETS, budget_facts)


def selecting_budgets(budgets: Lister, namespace: str, labels: Mapping[str, str]) -> list[Key]:
    """Return the budgets that select pods with these labels, sorted by name."""
    return sorted(
        entry.key
        for entry in budgets.entries(namespace)
        if entry.facts.selector is not None and entry.facts.selector.matches(labels)
    )


def budgets_of_pod(change: Change, tables: Tables) -> Iterable[Key]:
    """Return the budgets that select a pod, or selected it before its labels changed."""
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
    """Return the budgets that select the pods of a controller and depend on its number of replicas."""
    budgets, namespace = tables[POD_DISRUPTION_BUDGETS], change.namespace
    if not budgets.entries(namespace):
        return ()
    template = (change.new.get("spec") or {}).get("template") or {}
    keys = selecting_budgets(budgets, namespace, labels_of(template))
    return [key for key in keys if needs_scale((budgets.get(key) or {}).get("spec") or {})]


def pod_with_several_budgets(change: Change, tables: Tables) -> Iterable[Key]:
    """Return the pod's key if more than one budget selects it."""
    budgets, namespace = tables[POD_DISRUPTION_BUDGETS], change.namespace
    entry = None if change.deleted else tables[PODS].entry(change.key)
    if entry is None or len(budgets.entries(namespace)) < 2:
        return ()
    return (change.key,) if len(selecting_budgets(budgets, namespace, entry.facts.labels)) > 1 else ()
