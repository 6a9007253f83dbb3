"""The texts of the disruption controller's events.

Source: kubernetes v1.36 pkg/controller/disruption/disruption.go; apimachinery pkg/apis/meta/v1/generated.pb.go, for how
Go prints a LabelSelector.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def unmanaged_pods(selector: Mapping[str, Any] | None) -> str:
    return (
        f"Pods selected by this PodDisruptionBudget (selector: {selector_in_go(selector)}) were found to be unmanaged. "
        "As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To "
        'account for these pods please set ".spec.minAvailable" field of the PDB to an integer value.'
    )


def several_budgets(namespace: str, name: str, chosen: str) -> str:
    return f'Pod "{namespace}"/"{name}" matches multiple PodDisruptionBudgets.  Chose "{chosen}" arbitrarily.'


def not_deleted(budget: str) -> str:
    """budget: its namespace and name; upstream names the namespace twice."""
    return f"Pod was expected by PDB {budget} to be deleted but it wasn't"


def selector_in_go(selector: Mapping[str, Any] | None) -> str:
    if selector is None:
        return "nil"
    labels = selector.get("matchLabels") or {}
    equal = "".join(f"{label}: {labels[label]}," for label in sorted(labels))
    others = "".join(
        f"LabelSelectorRequirement{{Key:{one.get('key', '')},Operator:{one.get('operator', '')},"
        f"Values:[{' '.join(one.get('values') or ())}],}},"
        for one in selector.get("matchExpressions") or ()
    )
    expressions = f"[]LabelSelectorRequirement{{{others}}}"
    return f"&LabelSelector{{MatchLabels:map[string]string{{{equal}}},MatchExpressions:{expressions},}}"
