"""Tests of the resource claim controller: reservations, and deletion of unused claims.

Source of the cases: kubernetes v1.36 pkg/controller/resourceclaim/controller_test.go.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.controllers.devices.resource_claim.reconciler import MOST_DELETED
from kcm.actors.controllers.devices.resource_claim.watches import QUEUE
from kcm.actors.controllers.shared.live_reads import UNSEEN_CHECK
from kcm.actors.reconciliation import Enqueue
from kcm.protocols.messages.commands import Delete, Get, Update
from kcm.protocols.messages.outcomes import Done, NotFound
from kcm.protocols.objects import Object, encode_object, finalizers_of, name_of
from kcm.protocols.resource_claims import DELETE_PROTECTION
from tests.actors.controllers.devices.claim_scene import (
    BOUND,
    CLAIM_KEY,
    CONSUMER,
    CONSUMER_II,
    ENTRY,
    GENERATED,
    GROUP,
    GROUP_CONSUMER,
    LATER,
    OF_GROUP,
    OF_POD,
    OTHER_CONSUMER,
    POD,
    POD_KEY,
    RECORDED,
    Scene,
    claim,
    done,
    entry,
    pod,
    template,
)

# Reservations of bound pods.


@pytest.mark.parametrize(
    ("user", "there", "groups", "reserved"),
    [
        (pod("test-pod", entry(), **BOUND), claim(owner=OF_POD, allocated=True), None, [CONSUMER]),
        (pod("test-pod", entry(), **BOUND), claim(owner=OF_POD), None, []),
        (pod("test-pod", entry(), **BOUND), claim(owner=OF_POD, reserved=[CONSUMER]), None, [CONSUMER]),
        (
            pod("test-pod", entry(), recorded={ENTRY: GENERATED}),
            claim(owner=OF_POD, allocated=True),
            None,
            [],
        ),
        (pod("test-pod", entry(), **BOUND), claim(owner=OF_POD, allocated=True, deletionTimestamp=LATER), None, []),
        (
            pod("test-pod", entry(claim=GENERATED), node="worker"),
            claim(templated=False, reserved=[CONSUMER_II]),
            None,
            [CONSUMER_II, CONSUMER],
        ),
        (
            pod("test-pod", entry(), group="group", **BOUND),
            claim(owner=OF_POD, allocated=True),
            [GROUP],
            [GROUP_CONSUMER],
        ),
        (
            pod("test-pod", entry(), group="group", **BOUND),
            claim(owner=OF_GROUP, reserved=[GROUP_CONSUMER]),
            [GROUP],
            [GROUP_CONSUMER],
        ),
        (pod("test-pod", entry(), group="group", **BOUND), claim(owner=OF_POD, allocated=True), None, [CONSUMER]),
    ],
)
def test_allocated_claims_of_a_bound_pod_are_reserved(
    user: Object, there: Object, groups: Any, reserved: list[Object]
) -> None:
    scene = Scene(pods=[user], claims=[there], groups=groups, templates=[template()])
    driven = scene.reconcile(POD_KEY)
    (found,) = scene.claims()
    assert list(found["status"].get("reservedFor") or ()) == reserved
    before = list(there["status"].get("reservedFor") or ())
    assert [update.subresource for update in driven.of(Update)] == (["status"] if reserved != before else [])


def test_claim_of_another_owner_is_not_reserved() -> None:
    user = pod("test-pod", entry(claim="a"), entry(), entry("missing", claim="m"), entry("z", claim="z"), **BOUND)
    there = [claim("a", templated=False, allocated=True), claim(owner=OF_POD), claim("z", allocated=True)]
    scene = Scene(pods=[user], claims=there, templates=[template()])
    scene.reconcile(POD_KEY)
    assert [name_of(each) for each in scene.claims() if each["status"].get("reservedFor")] == ["a"]


def test_recorded_claim_that_the_table_lacks_is_read_before_it_is_generated_again() -> None:
    scene = Scene(pods=[RECORDED], templates=[template()])
    existing = {**claim(owner=OF_POD), "status": {}}
    existing["metadata"] |= {"uid": "u", "resourceVersion": "1000"}
    driven = scene.reconcile(POD_KEY, lambda _: Done(encode_object(existing)))
    assert [type(command) for command in driven.commands] == [Get]


# Consumers that are gone.


@pytest.mark.parametrize(
    ("scene", "reserved", "allocated", "protected"),
    [
        ({"pods": [POD], "claims": [claim(owner=OF_POD, reserved=[CONSUMER])]}, [CONSUMER], True, False),
        ({"live": [POD], "claims": [claim(owner=OF_POD, reserved=[CONSUMER])]}, [CONSUMER], True, False),
        ({"claims": [claim(owner=OF_POD, reserved=[CONSUMER], protected=True)]}, [], False, False),
        ({"claims": [claim(owner=OF_POD, reserved=[CONSUMER])]}, [], True, False),
        (
            {"groups": [], "claims": [claim(owner=OF_POD, reserved=[GROUP_CONSUMER], protected=True)]},
            [],
            False,
            False,
        ),
        (
            {"groups": [GROUP], "claims": [claim(owner=OF_POD, reserved=[GROUP_CONSUMER], protected=True)]},
            [GROUP_CONSUMER],
            True,
            True,
        ),
        (
            {"claims": [claim(owner=OF_POD, reserved=[GROUP_CONSUMER], protected=True)]},
            [GROUP_CONSUMER],
            True,
            True,
        ),
        (
            {"pods": [POD], "claims": [claim(owner=OF_POD, reserved=[CONSUMER, CONSUMER_II], protected=True)]},
            [CONSUMER],
            True,
            True,
        ),
        (
            {"claims": [claim(owner=OF_POD, reserved=[CONSUMER], protected=True, deletionTimestamp=LATER)]},
            [],
            False,
            False,
        ),
        (
            {"claims": [claim(owner=OF_POD, allocated=True, protected=True, deletionTimestamp=LATER)]},
            [],
            False,
            False,
        ),
        ({"claims": [claim(protected=True, deletionTimestamp=LATER)]}, [], False, False),
        ({"claims": [claim(allocated=True, protected=True)]}, [], True, True),
        ({"pods": [done(POD)], "claims": [claim(reserved=[CONSUMER])]}, [], True, False),
        (
            {
                "pods": [done(POD)],
                "claims": [claim(owner=OF_POD, reserved=[CONSUMER, OTHER_CONSUMER])],
            },
            [OTHER_CONSUMER],
            True,
            False,
        ),
        (
            {"pods": [pod("test-pod", entry(), deletionTimestamp=LATER)], "claims": [claim(reserved=[CONSUMER])]},
            [],
            True,
            False,
        ),
        (
            {
                "pods": [pod("test-pod", entry(), deletionTimestamp=LATER, node="worker")],
                "claims": [claim(reserved=[CONSUMER])],
            },
            [CONSUMER],
            True,
            False,
        ),
        # The table has an older or a newer pod of this name.
        (
            {"pods": [pod("test-pod", uid="old")], "live": [POD], "claims": [claim(reserved=[CONSUMER])]},
            [CONSUMER],
            True,
            False,
        ),
        (
            {"pods": [pod("test-pod", uid="new")], "claims": [claim(reserved=[CONSUMER])]},
            [],
            True,
            False,
        ),
    ],
)
def test_reservations_of_consumers_that_are_gone_are_removed(
    scene: Any, reserved: list[Object], allocated: bool, protected: bool
) -> None:
    tried = Scene(**scene)
    enqueued = tried.reconcile(CLAIM_KEY).enqueued
    # A pod that is not in the table may never be: it is deleted, the informer lists again, and no event follows.
    assert enqueued == ([Enqueue(QUEUE, CLAIM_KEY, after=UNSEEN_CHECK)] if "live" in scene else [])
    (found,) = tried.claims()
    assert list(found["status"].get("reservedFor") or ()) == reserved
    assert ("allocation" in found["status"], DELETE_PROTECTION in finalizers_of(found)) == (allocated, protected)
    commands = tried.reconcile(CLAIM_KEY).commands
    assert [command for command in commands if not isinstance(command, Get)] == []


def test_known_deletion_saves_a_live_read() -> None:
    scene = Scene(claims=[claim(reserved=[CONSUMER])])
    scene.reconcile(f"deleted:{CONSUMER['uid']}")
    assert scene.reconcile(CLAIM_KEY).of(Get) == []


def test_oldest_known_deletions_are_forgotten() -> None:
    scene = Scene(claims=[claim(reserved=[CONSUMER])])
    for number in range(MOST_DELETED):
        scene.reconcile(f"deleted:{number or CONSUMER['uid']}")
    scene.reconcile(f"deleted:{CONSUMER['uid']}")  # is now the newest
    scene.reconcile("deleted:last")
    assert scene.reconcile(CLAIM_KEY).of(Get) == []
    other = Scene(claims=[claim(reserved=[CONSUMER])])
    other.reconcile(f"deleted:{CONSUMER['uid']}")
    for number in range(MOST_DELETED):
        other.reconcile(f"deleted:{number}")
    assert len(other.reconcile(CLAIM_KEY).of(Get)) == 1


def test_claim_that_vanishes_needs_no_retry() -> None:
    scene = Scene(claims=[claim(reserved=[CONSUMER], protected=True)])
    driven = scene.reconcile(CLAIM_KEY, lambda _: NotFound())
    assert [type(command) for command in driven.commands] == [Get, Update]


@pytest.mark.parametrize(
    ("pods", "there", "deleted"),
    [
        ([done(POD)], claim(owner=OF_POD, reserved=[CONSUMER]), True),
        ([done(POD)], claim(owner=OF_POD), True),
        ([done(POD)], claim(templated=False), False),
        ([POD], claim(owner=OF_POD), False),
        ([], claim(owner=OF_POD), False),  # the garbage collector deletes it
        ([pod("test-pod", uid="new")], claim(owner=OF_POD), True),
        ([pod("test-pod", entry(), deletionTimestamp=LATER)], claim(owner=OF_POD), True),
        ([done(POD)], claim(owner={**OF_POD, "controller": False}), False),
        ([done(POD)], claim(owner={**OF_POD, "kind": "Website"}), False),
        ([done(POD)], claim(owner=OF_POD, deletionTimestamp=LATER, finalizers=["other"]), False),
    ],
)
def test_generated_claim_is_deleted_if_its_pod_will_not_run(pods: Any, there: Object, deleted: bool) -> None:
    scene = Scene(pods=pods, claims=[there])
    assert len(scene.reconcile(CLAIM_KEY).of(Delete)) == deleted
    assert (scene.claims() if deleted else []) == []


def test_claim_of_a_newer_pod_is_kept() -> None:
    scene = Scene(pods=[pod("test-pod", uid="old")], live=[POD], claims=[claim(owner=OF_POD)])
    assert [type(command) for command in scene.reconcile(CLAIM_KEY).commands] == [Get]
