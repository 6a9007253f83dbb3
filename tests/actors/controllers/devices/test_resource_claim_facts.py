"""Tests of the resource claim controller: what it reads from claims, and its count of claims.

Source of the cases: kubernetes v1.36 pkg/controller/resourceclaim/controller_test.go.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.controllers.devices.resource_claim.metrics import CLAIMS
from kcm.protocols.objects import Object
from kcm.protocols.resource_claims import EXTENDED_RESOURCE_CLAIM, is_reserved_for, owner_problem, resource_claim_facts
from kcm.protocols.resources import RESOURCE_CLAIMS
from tests.actors.controllers.devices.claim_scene import (
    ADMIN,
    CONSUMER,
    CONSUMER_II,
    GENERATED,
    GROUP_CONSUMER,
    NAMESPACE,
    OF_GROUP,
    OF_OTHER,
    OF_POD,
    POD,
    Scene,
    claim,
    pod,
)


@pytest.mark.parametrize(
    ("user", "owner", "accept_group", "problem"),
    [
        (POD, OF_POD, False, ""),
        (POD, None, False, "(Pod is not owner)"),
        (POD, OF_OTHER, False, "(Pod is not owner)"),
        (POD, OF_OTHER, True, "(Pod is not owner)"),
        (pod("test-pod", group="group"), OF_GROUP, False, "(Pod is not owner)"),
        (pod("test-pod", group="group"), OF_GROUP, True, ""),
        (pod("test-pod", group="group"), {**OF_GROUP, "apiVersion": "scheduling.k8s.io/v1"}, True, ""),
        (
            pod("test-pod", group="group"),
            {**OF_GROUP, "apiVersion": "example.com/v1"},
            True,
            "(neither Pod nor PodGroup group is the owner)",
        ),
        (pod("test-pod", group="other"), OF_GROUP, True, "(neither Pod nor PodGroup other is the owner)"),
    ],
)
def test_pod_uses_a_generated_claim_only_if_it_or_its_group_is_the_owner(
    user: Object, owner: Object | None, accept_group: bool, problem: str
) -> None:
    text = owner_problem(user, claim(owner=owner), accept_group=accept_group)
    whole = f"ResourceClaim {NAMESPACE}/{GENERATED} was not created for Pod {NAMESPACE}/test-pod {problem}"
    assert text == (whole if problem else "")


@pytest.mark.parametrize(
    ("user", "reserved", "accept_group", "expected"),
    [
        (POD, [], False, False),
        (POD, [CONSUMER], False, True),
        (POD, [CONSUMER_II], False, False),
        (pod("test-pod", group="group"), [GROUP_CONSUMER], False, False),
        (pod("test-pod", group="group"), [GROUP_CONSUMER], True, True),
        (pod("test-pod", group="other"), [GROUP_CONSUMER], True, False),
        (POD, [GROUP_CONSUMER], True, False),
    ],
)
def test_claim_is_reserved_for_the_pod_or_its_group(
    user: Object, reserved: list[Object], accept_group: bool, expected: bool
) -> None:
    assert is_reserved_for(user, claim(reserved=reserved), accept_group=accept_group) is expected


def exactly(value: bool | None) -> Object:
    return {"exactly": {} if value is None else {"adminAccess": value}}


@pytest.mark.parametrize(
    ("requests", "admin"),
    [
        (None, False),
        ([exactly(False)], False),
        ([exactly(True)], True),
        ([{"firstAvailable": [{}]}], False),
        ([exactly(False), exactly(True)], True),
        ([exactly(None), exactly(False)], False),
    ],
)
def test_claim_has_admin_access_if_a_request_has(requests: Any, admin: bool) -> None:
    made = claim(spec={"devices": {"requests": requests}} if requests else {})
    assert resource_claim_facts(made).admin_access is admin


@pytest.mark.parametrize("field", [{"status": {"reservedFor": "x"}}, {"spec": {"devices": {"requests": ["x"]}}}])
def test_malformed_claim_is_unreadable(field: Object) -> None:
    with pytest.raises(ValueError, match="is a"):
        resource_claim_facts({**claim(), **field})


def test_claims_are_counted_at_each_scrape() -> None:
    extended = {EXTENDED_RESOURCE_CLAIM: "true"}
    scene = Scene(
        claims=[
            claim("a", templated=False),
            claim("b", templated=False, allocated=True),
            claim("c", spec=ADMIN),
            claim("d", spec=ADMIN, allocated=True),
            claim("e", templated=False, annotations=extended),
            claim("f", templated=False, annotations={EXTENDED_RESOURCE_CLAIM: "false"}),
        ]
    )

    def counts() -> dict[tuple[str, ...], float]:
        return {labels: s.value for family, all_ in scene.metrics.collect() if family is CLAIMS for labels, s in all_}

    assert counts() == {
        ("false", "false", ""): 2.0,
        ("true", "false", ""): 1.0,
        ("false", "true", "resource_claim_template"): 1.0,
        ("true", "true", "resource_claim_template"): 1.0,
        ("false", "false", "extended_resource"): 1.0,
    }
    scene.bench.hide(RESOURCE_CLAIMS, f"{NAMESPACE}/e")
    scene.bench.show(RESOURCE_CLAIMS, claim("a", templated=False, allocated=True))
    assert counts() == {
        ("false", "false", ""): 1.0,
        ("true", "false", ""): 2.0,
        ("false", "true", "resource_claim_template"): 1.0,
        ("true", "true", "resource_claim_template"): 1.0,
    }
