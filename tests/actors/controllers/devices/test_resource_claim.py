"""Tests of the resource claim controller: claims that are created from templates.

Source of the cases: kubernetes v1.36 pkg/controller/resourceclaim/controller_test.go.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.controllers.devices.resource_claim.claims import name_base
from kcm.actors.controllers.devices.resource_claim.reconciler import ClaimError
from kcm.actors.controllers.devices.resource_claim.watches import PodGroupMissingError
from kcm.actors.reconciliation import Retry
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Create, Get, Patch
from kcm.protocols.messages.outcomes import (
    AlreadyExists,
    Conflict,
    Done,
    Forbidden,
    NotFound,
    Outcome,
    Refused,
    Unknown,
)
from kcm.protocols.objects import Object, annotations_of, decode_object, encode_object, name_of
from kcm.protocols.resource_claims import POD_CLAIM_NAME
from kcm.protocols.resources import POD_GROUPS, PODS
from tests.actors.controllers.devices.claim_scene import (
    ADMIN,
    ENTRY,
    GENERATED,
    GROUP,
    GROUP_KEY,
    LATER,
    NAMESPACE,
    OF_GROUP,
    OF_OTHER,
    OF_POD,
    PLAIN,
    POD,
    POD_KEY,
    PRIORITIZED,
    TEMPLATE,
    Scene,
    claim,
    entry,
    pod,
    podgroup,
    statuses,
    template,
)

NO_TEMPLATE = f'resource claim template "{TEMPLATE}": resourceclaimtemplate.resource.k8s.io "{TEMPLATE}" not found'
NO_ADMIN = "admin access is requested, but the feature is disabled"
NO_LIST = "template includes a prioritized list of subrequests, but the feature is disabled"


@pytest.mark.parametrize(
    ("scene", "key", "spec", "metric"),
    [
        ({"pods": [POD], "templates": [template()]}, POD_KEY, {}, ("success", "false")),
        ({"pods": [POD], "templates": [template(ADMIN)]}, POD_KEY, ADMIN, ("success", "true")),
        ({"pods": [POD], "templates": [template(PRIORITIZED)]}, POD_KEY, PRIORITIZED, ("success", "false")),
        ({"groups": [GROUP], "templates": [template()]}, GROUP_KEY, {}, ("success", "false")),
        (  # recreate
            {"pods": [pod("test-pod", entry(), recorded={ENTRY: GENERATED})], "templates": [template()]},
            POD_KEY,
            {},
            ("success", "false"),
        ),
        (
            {"groups": [podgroup(entry(), recorded={ENTRY: GENERATED})], "templates": [template()]},
            GROUP_KEY,
            {},
            ("success", "false"),
        ),
        (  # the group's claim, while the feature gate is disabled
            {
                "pods": [pod("test-pod", entry(), group="group")],
                "claims": [claim("of-group", owner=OF_GROUP)],
                "templates": [template()],
            },
            POD_KEY,
            {},
            ("success", "false"),
        ),
        (  # the recorded claim belongs to another pod
            {
                "pods": [pod("test-pod", entry(), recorded={ENTRY: "other"})],
                "claims": [claim("other", owner=OF_OTHER)],
                "templates": [template()],
            },
            POD_KEY,
            {},
            ("success", "false"),
        ),
    ],
)
def test_missing_claim_is_created_and_its_name_recorded(
    scene: Any, key: str, spec: Object, metric: tuple[str, str]
) -> None:
    tried = Scene(**scene)
    before = [name_of(each) for each in tried.claims()]
    driven = tried.reconcile(key)
    (made,) = (each for each in tried.claims() if name_of(each) not in before)
    owner, of, name = (OF_POD, PODS, "test-pod") if key == POD_KEY else (OF_GROUP, POD_GROUPS, "group")
    assert made["spec"] == spec
    assert made["metadata"]["ownerReferences"] == [owner]
    assert annotations_of(made) == {POD_CLAIM_NAME: ENTRY}
    assert made["metadata"]["generateName"] == f"{name}-{ENTRY}-"
    assert name_of(made).startswith(f"{name}-{ENTRY}-")
    assert name_of(made) != GENERATED
    assert tried.recorded(of, name) == [statuses(ENTRY, name_of(made))]
    assert tried.created() == {metric: 1.0}
    (applied,) = driven.of(Patch)
    assert (applied.subresource, applied.field_manager, applied.force) == ("status", "ResourceClaimController", True)
    assert tried.reconcile(key).commands == []  # the own writes are known at once


def test_claim_has_labels_and_annotations_of_its_template() -> None:
    scene = Scene(pods=[POD], templates=[template(labels={"a": "b"}, annotations={"c": "d", POD_CLAIM_NAME: "x"})])
    scene.reconcile(POD_KEY)
    (made,) = scene.claims()
    assert made["metadata"]["labels"] == {"a": "b"}
    assert annotations_of(made) == {"c": "d", POD_CLAIM_NAME: ENTRY}


@pytest.mark.parametrize(
    ("scene", "key", "error"),
    [
        ({"pods": [POD]}, POD_KEY, NO_TEMPLATE),
        ({"groups": [GROUP]}, GROUP_KEY, NO_TEMPLATE),
        ({"pods": [POD], "claims": [claim("test-pod-acme-resource", templated=False)]}, POD_KEY, NO_TEMPLATE),
        ({"pods": [POD], "templates": [template(ADMIN)], "admin_access": False}, POD_KEY, NO_ADMIN),
        ({"groups": [GROUP], "templates": [template(ADMIN)], "admin_access": False}, GROUP_KEY, NO_ADMIN),
        ({"pods": [POD], "templates": [template(PRIORITIZED)], "prioritized_list": False}, POD_KEY, NO_LIST),
        (
            {"pods": [pod("test-pod", {"name": ENTRY})]},
            POD_KEY,
            (
                f'checking for claim before creating it: pod "{NAMESPACE}/test-pod", spec.resourceClaim "{ENTRY}": '
                "none of the supported fields are set"
            ),
        ),
    ],
)
def test_claim_that_cannot_be_created_is_reported(scene: Any, key: str, error: str) -> None:
    tried = Scene(**scene)
    driven = tried.reconcile(key, raises=ClaimError)
    kind = "Pod" if key == POD_KEY else "PodGroup"
    assert driven.events == [("Warning", "FailedResourceClaimCreation", f"{kind}ResourceClaim {ENTRY}: {error}")]
    assert str(driven.error) == error
    assert driven.commands == []
    assert tried.created() == {}


@pytest.mark.parametrize(
    ("failure", "event"),
    [
        (Conflict("Operation cannot be fulfilled"), "create ResourceClaim : Operation cannot be fulfilled"),
        (Forbidden("no"), "create ResourceClaim : no"),
        (Unknown("timeout"), "create ResourceClaim : timeout"),
        (Refused("the lease is lost"), ""),
    ],
)
@pytest.mark.parametrize("key", [POD_KEY, GROUP_KEY])
def test_failed_creation_is_reported_and_counted(failure: Any, event: str, key: str) -> None:
    scene = Scene(pods=[POD], groups=[GROUP], templates=[template()])
    driven = scene.reconcile(key, lambda _: failure, raises=CommandError)
    kind = "Pod" if key == POD_KEY else "PodGroup"
    assert [text for _, _, text in driven.events] == ([f"{kind}ResourceClaim {ENTRY}: {event}"] if event else [])
    assert scene.created() == {("failure", "false"): 1.0}
    assert driven.of(Patch) == []


def test_creation_with_unknown_outcome_is_retried_under_the_same_name() -> None:
    scene = Scene(pods=[POD], templates=[template()])
    (first,) = scene.reconcile(POD_KEY, lambda _: Unknown(), raises=CommandError).of(Create)
    made = decode_object(first.body)
    scene.bench.show(PODS, {**POD, "metadata": {**POD["metadata"], "labels": {"new": "version"}}})

    def existing(command: Command) -> Outcome:
        if isinstance(command, Create):
            return AlreadyExists()
        if isinstance(command, Get):
            return Done(encode_object({**made, "metadata": {**made["metadata"], "uid": "u", "resourceVersion": "5"}}))
        return scene.accept(command)

    driven = scene.reconcile(POD_KEY, existing)
    (again,) = driven.of(Create)
    assert name_of(decode_object(again.body)) == name_of(made)
    assert scene.recorded() == [statuses(ENTRY, name_of(made))]


@pytest.mark.parametrize(
    "there", [None, claim("x", owner=OF_OTHER, uid="u", resourceVersion="5"), claim("x", uid="u", resourceVersion="5")]
)
def test_name_of_a_foreign_claim_is_not_recorded(there: Object | None) -> None:
    scene = Scene(pods=[POD], templates=[template()])

    def taken(command: Command) -> Outcome:
        if isinstance(command, Create):
            return AlreadyExists()
        assert isinstance(command, Get)
        return NotFound() if there is None else Done(encode_object(there))

    assert scene.reconcile(POD_KEY, taken, raises=Retry).of(Patch) == []


@pytest.mark.parametrize(
    ("scene", "key"),
    [
        ({"pods": [POD], "claims": [claim(owner=OF_POD)]}, POD_KEY),
        ({"groups": [GROUP], "claims": [claim(owner=OF_GROUP)]}, GROUP_KEY),
        (
            {
                "pods": [pod("test-pod", entry(), group="group")],
                "groups": [GROUP],
                "claims": [claim(owner=OF_GROUP)],
                "templates": [template()],
            },
            POD_KEY,
        ),
        ({"pods": [POD], "claims": [claim("a", owner=OF_POD, deletionTimestamp=LATER), claim(owner=OF_POD)]}, POD_KEY),
        ({"pods": [POD], "claims": [claim(f"{GENERATED}-2", owner=OF_POD), claim(owner=OF_POD)]}, POD_KEY),
    ],
)
def test_existing_claim_is_found_by_its_owner_and_annotation(scene: Any, key: str) -> None:
    tried = Scene(**scene)
    driven = tried.reconcile(key)
    assert driven.of(Create) == []
    of, name = (PODS, "test-pod") if key == POD_KEY else (POD_GROUPS, "group")
    assert tried.recorded(of, name) == [statuses(ENTRY, GENERATED)]


def test_claims_of_other_entries_and_pods_are_not_taken() -> None:
    others = [
        claim("a", owner=OF_OTHER),
        claim("b", owner=OF_POD, templated=False),
        claim("c", owner=OF_POD, annotations={POD_CLAIM_NAME: "other"}, templated=False),
        {**claim("d", owner=OF_POD), "metadata": {**claim("d", owner=OF_OTHER)["metadata"], "namespace": "elsewhere"}},
    ]
    scene = Scene(pods=[POD], claims=others, templates=[template()])
    scene.reconcile(POD_KEY)
    assert len(scene.claims()) == 5


@pytest.mark.parametrize(
    ("scene", "key"),
    [
        ({}, POD_KEY),
        ({"groups": []}, GROUP_KEY),
        ({"pods": [PLAIN]}, POD_KEY),
        ({"pods": [pod("test-pod", entry(), deletionTimestamp=LATER)], "templates": [template()]}, POD_KEY),
        ({"groups": [podgroup(entry(), deletionTimestamp=LATER)], "templates": [template()]}, GROUP_KEY),
        (
            {
                "pods": [pod("test-pod", entry(), recorded={ENTRY: GENERATED})],
                "claims": [claim(owner=OF_POD)],
                "templates": [template()],
            },
            POD_KEY,
        ),
        (
            {"groups": [podgroup(entry(), recorded={ENTRY: GENERATED})], "claims": [claim(owner=OF_GROUP)]},
            GROUP_KEY,
        ),
        ({"pods": [pod("test-pod", entry(claim="by-user"))]}, POD_KEY),
        ({"pods": [pod("test-pod", entry(), phase="Failed")], "templates": [template()]}, POD_KEY),
        ({"pods": [pod("test-pod", entry(), recorded={ENTRY: None}, node="n")], "templates": [template()]}, POD_KEY),
        ({"groups": [GROUP], "pods": [pod("test-pod", entry(), group="group")], "templates": [template()]}, POD_KEY),
        ({"groups": [GROUP], "pods": [pod("test-pod", entry(), group="group")]}, POD_KEY),
        ({"groups": [GROUP], "pods": [pod("test-pod", entry(), group="group", node="n")]}, POD_KEY),
    ],
)
def test_nothing_is_written_where_no_claim_must_be_created(scene: Any, key: str) -> None:
    assert Scene(**scene).reconcile(key).commands == []


def test_pod_of_a_missing_group_is_retried() -> None:
    scene = Scene(pods=[pod("test-pod", entry(), group="group")], groups=[], templates=[template()])
    driven = scene.reconcile(POD_KEY, raises=PodGroupMissingError)
    assert str(driven.error) == (
        f'get PodGroup for Pod {NAMESPACE}/test-pod: podgroup.scheduling.k8s.io "group" not found'
    )
    assert (driven.commands, driven.events) == ([], [])


def test_entry_of_the_pod_alone_gets_a_claim_of_its_own() -> None:
    user = pod("test-pod", entry(), entry("own"), group="group")
    scene = Scene(pods=[user], groups=[GROUP], claims=[claim(owner=OF_GROUP)], templates=[template()])
    scene.reconcile(POD_KEY)
    (made,) = (each for each in scene.claims() if name_of(each) != GENERATED)
    assert made["metadata"]["ownerReferences"] == [OF_POD]
    assert scene.recorded() == [statuses(ENTRY, GENERATED), statuses("own", name_of(made))]


def test_applied_names_include_those_that_are_recorded_already() -> None:
    user = pod("test-pod", entry("a"), entry("b"), entry("c"), entry(claim="by-user"), recorded={"a": "x", "b": None})
    scene = Scene(pods=[user], claims=[claim("x", owner=OF_POD, templated=False)], templates=[template()])
    (applied,) = scene.reconcile(POD_KEY).of(Patch)
    names = {
        each["name"]: each["resourceClaimName"]
        for each in decode_object(applied.body)["status"]["resourceClaimStatuses"]
    }
    assert list(names) == ["a", "c"]
    assert names["a"] == "x"


def test_later_claims_wait_for_an_earlier_one_that_cannot_be_created() -> None:
    user = pod("test-pod", entry("a"), entry("b", template="missing"), entry("c"))
    scene = Scene(pods=[user], templates=[template()])
    driven = scene.reconcile(POD_KEY, raises=ClaimError)
    assert (len(driven.of(Create)), driven.of(Patch)) == (1, [])


@pytest.mark.parametrize(
    ("user", "entry_name", "base"),
    [
        ("pod", "claim", "pod-claim-"),
        ("p" * 40, "c" * 15, f"{'p' * 40}-{'c' * 15}-"),
        ("p" * 40, "c" * 16, f"{'p' * 39}-{'c' * 15}"),
        ("p" * 100, "c" * 10, f"{'p' * 50}-{'c' * 5}"),
        ("p" * 10, "c" * 63, f"{'p' * 7}-{'c' * 47}"),
    ],
)
def test_long_names_are_truncated_in_proportion(user: str, entry_name: str, base: str) -> None:
    assert name_base(user, entry_name) == base
    assert len(base) <= 57
