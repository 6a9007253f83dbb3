"""Tests of the resource claim controller: which keys are reconciled after which change.

Source of the cases: kubernetes v1.36 pkg/controller/resourceclaim/controller_test.go.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.controllers.devices.resource_claim import SPEC
from kcm.actors.reconciliation import Change
from kcm.protocols.objects import Object, encode_object, key_of
from kcm.protocols.resources import POD_GROUPS, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Resource
from tests.actors.controllers.devices.claim_scene import (
    BOUND,
    CLAIM_KEY,
    CONSUMER,
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
    RECORDED,
    TEMPLATE,
    Scene,
    claim,
    done,
    entry,
    pod,
    podgroup,
    template,
)


def change(new: Object, old: Object | None = None, *, deleted: bool = False) -> Change:
    type_ = "DELETED" if deleted else "ADDED" if old is None else "MODIFIED"
    previous = b"" if old is None else encode_object(old)
    return Change(type=type_, key=key_of(new), raw=encode_object(new), controller=None, previous=previous)


@pytest.mark.parametrize(
    ("happened", "scene", "keys"),
    [
        (change(POD), {}, [POD_KEY]),
        (change(RECORDED), {}, [POD_KEY]),
        (change(RECORDED), {"claims": [claim(owner=OF_POD)]}, []),
        (change(RECORDED), {"claims": [claim(owner=OF_OTHER)]}, []),
        (change(RECORDED), {"claims": [claim(owner=OF_POD, allocated=True)]}, []),
        (change(pod("test-pod", entry(), **BOUND)), {"claims": [claim(owner=OF_POD, allocated=True)]}, [POD_KEY]),
        (change(pod("test-pod", entry(), **BOUND)), {"claims": [claim(owner=OF_POD, reserved=[CONSUMER])]}, []),
        (change(pod("test-pod", entry(claim="by-user"))), {}, []),
        (change(pod("test-pod", {"name": ENTRY})), {}, [POD_KEY]),
        (change(pod("test-pod", entry(), recorded={ENTRY: None})), {}, []),
        (change(pod("test-pod", entry(), deletionTimestamp=LATER, node="n")), {}, []),
        (change(done(RECORDED), RECORDED), {"claims": [claim(owner=OF_POD)]}, [CLAIM_KEY]),
        (change(done(RECORDED)), {}, [CLAIM_KEY]),
        (change(done(POD)), {"claims": [claim(owner=OF_POD), claim("other", owner=OF_OTHER)]}, [CLAIM_KEY]),
        (change(pod("test-pod", entry(claim=GENERATED), deletionTimestamp=LATER)), {}, [CLAIM_KEY]),
        (change(RECORDED, deleted=True), {}, ["deleted:uid-test-pod", CLAIM_KEY]),
        (change(POD, deleted=True), {}, ["deleted:uid-test-pod"]),
        (
            change(POD, pod("test-pod", entry(claim="b"), uid="old")),
            {},
            ["deleted:old", f"claim:{NAMESPACE}/b", POD_KEY],
        ),
        # Extended resources.
        (change(pod("test-pod", entry("regular"), phase="Running")), {}, [POD_KEY]),
        (change(pod(extended=GENERATED, phase="Running")), {}, []),
        (change(pod(extended=GENERATED, phase="Succeeded")), {}, [CLAIM_KEY]),
        (change(pod(extended=GENERATED, phase="Failed")), {}, [CLAIM_KEY]),
        (change(pod(extended=GENERATED, phase="Succeeded"), deleted=True), {}, ["deleted:uid-test-pod", CLAIM_KEY]),
        (
            change(pod("test-pod", entry(claim="a"), extended=GENERATED, phase="Succeeded")),
            {},
            [f"claim:{NAMESPACE}/a", CLAIM_KEY],
        ),
        # PodGroups.
        (change(pod("test-pod", entry(), recorded={ENTRY: "x"}, group="group")), {"groups": [GROUP]}, []),
        (change(pod("test-pod", entry(), recorded={ENTRY: "x"}, group="group")), {"groups": []}, [POD_KEY]),
        (change(pod("test-pod", entry(), recorded={ENTRY: "x"}, group="group")), {}, [POD_KEY]),
    ],
)
def test_keys_of_changed_pods(happened: Change, scene: Any, keys: list[str]) -> None:
    shown = () if happened.deleted else (happened.new,)
    assert Scene(pods=shown, **scene).keys(PODS, happened) == keys


def test_change_of_a_pod_that_was_deleted_meanwhile_enqueues_nothing() -> None:
    """The deletion follows as an event of its own."""
    assert Scene().keys(PODS, change(done(RECORDED))) == []


@pytest.mark.parametrize(
    ("user", "indexed"),
    [
        (PLAIN, []),
        (pod(group="group"), []),
        (pod(extended="x"), ["any"]),
        (POD, ["any", f"template:{NAMESPACE}/{TEMPLATE}"]),
        (RECORDED, ["any", f"template:{NAMESPACE}/{TEMPLATE}", CLAIM_KEY]),
        (pod("p", entry(claim="a"), group="group"), ["any", f"claim:{NAMESPACE}/a", GROUP_KEY]),
        ({"metadata": {"name": "p"}, "spec": {"resourceClaims": "malformed"}}, ["any"]),
        ({"metadata": {"name": "p"}}, []),
    ],
)
def test_index_of_pods_with_claims(user: Object, indexed: list[str]) -> None:
    assert list(SPEC.indexes[0].values_of(user)) == indexed


IN_STATUS = podgroup(entry(), recorded={ENTRY: GENERATED})
MEMBERS = [
    pod("one", entry(), group="group"),
    pod("two", entry(), group="group"),
    pod("three", entry(), group="other"),
    pod("four", group="group"),
]


@pytest.mark.parametrize(
    ("watched", "happened", "scene", "keys"),
    [
        (POD_GROUPS, change(IN_STATUS), {"groups": []}, [GROUP_KEY]),
        (POD_GROUPS, change(IN_STATUS), {"groups": [], "claims": [claim(owner=OF_GROUP)]}, []),
        (POD_GROUPS, change(podgroup(entry(claim="x"))), {"groups": []}, []),
        (POD_GROUPS, change(podgroup({"name": "x"})), {"groups": []}, [GROUP_KEY]),
        (POD_GROUPS, change(podgroup(entry(), deletionTimestamp=LATER)), {"groups": []}, []),
        (POD_GROUPS, change(IN_STATUS, deleted=True), {"groups": []}, ["deleted:uid-group", CLAIM_KEY]),
        (
            POD_GROUPS,
            change(IN_STATUS, GROUP),
            {"groups": [IN_STATUS], "pods": MEMBERS},
            [GROUP_KEY, f"pod:{NAMESPACE}/one", f"pod:{NAMESPACE}/two"],
        ),
        (
            RESOURCE_CLAIMS,
            change(claim(owner=OF_GROUP)),
            {"groups": [IN_STATUS], "claims": [claim(owner=OF_GROUP)]},
            [CLAIM_KEY],
        ),
        (RESOURCE_CLAIMS, change(claim(owner=OF_GROUP), deleted=True), {"groups": [IN_STATUS]}, [GROUP_KEY]),
        (
            RESOURCE_CLAIMS,
            change(claim(owner=OF_POD)),
            {"pods": [RECORDED], "claims": [claim(owner=OF_POD)]},
            [CLAIM_KEY],
        ),
        (RESOURCE_CLAIMS, change(claim(owner=OF_POD), deleted=True), {"pods": [RECORDED]}, [POD_KEY]),
        (RESOURCE_CLAIMS, change(claim("unrelated"), deleted=True), {"pods": [RECORDED]}, []),
        (RESOURCE_CLAIM_TEMPLATES, change(template()), {"pods": [POD, PLAIN], "groups": [GROUP]}, [POD_KEY, GROUP_KEY]),
        (
            RESOURCE_CLAIM_TEMPLATES,
            change({"metadata": {"name": TEMPLATE, "namespace": "elsewhere"}}),
            {"pods": [POD]},
            [],
        ),
    ],
)
def test_keys_of_other_changes(watched: Resource, happened: Change, scene: Any, keys: list[str]) -> None:
    assert Scene(**scene).keys(watched, happened) == keys


def test_gate_adds_the_watch_of_groups() -> None:
    options = read_options(["--feature-gates=DRAWorkloadResourceClaims=true,GenericWorkload=true"], controllers=[SPEC])
    assert POD_GROUPS not in SPEC.resources
    assert POD_GROUPS in SPEC.adapted(SPEC, options).resources
    assert SPEC.adapted(SPEC, read_options([], controllers=[SPEC])) is SPEC
