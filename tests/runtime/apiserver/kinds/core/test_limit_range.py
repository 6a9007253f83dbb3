"""Validation of LimitRanges.

Source of the cases: kubernetes pkg/apis/core/validation/validation_test.go (TestValidateLimitRange) (v1.36).
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.protocols.objects import Object
from tests.runtime.apiserver.conftest import Answer, Api


def create(api: Api, *items: Object, name: str | None = "l") -> Answer:
    meta = {} if name is None else {"name": name}
    return api.create("limitranges", {"metadata": meta, "spec": {"limits": list(items)}})


def item(type_: str, **parts: Any) -> Object:
    return {"type": type_, **parts}


@pytest.mark.parametrize(
    "items",
    [
        [
            item("Pod", max={"cpu": "100m", "memory": "10Gi"}, min={"cpu": "5m"}, maxLimitRequestRatio={"cpu": "10"}),
            item(
                "Container",
                max={"cpu": "100m"},
                min={"cpu": "5m"},
                default={"cpu": "50m"},
                defaultRequest={"cpu": "10m"},
                maxLimitRequestRatio={"cpu": "10"},
            ),
            item("PersistentVolumeClaim", max={"storage": "10Gi"}, min={"storage": "5Gi"}),
        ],
        [item("PersistentVolumeClaim", min={"storage": "5Gi"})],
        [item("Container", max={"hugepages-2Mi": "1Gi", "example.com/gpu": "2"})],
        [item("thirdparty.com/foo", max={"cpu": "1"}, min={"memory": "1"}, defaultRequest={"example.com/x": "1"})],
        [],
    ],
)
def test_valid_limits_are_accepted(api: Api, items: list[Object]) -> None:
    answer = create(api, *items)
    assert answer.status == 201, answer.message


@pytest.mark.parametrize(
    ("items", "field", "message"),
    [
        ([item("Pod"), item("Pod")], "[1].type", 'Duplicate value: "Pod"'),
        ([item("bogus")], "[0].type", 'Invalid value: "bogus": must be a standard limit type or fully qualified'),
        (
            [item("Pod", default={"cpu": "1"})],
            "[0].default",
            "Forbidden: may not be specified when `type` is 'Pod'",
        ),
        (
            [item("Pod", defaultRequest={"cpu": "1"})],
            "[0].defaultRequest",
            "Forbidden: may not be specified when `type` is 'Pod'",
        ),
        (
            [item("Pod", max={"storage": "1"})],
            "[0].max[storage]",
            'Invalid value: "storage": must be a standard resource for containers',
        ),
        (
            [item("Pod", max={"requests.example.com/x": "1"})],
            "[0].max[requests.example.com/x]",
            'Invalid value: "requests.example.com/x": doesn\'t follow extended resource name standard',
        ),
        (
            [item("Pod", min={"cpu": "2"}, max={"cpu": "1"})],
            "[0].min[cpu]",
            'Invalid value: "2": min value 2 is greater than max value 1',
        ),
        (
            [item("Container", min={"cpu": "200m"}, defaultRequest={"cpu": "100m"})],
            "[0].defaultRequest[cpu]",
            'Invalid value: "100m": min value 200m is greater than default request value 100m',
        ),
        (
            [item("Container", max={"cpu": "1"}, defaultRequest={"cpu": "2"}, default={"cpu": "1"})],
            "[0].defaultRequest[cpu]",
            'Invalid value: "2": default request value 2 is greater than default limit value 1',
        ),
        (
            [item("Container", min={"cpu": "2"}, default={"cpu": "1"})],
            "[0].default[cpu]",
            'Invalid value: "2": min value 2 is greater than default value 1',
        ),
        (
            [item("Container", max={"cpu": "1"}, default={"cpu": "2"})],
            "[0].default[cpu]",
            'Invalid value: "1": default value 2 is greater than max value 1',
        ),
        (
            [item("Pod", maxLimitRequestRatio={"cpu": "800m"})],
            "[0].maxLimitRequestRatio[cpu]",
            'Invalid value: "800m": ratio 800m is less than 1',
        ),
        (
            [item("Pod", min={"memory": "512Mi"}, max={"memory": "1Gi"}, maxLimitRequestRatio={"memory": "3"})],
            "[0].maxLimitRequestRatio[memory]",
            'Invalid value: "3": ratio 3 is greater than max/min = 2.000000',
        ),
        (
            [item("PersistentVolumeClaim")],
            "[0].limits",
            "Required value: either minimum or maximum storage value is required, but neither was provided",
        ),
        (
            [item("Container", default={"example.com/gpu": "2"}, defaultRequest={"example.com/gpu": "1"})],
            "[0].defaultRequest[example.com/gpu]",
            'Invalid value: "1": default value 2 must equal to defaultRequest value 1 in example.com/gpu',
        ),
    ],
)
def test_invalid_limits_are_rejected(api: Api, items: list[Object], field: str, message: str) -> None:
    answer = create(api, *items)
    assert answer.status == 422
    assert message in answer.message
    assert f"spec.limits{field}" in answer.causes


def test_update_of_limits_is_validated(api: Api) -> None:
    create(api, item("Pod", max={"cpu": "1"}))
    assert api.patch("limitranges", "l", {"spec": {"limits": [{"type": "bogus"}]}}).status == 422


def test_limit_range_without_name_gets_its_uid_as_name(api: Api) -> None:
    made = create(api, name=None)
    assert made.status == 201, made.message
    assert made.meta["name"] == made.meta["uid"]
