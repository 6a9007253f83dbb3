"""Claims: fields, and owners under each retention policy."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from kcm.actors.controllers.workloads.statefulset.claims import (
    Member,
    claims_of,
    has_its_owners,
    has_other_controller,
    is_stale,
    with_its_owners,
)
from kcm.actors.controllers.workloads.statefulset.objects import StatefulSet
from kcm.protocols.objects import Object
from tests.actors.controllers.workloads.statefulset.scenes import a_claim, a_reference, a_set, read

SET = a_reference("StatefulSet", "web")
POD, CONDEMNED = a_reference("Pod", "web-1"), a_reference("Pod", "web-7")
OTHER = a_reference("ReplicaSet", "other")
POLICIES = list(product(("Retain", "Delete"), repeat=2))


def policy(deleted: str, scaled: str) -> StatefulSet:
    retention = {"whenDeleted": deleted, "whenScaled": scaled}
    return read(a_set(claims=["data"], persistentVolumeClaimRetentionPolicy=retention))


def member(ordinal: int = 1) -> Member:
    return Member(f"web-{ordinal}", f"uid-of-web-{ordinal}", ordinal)


def owners(claim: Object) -> list[Any]:
    return claim["metadata"]["ownerReferences"]  # type: ignore[no-any-return]


def test_claim_has_name_of_template_set_and_ordinal_and_selector_labels() -> None:
    templates = [
        {"metadata": {"name": "data", "labels": {"app": "x", "b": "c"}, "annotations": {"d": "e"}}, "spec": {"s": 1}}
    ]
    (claim,) = claims_of(read(a_set(volumeClaimTemplates=templates)), 2)
    assert claim["metadata"] == {
        "name": "data-web-2",
        "namespace": "default",
        "labels": {"app": "web", "b": "c"},
        "annotations": {"d": "e"},
    }
    assert claim["spec"] == {"s": 1}


@pytest.mark.parametrize(
    ("policies", "ordinal", "expected"),
    [
        (("Retain", "Delete"), 1, None),
        (("Delete", "Retain"), 1, [SET]),
        (("Delete", "Delete"), 1, [SET]),
        (("Delete", "Delete"), 7, None),  # condemned: owned by its pod once the pod has a uid
    ],
)
def test_new_claim_is_owned_by_the_set_if_deleted_with_it(
    policies: tuple[str, str], ordinal: int, expected: list[Object] | None
) -> None:
    (claim,) = claims_of(policy(*policies), ordinal)
    assert claim["metadata"].get("ownerReferences") == expected


@pytest.mark.parametrize("before", [[], [SET], [POD], [CONDEMNED], [SET, POD], [{**SET, "controller": False}]])
@pytest.mark.parametrize(("deleted", "scaled"), POLICIES)
@pytest.mark.parametrize("ordinal", [1, 7])
def test_claim_owners_follow_the_retention_policy(
    deleted: str, scaled: str, ordinal: int, before: list[Object]
) -> None:
    expected = {
        ("Retain", "Retain", 1): [],
        ("Retain", "Retain", 7): [],
        ("Delete", "Retain", 1): [SET],
        ("Delete", "Retain", 7): [SET],
        ("Retain", "Delete", 1): [],
        ("Retain", "Delete", 7): [CONDEMNED],
        ("Delete", "Delete", 1): [SET],
        ("Delete", "Delete", 7): [CONDEMNED],
    }[deleted, scaled, ordinal]
    mine = [each for each in before if each["name"] in ("web", f"web-{ordinal}")]
    claim, found = a_claim(f"data-web-{ordinal}", *mine), policy(deleted, scaled)
    assert has_its_owners(claim, found, member(ordinal)) == (mine == expected)
    assert owners(with_its_owners(claim, found, member(ordinal))) == expected


def test_foreign_owner_references_are_kept() -> None:
    other = {**OTHER, "controller": False}
    claim = with_its_owners(a_claim("data-web-1", other), policy("Delete", "Retain"), member())
    assert owners(claim) == [other, SET]


@pytest.mark.parametrize("former", [{**SET, "uid": "former"}, {**POD, "uid": "former"}])
def test_claim_of_a_former_set_or_pod_is_kept(former: Object) -> None:
    for deleted, scaled in POLICIES:
        claim, found = a_claim("data-web-1", former), policy(deleted, scaled)
        assert has_its_owners(claim, found, member())
        assert has_other_controller(claim, found, member()) == ("Delete" in (deleted, scaled))


def test_claim_of_former_pod_of_the_name_is_stale() -> None:
    assert is_stale(a_claim("data-web-1", POD), Member("web-1", "", 1))
    assert not is_stale(a_claim("data-web-1", POD), member())
    assert not is_stale(a_claim("data-web-1", SET, CONDEMNED), Member("web-1", "", 1))


def test_claim_of_another_controller_loses_own_references() -> None:
    found = policy("Delete", "Delete")
    assert has_other_controller(a_claim("data-web-1", OTHER), found, member())
    assert has_its_owners(a_claim("data-web-1", OTHER), found, member())
    claim = a_claim("data-web-1", OTHER, {**SET, "controller": False})
    assert not has_its_owners(claim, found, member())
    assert owners(with_its_owners(claim, found, member())) == [OTHER]


def test_retained_claim_of_another_controller_is_ignored() -> None:
    assert not has_other_controller(a_claim("data-web-1", OTHER), policy("Retain", "Retain"), member())


def test_unknown_policy_retains_claims() -> None:
    found = policy("Recycle", "Delete")
    assert not any(found.retention)
