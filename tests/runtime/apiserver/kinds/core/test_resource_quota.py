"""Validation and table cells of ResourceQuotas.

Cases of kubernetes pkg/apis/core/validation/validation_test.go (TestValidateResourceQuota),
pkg/printers/internalversion/printers_test.go (TestPrintResourceQuota) (v1.36).
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.kinds.core import resource_quota
from tests.runtime.apiserver.conftest import Answer, Api

OF_PODS = {"cpu": "100", "memory": "10000", "requests.cpu": "100", "limits.memory": "10000", "pods": "10"}
ALL = {
    **OF_PODS,
    "services": "0",
    "replicationcontrollers": "10",
    "resourcequotas": "10",
    "configmaps": "10",
    "secrets": "10",
    "services.nodeports": "1",
    "persistentvolumeclaims": "2",
    "requests.storage": "1Ti",
    "limits.ephemeral-storage": "1Gi",
    "hugepages-2Mi": "1Gi",
    "requests.hugepages-1Gi": "2Gi",
    "count/deployments.apps": "3",
    "requests.example.com/gpu": "4",
    "gold.storageclass.storage.k8s.io/requests.storage": "500Gi",
}


def create(api: Api, hard: Object, **spec: Any) -> Answer:
    return api.create("resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}})


def selecting(*terms: tuple[str, str, list[str]]) -> Object:
    return {
        "matchExpressions": [
            {"scopeName": name, "operator": operator, **({"values": values} if values else {})}
            for name, operator, values in terms
        ]
    }


@pytest.mark.parametrize(
    ("hard", "spec"),
    [
        (ALL, {}),
        ({"pods": "0.0"}, {}),
        (OF_PODS, {"scopes": ["Terminating", "NotBestEffort"]}),
        ({"pods": "1"}, {"scopes": ["BestEffort", "NotTerminating"]}),
        ({"pods": "1"}, {"scopes": ["CrossNamespacePodAffinity"]}),
        ({"requests.storage": "1Gi"}, {"scopes": ["VolumeAttributesClass"]}),
        ({"count/pods": "1"}, {"scopes": ["PriorityClass"]}),
        (OF_PODS, {"scopeSelector": selecting(("PriorityClass", "In", ["high"]), ("PriorityClass", "Exists", []))}),
        (OF_PODS, {"scopeSelector": selecting(("PriorityClass", "DoesNotExist", []))}),
    ],
)
def test_valid_quota_is_accepted(api: Api, hard: Object, spec: Object) -> None:
    answer = create(api, hard, **spec)
    assert answer.status == 201, answer.message
    assert answer.obj["status"] == {}


UNSUPPORTED = '{"MatchExpressions":[{"ScopeName":"BestEffort","Operator":"Exists","Values":null}]}'


@pytest.mark.parametrize(
    ("hard", "spec", "causes"),
    [
        ({"cpu": "-1"}, {}, {"spec.hard[cpu]": 'Invalid value: "-1": must be greater than or equal to 0'}),
        ({"pods": "500m"}, {}, {"spec.hard[pods]": 'Invalid value: "500m": must be an integer'}),
        (
            {"example.com/gpu": "1500m"},
            {},
            {"spec.hard[example.com/gpu]": 'Invalid value: "1500m": must be an integer'},
        ),
        (
            {"storage": "1"},
            {},
            {"spec.hard[storage]": 'Invalid value: "storage": must be a standard resource for quota'},
        ),
        (
            {"batteries": "1"},
            {},
            {"spec.hard[batteries]": 'Invalid value: "batteries": must be a standard resource for quota'},
        ),
        (
            {"pods": "1"},
            {"scopes": ["Terminating", "NotTerminating"]},
            {"spec.scopes": 'Invalid value: ["Terminating","NotTerminating"]: conflicting scopes'},
        ),
        (
            {"pods": "1"},
            {"scopes": ["BestEffort", "NotBestEffort"]},
            {"spec.scopes": 'Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes'},
        ),
        (
            {"cpu": "1"},
            {"scopes": ["BestEffort"]},
            {"spec.scopes": 'Invalid value: ["BestEffort"]: unsupported scope applied to resource'},
        ),
        ({"pods": "1"}, {"scopes": ["bogus"]}, {"spec.scopes": 'Invalid value: ["bogus"]: unsupported scope'}),
        (
            {"cpu": "1"},
            {"scopeSelector": selecting(("BestEffort", "Exists", []))},
            {
                "spec.scopeSelector.matchExpressions": (
                    f"Invalid value: {UNSUPPORTED}: unsupported scope applied to resource"
                )
            },
        ),
        (
            {"pods": "1"},
            {"scopeSelector": selecting(("PriorityClass", "In", []))},
            {
                "spec.scopeSelector.matchExpressions.values": (
                    "Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                )
            },
        ),
        (
            {"pods": "1"},
            {"scopeSelector": selecting(("PriorityClass", "Exists", ["a"]))},
            {
                "spec.scopeSelector.matchExpressions.values": (
                    "Invalid value: [\"a\"]: must be no value when `operator` is 'Exist' or 'DoesNotExist' "
                    "for scope selector"
                )
            },
        ),
        (
            {"pods": "1"},
            {"scopeSelector": selecting(("PriorityClass", "Like", []))},
            {"spec.scopeSelector.matchExpressions.operator": ('Invalid value: "Like": not a valid selector operator')},
        ),
        (
            {"pods": "1"},
            {"scopeSelector": selecting(("bogus", "Exists", []))},
            {"spec.scopeSelector.matchExpressions.scopeName": 'Invalid value: "bogus": unsupported scope'},
        ),
    ],
)
def test_invalid_quota_is_rejected(api: Api, hard: Object, spec: Object, causes: Object) -> None:
    answer = create(api, hard, **spec)
    assert answer.status == 422
    assert causes.items() <= answer.causes.items()


def test_unqualified_resource_is_reported_twice_as_upstream(api: Api) -> None:
    message = create(api, {"batteries": "1"}).message
    assert message == (
        'ResourceQuota "q" is invalid: [spec.hard[batteries]: Invalid value: "batteries": must be a standard resource '
        'type or fully qualified, spec.hard[batteries]: Invalid value: "batteries": '
        "must be a standard resource for quota]"
    )


def test_scope_operators_other_than_exists_are_only_for_priority_classes(api: Api) -> None:
    answer = create(api, {"pods": "1"}, scopeSelector=selecting(("Terminating", "NotIn", ["x"])))
    assert answer.causes["spec.scopeSelector.matchExpressions.operator"].startswith(
        "Invalid value: \"NotIn\": must be 'Exists' when scope is any of ResourceQuotaScopeTerminating"
    )


def test_scopes_are_immutable_and_limits_are_not(api: Api) -> None:
    create(api, {"pods": "1"}, scopes=["Terminating"])
    assert api.patch("resourcequotas", "q", {"spec": {"hard": {"pods": "2"}}}).status == 200
    changed = api.patch("resourcequotas", "q", {"spec": {"scopes": ["BestEffort"]}})
    assert changed.causes == {"spec.scopes": 'Invalid value: ["BestEffort"]: field is immutable'}


def test_invalid_quota_status_is_rejected(api: Api) -> None:
    made = create(api, {"pods": "1"}).obj
    status = {"hard": {"pods": "1"}, "used": {"pods": "500m"}}
    refused = api.put("resourcequotas", {**made, "status": status}, "status")
    assert refused.causes == {"status.used[pods]": 'Invalid value: "500m": must be an integer'}


def test_row_shows_usage_of_requests_and_limits() -> None:
    hard = {"pods": "8", "requests.cpu": "2", "limits.cpu": "4", "limits.memory": "2Gi"}
    shown: Object = {
        "metadata": {"name": "q", "creationTimestamp": "2001-09-09T01:46:40Z"},
        "status": {"hard": hard, "used": {"pods": "3", "limits.memory": "1Gi"}},
    }
    assert resource_quota.cells(shown, 1_000_000_060.0) == [
        "q",
        "pods: 3/8, requests.cpu: 0/2",
        "limits.cpu: 0/4, limits.memory: 1Gi/2Gi",
        "60s",
    ]
