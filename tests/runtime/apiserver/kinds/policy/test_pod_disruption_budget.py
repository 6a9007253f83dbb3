"""Validation and defaults of PodDisruptionBudgets.

Source of the cases: pkg/apis/policy/validation/validation_test.go, pkg/registry/policy/poddisruptionbudget (v1.36).
"""

from __future__ import annotations

import pytest

from kcm.protocols.objects import Object
from tests.runtime.apiserver.conftest import Api

PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
BOTH = '{"MinAvailable":1,"Selector":{},"MaxUnavailable":"10%","UnhealthyPodEvictionPolicy":null}'
CONDITION = {
    "type": "DisruptionAllowed",
    "status": "False",
    "reason": "InsufficientPods",
    "message": "",
    "lastTransitionTime": "2001-09-09T01:46:40Z",
}


def budget(**spec: object) -> Object:
    return {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec}}


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ({"minAvailable": -1}, "spec.minAvailable", "Invalid value: -1: must be greater than or equal to 0"),
        ({"maxUnavailable": "10"}, "spec.maxUnavailable", f'Invalid value: "10": {PERCENT}'),
        ({"minAvailable": "1.5%"}, "spec.minAvailable", f'Invalid value: "1.5%": {PERCENT}'),
        ({"minAvailable": "110%"}, "spec.minAvailable", 'Invalid value: "110%": must not be greater than 100%'),
        ({"maxUnavailable": "101%"}, "spec.maxUnavailable", 'Invalid value: "101%": must not be greater than 100%'),
        (
            {"minAvailable": 1, "maxUnavailable": "10%", "selector": {}},
            "spec",
            f"Invalid value: {BOTH}: minAvailable and maxUnavailable cannot be both set",
        ),
        (
            {"unhealthyPodEvictionPolicy": "Never"},
            "spec.unhealthyPodEvictionPolicy",
            'Unsupported value: "Never": supported values: "AlwaysAllow", "IfHealthyBudget"',
        ),
        (
            {"selector": {"matchExpressions": [{"key": "app", "operator": "Maybe"}]}},
            "spec.selector.matchExpressions[0].operator",
            'Invalid value: "Maybe": not a valid selector operator',
        ),
    ],
)
def test_invalid_budget_is_rejected(api: Api, spec: Object, field: str, message: str) -> None:
    refused = api.create("poddisruptionbudgets", budget(**spec))
    assert (refused.status, refused.causes) == (422, {field: message})


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"minAvailable": 0},
        {"minAvailable": "100%"},
        {"maxUnavailable": "0%"},
        {"maxUnavailable": 5, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
        {"selector": None},
    ],
)
def test_valid_budget_is_created_with_an_empty_status(api: Api, spec: Object) -> None:
    made = api.create("poddisruptionbudgets", {**budget(**spec), "status": {"disruptionsAllowed": 7}})
    assert made.status == 201
    counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    assert made.obj["status"] == dict.fromkeys(counts, 0)
    assert made.meta["generation"] == 1


def test_update_needs_a_version_and_increases_the_generation(api: Api) -> None:
    made = api.create("poddisruptionbudgets", budget(minAvailable=1)).obj
    unversioned = budget(minAvailable=2)
    assert api.put("poddisruptionbudgets", unversioned).status == 422
    changed = api.put("poddisruptionbudgets", {**made, "spec": {**made["spec"], "minAvailable": 2}})
    assert (changed.status, changed.meta["generation"]) == (200, 2)


@pytest.mark.parametrize(
    ("status", "field", "message"),
    [
        (
            {"disruptionsAllowed": -1},
            "status.disruptionsAllowed",
            "Invalid value: -1: must be greater than or equal to 0",
        ),
        ({"expectedPods": -1}, "status.expectedPods", "Invalid value: -1: must be greater than or equal to 0"),
        ({"conditions": [CONDITION, CONDITION]}, "status.conditions[1].type", 'Duplicate value: "DisruptionAllowed"'),
        (
            {"conditions": [{**CONDITION, "status": "Maybe"}]},
            "status.conditions[0].status",
            'Unsupported value: "Maybe": supported values: "False", "True", "Unknown"',
        ),
        ({"conditions": [{**CONDITION, "reason": ""}]}, "status.conditions[0].reason", "Required value"),
        (
            {"conditions": [{**CONDITION, "observedGeneration": -1}]},
            "status.conditions[0].observedGeneration",
            "Invalid value: -1: must be greater than or equal to zero",
        ),
        (
            {"conditions": [{**CONDITION, "message": "m" * 32769}]},
            "status.conditions[0].message",
            "Too long: may not be more than 32768 bytes",
        ),
        (
            {"conditions": [{**CONDITION, "lastTransitionTime": None}]},
            "status.conditions[0].lastTransitionTime",
            "Required value",
        ),
    ],
)
def test_invalid_status_is_rejected(api: Api, status: Object, field: str, message: str) -> None:
    made = api.create("poddisruptionbudgets", budget()).obj
    refused = api.put("poddisruptionbudgets", {**made, "status": {**made["status"], **status}}, subresource="status")
    assert (refused.status, refused.causes) == (422, {field: message})
