"""The directive $setElementOrder in strategic merge patches."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.reconciliation import merge_status
from kcm.actors.reconciliation.element_order import in_element_order
from kcm.protocols.objects import decode_object
from kcm.protocols.resources import PODS


def types(*names: str) -> list[dict[str, str]]:
    return [{"type": name} for name in names]


@pytest.mark.parametrize(
    ("current", "changes", "expected"),
    [
        # The rows are the patches of client-go's CreateTwoWayMergePatch.
        ({}, {"conditions": types("New")}, {"conditions": types("New")}),
        ({"conditions": []}, {"conditions": types("New")}, {"conditions": types("New")}),
        (
            {"conditions": types("Ready", "Scheduled")},
            {"conditions": types("New")},
            {"$setElementOrder/conditions": types("Ready", "Scheduled", "New"), "conditions": types("New")},
        ),
        (
            {"conditions": types("A", "B")},
            {"conditions": types("New", "B", "A")},
            {"$setElementOrder/conditions": types("A", "B", "New"), "conditions": types("A", "B", "New")},
        ),
        (
            {"podIPs": [{"ip": "10.0.0.1"}]},
            {"podIPs": [{"ip": "fd00::1"}]},
            {"$setElementOrder/podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], "podIPs": [{"ip": "fd00::1"}]},
        ),
        (
            {"finalizers": ["a/b"]},
            {"finalizers": ["c/d"]},
            {"$setElementOrder/finalizers": ["a/b", "c/d"], "finalizers": ["c/d"]},
        ),
        ({"conditions": types("A")}, {"phase": "Failed"}, {"phase": "Failed"}),
        ({"conditions": types("A")}, {"conditions": None}, {"conditions": None}),
        ({"ingress": [{"ip": "a"}]}, {"ingress": [{"ip": "b"}]}, {"ingress": [{"ip": "b"}]}),
    ],
)
def test_merged_lists_are_sent_with_the_order_of_all_elements(
    current: dict[str, Any], changes: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert in_element_order(current, changes) == expected


@pytest.mark.parametrize("ordered", [True, False])
def test_status_patch_without_order_names_only_the_change(ordered: bool) -> None:
    pod = {
        "metadata": {"name": "p", "namespace": "d", "uid": "u"},
        "status": {"conditions": types("Ready")},
    }
    command = merge_status(PODS, pod, {"conditions": types("New")}, ordered=ordered)
    assert ("$setElementOrder/conditions" in decode_object(command.body)["status"]) is ordered
