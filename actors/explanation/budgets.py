"""Causes of PodDisruptionBudgets, and of nodes that cannot be drained because of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from kcm.actors.explanation.case import MOST_FOLLOWED, Case, condition_line, event_line, is_lasting
from kcm.actors.explanation.cause import Cause
from kcm.actors.explanation.workloads import selector_of, troubled_pods
from kcm.protocols import resources as r
from kcm.protocols.objects import Object, controller_of, is_deleting, labels_of, name_of, namespace_of

MOST_COMPARED = 20  # budgets of all namespaces, with each other
SETTLING = 60.0  # seconds in which the pods of a budget become healthy


def pending(case: Case) -> str:
    failed = _failed(case)
    if failed is not None:
        return condition_line(failed)
    if not case.is_observed:
        return "its controller has not seen its newest specification"
    expected, allowed = case.status.get("expectedPods") or 0, case.status.get("disruptionsAllowed") or 0
    if expected and not allowed:
        return "it allows no eviction"
    if _uncounted(case):
        return "the expected number of its pods is not known"
    return "its pods belong to another budget as well" if _others(case) else ""


def _pods(case: Case) -> Sequence[Object]:
    found = case.evidence.selected(r.PODS, case.namespace, selector_of(case.obj))
    return [pod for pod in found if not is_deleting(pod)]


def _uncounted(case: Case) -> list[str]:
    """Return the pods without a controller of a budget that needs the number of replicas.

    Such a budget counts the replicas of the pods' controllers. A number as minAvailable needs no replicas.
    """
    if isinstance(case.spec.get("minAvailable"), int):
        return []
    pods = _pods(case)
    if (case.status.get("expectedPods") or 0) >= len(pods):
        return []
    return [name_of(pod) for pod in pods if controller_of(pod) is None]


def _others(case: Case) -> dict[str, list[str]]:
    """Return the pods that other budgets select as well, by the name of the budget."""
    pods = _pods(case)
    found = {
        name_of(budget): [name_of(pod) for pod in _selected(budget, pods)]
        for budget in case.evidence.list(r.POD_DISRUPTION_BUDGETS, case.namespace)
        if name_of(budget) != case.name and not is_deleting(budget)
    }
    return {name: names for name, names in found.items() if names}


def _failed(case: Case) -> Mapping[str, Any] | None:
    """Return the condition that the budget cannot be computed. It leaves status.observedGeneration as it was."""
    condition = case.condition("DisruptionAllowed")
    return condition if condition is not None and condition.get("reason") == "SyncFailed" else None


def causes(case: Case) -> Iterator[Cause]:
    condition = case.condition("DisruptionAllowed")
    since, line = (condition or {}).get("lastTransitionTime"), condition_line(condition)
    failed = _failed(case)
    if failed is not None:
        yield case.cause("budget-not-computed", f"no eviction is allowed: {failed.get('message')}", line, since=since)
        return
    if not case.is_observed or not pending(case):
        return
    if uncounted := _uncounted(case):
        named = ", ".join(uncounted[:MOST_FOLLOWED])
        yield case.cause(
            "budget-not-computed",
            f"{_limit(case)} needs the number of replicas, and its pods {named} have no controller",
            event_line(case.event("UnmanagedPods", "NoControllers", "CalculateExpectedPodCountFailed")),
            since=since,
        )
        return
    yield from _overlapping(case)
    status = case.status
    healthy, desired = status.get("currentHealthy") or 0, status.get("desiredHealthy") or 0
    expected = status.get("expectedPods") or 0
    if not expected or status.get("disruptionsAllowed"):
        return
    age = case.evidence.age(since)
    is_settled = age is not None and age > SETTLING
    counts = f"healthy pods: {healthy}, desired: {desired}, expected: {expected}"
    if desired >= expected and healthy >= expected:
        if is_settled:
            yield case.cause(
                "budget-allows-none",
                f"it never allows an eviction: {_limit(case)} requires all {expected} pods",
                line,
                counts,
                since=since,
            )
        return
    pods = case.evidence.selected(r.PODS, case.namespace, selector_of(case.obj))
    found = list(troubled_pods(case, pods))
    yield from found
    if is_lasting(found) or (not found and is_settled):
        yield case.cause(
            "budget-unhealthy",
            f"no eviction is allowed while {healthy} of {desired} required pods are healthy",
            line,
            counts,
            since=since,
        )


def _overlapping(case: Case) -> Iterator[Cause]:
    for name, pods in _others(case).items():
        yield case.cause(
            "selector-overlap",
            f"the PodDisruptionBudget {name} also selects {len(pods)} of its pods, and the API server evicts no pod of "
            "two budgets",
            f"pods of both: {', '.join(pods[:MOST_FOLLOWED])}",
            commands=(f"kubectl edit pdb {name} -n {case.namespace}",),
        )


def _limit(case: Case) -> str:
    for field in ("minAvailable", "maxUnavailable"):
        if case.spec.get(field) is not None:
            return f"{field} {case.spec[field]}"
    return "its specification"


def blocking(case: Case) -> Iterator[Cause]:
    """Yield the budgets that keep the pods of a cordoned node from being evicted."""
    budgets = [
        budget
        for budget in case.evidence.list(r.POD_DISRUPTION_BUDGETS)
        if (budget.get("status") or {}).get("expectedPods")
    ]
    if not budgets:
        return
    here = [pod for pod in case.evidence.list(r.PODS) if _is_to_evict(pod, case.name)]
    allowing = [budget for budget in budgets if budget["status"].get("disruptionsAllowed")]
    for budget in [budget for budget in budgets if budget not in allowing][:MOST_FOLLOWED]:
        if pods := _selected(budget, here):
            yield _blocked(
                case,
                pods,
                f"the PodDisruptionBudget {namespace_of(budget)}/{name_of(budget)} allows no eviction",
                f"status.disruptionsAllowed 0, expectedPods {budget['status'].get('expectedPods')}",
                budget,
            )
    for first, second in combinations(allowing[:MOST_COMPARED], 2):
        if pods := _selected(second, _selected(first, here)):
            yield _blocked(
                case,
                pods,
                f"the PodDisruptionBudgets {name_of(first)} and {name_of(second)} of namespace {namespace_of(first)} "
                "select them, and the API server evicts no pod of two budgets",
                "",
                first,
            )


def _blocked(case: Case, pods: Sequence[Object], why: str, line: str, budget: Object) -> Cause:
    names = ", ".join(name_of(pod) for pod in pods[:MOST_FOLLOWED])
    return case.cause(
        "drain-blocked",
        f"its pods {names} cannot be evicted: {why}",
        line,
        commands=(f"kubectl describe pdb {name_of(budget)} -n {namespace_of(budget)}",),
    )


def _is_to_evict(pod: Object, node: str) -> bool:
    owner = controller_of(pod)
    if (pod.get("spec") or {}).get("nodeName") != node or is_deleting(pod):
        return False
    return owner is None or owner.kind != "DaemonSet"


def _selected(budget: Object, pods: Sequence[Object]) -> list[Object]:
    selector, namespace = selector_of(budget), namespace_of(budget)
    return [pod for pod in pods if namespace_of(pod) == namespace and selector.matches(labels_of(pod))]
