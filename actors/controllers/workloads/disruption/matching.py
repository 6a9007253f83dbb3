"""Mapping from pods to the PodDisruptionBudgets that select them, and from changes to the budgets to enqueue.

Source: kubernetes v1.36 client-go listers/policy/v1/poddisruptionbudget_expansion.go (GetPodPodDisruptionBudgets) and
pkg/controller/disruption (addPod, updatePod, deletePod). Differences:
- A changed pod enqueues all its budgets, and the budgets that selected it before its labels changed. Upstream enqueues
  an arbitrary one of the current budgets.
- When a workload is scaled, the budgets of its pods are enqueued. Upstream waits until a pod is created or deleted.
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
    """Values that are derived once from each version of a PodDisruptionBudget and kept in the informer cache."""

    selector: LabelSelector | None  # None if it is invalid; then it selects no pods
    # A change of this value enqueues the budget. It is usually the resourceVersion. If the last sync failed, it is the
    # status without the error text of the condition: the controller itself writes that text, and a text that differs
    # each time would cause the next sync immediately after every failure.
    state: str | bytes


def budget_facts(budget: Object) -> BudgetFacts:
    state = state_of(budget)
    try:
        return BudgetFacts(selector_of(budget), state)
    except ValueError:
        return BudgetFacts(None, state)


def state_of(budget: Object) -> str | bytes:
    """Return a value that changes when a PodDisruptionBudget must be synced again; see BudgetFacts.state."""
    status = budget.get("status") or {}
    condition = find_condition(status.get("conditions"), DISRUPTION_ALLOWED)
    if condition is None or condition.get("reason") != SYNC_FAILED:
        return resource_version_of(budget)
    failed = {"status": condition.get("status")}  # without message and lastTransitionTime
    return encode_object({**status, "conditions": [failed], "generation": metadata(budget).get("generation")})


def selector_of(budget: Mapping[str, Any]) -> LabelSelector:
    """Return the label selector of a PodDisruptionBudget. Raises ValueError if it is invalid.

    A missing selector matches no pods, an empty selector matches all pods.
    """
    spec = budget.get("spec") or {}
    selector = spec.get("selector")
    if selector is not None and not isinstance(selector, Mapping):
        raise ValueError(f"spec.selector is a map, got {selector!r}")
    return label_selector_of(selector)


class WorkloadFacts(NamedTuple):
    """Values that are derived once from each version of a workload (such as a Deployment) and kept in its informer.

    A change of `replicas` enqueues the budgets of the workload's pods.
    """

    replicas: Any  # spec.replicas; None if it is not a number


def workload_facts(controller: Object) -> WorkloadFacts:
    spec = controller.get("spec")
    replicas = spec.get("replicas") if isinstance(spec, dict) else None
    return WorkloadFacts(replicas if isinstance(replicas, int) else None)


BUDGET_FACTS = Facts(POD_DISRUPTION_BUDGETS, budget_facts)


def selecting_budgets(budgets: Lister, namespace: str, labels: Mapping[str, str]) -> list[Key]:
    """Return the keys of the PodDisruptionBudgets that select pods with these labels, sorted by name."""
    return sorted(
        entry.key
        for entry in budgets.entries(namespace)
        if entry.facts.selector is not None and entry.facts.selector.matches(labels)
    )


def budgets_of_pod(change: Change, tables: Tables) -> Iterable[Key]:
    """Return the keys of the PodDisruptionBudgets that select a changed pod, or selected it before the change."""
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


def budgets_of_workload(change: Change, tables: Tables) -> Iterable[Key]:
    """Return the keys of the PodDisruptionBudgets to enqueue when a workload, such as a Deployment, is scaled.

    These are the budgets that select the workload's pods and whose limits depend on its number of replicas.
    """
    budgets, namespace = tables[POD_DISRUPTION_BUDGETS], change.namespace
    if not budgets.entries(namespace):
        return ()
    template = (change.new.get("spec") or {}).get("template") or {}
    keys = selecting_budgets(budgets, namespace, labels_of(template))
    return [key for key in keys if needs_scale((budgets.get(key) or {}).get("spec") or {})]


def pod_with_multiple_budgets(change: Change, tables: Tables) -> Iterable[Key]:
    """Return the key of a changed pod if more than one PodDisruptionBudget selects it; otherwise nothing."""
    budgets, namespace = tables[POD_DISRUPTION_BUDGETS], change.namespace
    entry = None if change.deleted else tables[PODS].entry(change.key)
    if entry is None or len(budgets.entries(namespace)) < 2:
        return ()
    return (change.key,) if len(selecting_budgets(budgets, namespace, entry.facts.labels)) > 1 else ()
