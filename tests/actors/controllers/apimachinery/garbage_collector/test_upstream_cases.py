"""What upstream's tests have of the garbage collector, as far as the files beside this one have it not.

Source of the cases: kubernetes v1.36 pkg/controller/garbagecollector/garbagecollector_test.go and
test/integration/garbagecollector; each test names its own. Not here, as we have no such part: TestProcessEvent and
TestDependentsRace (a graph that is kept, under locks), TestGetAlternateOwnerIdentity (a node by uid alone: ours are
found by all that a reference says).
"""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from structlog.typing import FilteringBoundLogger

from kcm.actors.controllers.apimachinery.garbage_collector.items import is_collected
from kcm.actors.controllers.apimachinery.garbage_collector.ownership import unblocking, without_owners
from kcm.protocols.messages.commands import PatchType
from kcm.protocols.messages.discovery import ServedResource
from kcm.protocols.objects import Object, make_key
from kcm.protocols.resources import DEPLOYMENTS, PODS
from kcm.runtime.client.api import Request, Response
from tests.actors.controllers.apimachinery.garbage_collector.test_in_a_cluster import CONFIGMAPS, SECRETS, SOON, Family
from tests.actors.engine.discovery.test_discovered_resources import CRDS, THINGS, crd

VERSIONS = "example.com/v1", "example.com/v2"


@pytest.fixture
def family(log: FilteringBoundLogger) -> Family:
    return Family(log)


def named(owner: Object, api_version: str, kind: str = "") -> Object:
    """Return the object under another apiVersion or kind."""
    return {**owner, "apiVersion": api_version, "kind": kind or owner["kind"]}


class Answers:
    """Requests to one object get this answer; others the server's."""

    def __init__(self, family: Family, monkeypatch: pytest.MonkeyPatch, method: str, end: str, status: int) -> None:
        self.asked: list[Request] = []
        self.stopped = False
        serve = family.cluster.network.serve

        def serving(request: Request) -> Response:
            if request.method == method and request.path.endswith(end):
                self.asked.append(request)
                if status and not self.stopped:
                    reason = {404: "NotFound", 409: "Conflict"}[status]
                    return Response(status=status, body=orjson.dumps({"kind": "Status", "reason": reason}))
            return serve(request)

        monkeypatch.setattr(family.cluster.network, "serve", serving)


# Patches: TestDeleteOwnerRefPatch, TestUnblockOwnerReference.

OWNED: Object = {
    "metadata": {
        "namespace": "default",
        "name": "p",
        "uid": "100",
        "resourceVersion": "7",
        "ownerReferences": [
            {"uid": "1", "name": "a", "blockOwnerDeletion": True},
            {"uid": "2", "name": "b", "blockOwnerDeletion": False},
            {"uid": "3", "name": "c"},
        ],
    }
}


@pytest.mark.parametrize(
    ("uids", "strategic", "merged"),
    [
        (["2", "3"], [{"$patch": "delete", "uid": "2"}, {"$patch": "delete", "uid": "3"}], ["1"]),
        (["1", "2", "3"], [{"$patch": "delete", "uid": uid} for uid in "123"], None),
    ],
)
def test_owners_are_taken_away_by_uid_or_by_saying_which_stay(
    uids: list[str], strategic: list[Object], merged: list[str] | None
) -> None:
    patch = without_owners(PODS, OWNED, uids, strategic=True)
    assert patch.patch_type == PatchType.STRATEGIC
    assert orjson.loads(patch.body) == {"metadata": {"uid": "100", "ownerReferences": strategic}}
    patch = without_owners(PODS, OWNED, uids, strategic=False)
    assert patch.patch_type == PatchType.MERGE
    meta = orjson.loads(patch.body)["metadata"]
    left = meta.pop("ownerReferences")
    assert ([one["uid"] for one in left] if left is not None else None, meta) == (merged, {"resourceVersion": "7"})


def test_only_what_blocks_is_unblocked_and_all_else_kept() -> None:
    strategic = orjson.loads(unblocking(PODS, OWNED, strategic=True).body)
    blocking = [{"uid": "1", "name": "a", "blockOwnerDeletion": False}]
    assert strategic == {"metadata": {"uid": "100", "ownerReferences": blocking}}
    merged = orjson.loads(unblocking(PODS, OWNED, strategic=False).body)["metadata"]
    assert merged["resourceVersion"] == "7"
    assert [(one["uid"], one["blockOwnerDeletion"]) for one in merged["ownerReferences"]] == [
        ("1", False),
        ("2", False),
        ("3", False),
    ]


# What is collected: TestGetDeletableResources.


@pytest.mark.parametrize(
    ("group", "plural", "verbs", "collected"),
    [
        ("", "pods", ("create", "delete", "list", "watch"), True),
        ("", "pods", ("delete", "list"), False),
        ("", "pods", ("list", "watch"), False),
        ("", "pods", (), False),
        ("", "events", ("delete", "list", "watch"), False),
        ("events.k8s.io", "events", ("delete", "list", "watch"), False),
        ("example.com", "events", ("delete", "list", "watch"), True),
    ],
)
def test_resource_is_collected_if_it_supports_delete_list_and_watch(
    group: str, plural: str, verbs: tuple[str, ...], *, collected: bool
) -> None:
    one = ServedResource(group=group, version="v1", plural=plural, kind="K", namespaced=True, verbs=verbs)
    assert is_collected(one) == collected


# Absent owners: TestAttemptToDeleteItem, TestAbsentOwnerCache.


def test_an_absent_owner_is_asked_for_once_for_all_that_name_it(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Answers(family, monkeypatch, "GET", "/secrets/ghost", 0)
    ghost = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ghost", "uid": "ghost-uid"}}
    for name in ("one", "two", "three"):
        family.make(CONFIGMAPS, name, ghost)
    family.settle(SOON)
    assert family.names(CONFIGMAPS) == []
    family.make(CONFIGMAPS, "late", ghost)
    family.settle(SOON)
    assert (family.names(CONFIGMAPS), len(looks.asked)) == ([], 1)


# TestAttemptToDeleteItemDeleteObjectNotFound, …WaitingForDependents.


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
def test_concurrent_deletion_by_another_client_is_no_failure(
    family: Family, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    owner = family.make(CONFIGMAPS, "owner")
    family.make(CONFIGMAPS, "child", owner)
    family.settle()
    serve, meddled = family.cluster.network.serve, []

    def meddling(request: Request) -> Response:
        if request.method == "DELETE" and request.path.endswith("/child") and not meddled:
            meddled.append(request)
            family.cluster.delete(CONFIGMAPS, make_key("default", "child"))
        return serve(request)

    monkeypatch.setattr(family.cluster.network, "serve", meddling)
    family.delete(CONFIGMAPS, "owner", policy)
    assert (family.names(CONFIGMAPS), len(meddled)) == ([], 1)


# TestOrphanDependentsFailure.


def test_an_owner_stays_until_all_its_dependents_are_orphans(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = family.make(CONFIGMAPS, "owner")
    for name in ("one", "two"):
        family.make(CONFIGMAPS, name, owner)
    family.settle()
    patches = Answers(family, monkeypatch, "PATCH", "/configmaps/two", 409)
    family.delete(CONFIGMAPS, "owner", "Orphan")
    family.settle(5.0)
    assert family.meta(CONFIGMAPS, "owner")["finalizers"] == ["orphan"]
    assert "ownerReferences" not in family.meta(CONFIGMAPS, "one")
    assert len(patches.asked) > 1, "it is tried again"
    patches.stopped = True
    assert family.cluster.run_until(lambda: family.names(CONFIGMAPS) == ["one", "two"], within=60.0)
    assert "ownerReferences" not in family.meta(CONFIGMAPS, "two")


# Versions of an owner's kind: TestConflictingData.


def two_versions(*, second_served: bool = True) -> Object:
    found = crd()
    first = found["spec"]["versions"][0]
    found["spec"]["versions"].append({**first, "name": "v2", "served": second_served, "storage": False})
    return found


def test_an_owner_may_be_named_in_a_version_that_is_not_preferred(family: Family) -> None:
    """Good child, existing owner with non-preferred accessible API version."""
    family.cluster.create(CRDS, two_versions())
    family.settle(SOON)
    thing = family.make(THINGS, "thing")
    for version in VERSIONS:
        family.make(CONFIGMAPS, version.rpartition("/")[2], named(thing, version))
    family.settle(60.0)
    assert family.names(CONFIGMAPS) == ["v1", "v2"]
    family.delete(THINGS, "thing")
    family.settle(SOON)
    assert family.names(CONFIGMAPS) == []


@pytest.mark.parametrize("owner_first", [False, True])
def test_owner_in_a_version_that_is_not_served_counts_as_existing(
    log: FilteringBoundLogger, *, owner_first: bool
) -> None:
    """Child, existing owner with inaccessible API version: neither before nor after that owner is deleted."""
    family = Family(log)
    deployment = family.make(DEPLOYMENTS, "d")
    if owner_first:
        family.settle()
    family.make(CONFIGMAPS, "child", named(deployment, "extensions/v1beta1"))
    family.make(CONFIGMAPS, "older", named(deployment, "apps/v1beta1"))
    family.settle(60.0)
    assert family.names(CONFIGMAPS) == ["child", "older"]
    family.delete(DEPLOYMENTS, "d")
    family.settle(120.0)
    assert family.names(CONFIGMAPS) == ["child", "older"]


@pytest.mark.parametrize("bad_first", [False, True])
def test_unresolvable_reference_does_not_keep_other_dependents(log: FilteringBoundLogger, *, bad_first: bool) -> None:
    """Child, non-existent owner with inaccessible API version, beside one that names an accessible one."""
    family = Family(log)
    ghost = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "uid": "ghost-uid"}}
    children = [("bad", named(ghost, "extensions/v1beta1")), ("good", ghost)]
    for name, owner in children if bad_first else reversed(children):
        family.make(CONFIGMAPS, name, owner)
        family.settle()
    family.settle(120.0)
    assert family.names(CONFIGMAPS) == ["bad"]


@pytest.mark.parametrize("order", [("bad", "good"), ("good", "bad")])
def test_a_child_that_names_another_kind_with_the_uid_takes_no_good_one_along(
    family: Family, order: tuple[str, str]
) -> None:
    """Bad child, existing owner with incorrect API version: while nobody has seen the owner, and later."""
    deployment = family.make(DEPLOYMENTS, "d")
    owners = {"bad": named(deployment, "v1", SECRETS.kind), "good": deployment}
    for name in order:
        family.make(CONFIGMAPS, name, owners[name])
    family.settle(60.0)
    assert family.names(CONFIGMAPS) == ["good"]
    family.delete(DEPLOYMENTS, "d")
    family.settle(SOON)
    assert family.names(CONFIGMAPS) == []


# test/integration/garbagecollector.


def test_repeated_foreground_deletion_removes_the_finalizer_again(family: Family) -> None:
    """TestDoubleDeletionWithFinalizer."""
    family.make(PODS, "lucy", finalizers=["x.io/y"])
    family.settle()
    for _ in range(2):
        family.delete(PODS, "lucy", "Foreground")
        family.settle(2.0)
        assert family.meta(PODS, "lucy")["finalizers"] == ["x.io/y"]
    family.finalizers(PODS, "lucy")
    assert family.names(PODS) == []


def test_a_definition_takes_its_objects_and_what_they_own_along_twice(family: Family) -> None:
    """TestCRDDeletionCascading."""
    for _ in range(2):
        family.cluster.create(CRDS, crd())
        family.settle(SOON)
        thing = family.make(THINGS, "thing")
        family.make(CONFIGMAPS, "owned", thing)
        family.settle(SOON)
        assert family.names(CONFIGMAPS) == ["owned"]
        family.cluster.delete(CRDS, "things.example.com")
        assert family.cluster.run_until(lambda: family.names(CONFIGMAPS) == [], within=60.0)


def test_an_api_that_is_away_for_a_while_takes_nothing_along(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours: its tables go, and whoever asks for its objects is told that nothing is served there."""
    family.cluster.create(CRDS, crd())
    family.settle(SOON)
    family.make(CONFIGMAPS, "owned", family.make(THINGS, "thing"))
    family.settle(SOON)
    serve, watch = family.cluster.network.serve, family.cluster.network.server.watch

    def away(request: Request) -> Response:
        if "example.com" in request.path:
            return Response(status=404, body=b"404 page not found")
        response = serve(request)
        if request.path == "/apis":
            groups = orjson.loads(response.body)
            for field in ("groups", "items"):
                if field in groups:
                    groups[field] = [
                        one
                        for one in groups[field]
                        if "example.com" not in (one.get("name"), (one.get("metadata") or {}).get("name"))
                    ]
            return Response(status=200, body=orjson.dumps(groups))
        return response

    def watching(request: Request, **more: Any) -> Any:
        return Response(status=404) if "example.com" in request.path else watch(request, **more)

    with monkeypatch.context() as for_a_while:
        for_a_while.setattr(family.cluster.network, "serve", away)
        for_a_while.setattr(family.cluster.network.server, "watch", watching)
        assert family.cluster.run_until(lambda: not any("things" in one for one in family.system.tables), within=60.0)
        family.settle(120.0)
        assert family.names(CONFIGMAPS) == ["owned"]
    family.settle(60.0)
    assert family.names(CONFIGMAPS) == ["owned"]
    family.delete(THINGS, "thing")
    family.settle(SOON)
    assert family.names(CONFIGMAPS) == []


def test_an_owner_stays_one_when_its_kind_is_served_in_another_version(family: Family) -> None:
    family.cluster.create(CRDS, two_versions())
    family.settle(SOON)
    thing = family.make(THINGS, "thing")
    for version in VERSIONS:
        family.make(CONFIGMAPS, version.rpartition("/")[2], named(thing, version))
    family.settle(SOON)
    first, second = two_versions()["spec"]["versions"]
    family.cluster.merge(
        CRDS,
        "things.example.com",
        {"spec": {"versions": [{**first, "served": False}, second]}},
    )
    family.settle(120.0)
    assert family.names(CONFIGMAPS) == ["v1", "v2"]


def test_core_objects_and_custom_ones_own_each_other(family: Family) -> None:
    """TestMixedRelationships."""
    family.cluster.create(CRDS, crd())
    family.settle(SOON)
    thing, core = family.make(THINGS, "thing"), family.make(CONFIGMAPS, "core")
    family.make(CONFIGMAPS, "of-thing", thing)
    family.make(THINGS, "of-core", core)
    family.settle()
    family.delete(THINGS, "thing", "Foreground")
    family.delete(CONFIGMAPS, "core", "Foreground")
    assert (family.names(CONFIGMAPS), family.names(THINGS)) == ([], [])


def test_with_an_owner_that_stays_beside_one_that_goes_it_stays(family: Family) -> None:
    """TestCascadingDeletion, and TestSolidOwnerDoesNotBlockWaitingOwner with the reference that is left."""
    goes, stays = family.make(CONFIGMAPS, "goes"), family.make(CONFIGMAPS, "stays")
    for name, owners in {"of-one": (goes,), "of-both": (goes, stays), "of-none": ()}.items():
        family.make(PODS, name, *owners)
    family.settle()
    family.delete(CONFIGMAPS, "goes", "Foreground")
    assert family.names(CONFIGMAPS) == ["stays"]
    assert family.names(PODS) == ["of-both", "of-none"]
    (reference,) = family.meta(PODS, "of-both")["ownerReferences"]
    assert reference["name"] == "stays"


def test_many_children_across_namespaces_go_and_good_ones_stay(family: Family) -> None:
    """TestCrossNamespaceReferences: children of an owner elsewhere, cluster-scoped or not, mixed with valid ones."""
    owner = family.make(CONFIGMAPS, "owner")
    for number in range(20):
        family.make(SECRETS, f"bad-{number}", owner, namespace="kube-system")
        family.make(SECRETS, f"good-{number}", owner)
    family.settle(SOON)
    assert family.names(SECRETS) == sorted(f"good-{number}" for number in range(20))
    assert len(family.events()) > 0
    family.delete(CONFIGMAPS, "owner")
    family.settle(SOON)
    assert family.names(SECRETS) == []


# TestGarbageCollectorSync.


def test_a_discovery_that_fails_for_a_while_forgets_nothing(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    family.generations()
    serve = family.cluster.network.serve

    def failing(request: Request) -> Response:
        return Response(status=500) if request.path in ("/api", "/apis") else serve(request)

    with monkeypatch.context() as for_a_while:
        for_a_while.setattr(family.cluster.network, "serve", failing)
        family.settle(60.0)
        family.delete(DEPLOYMENTS, "d", "Foreground")
        assert family.names(PODS) == ["nobodys"]
    family.settle(60.0)
    owner = family.make(CONFIGMAPS, "owner")
    family.make(CONFIGMAPS, "child", owner)
    family.settle()
    family.delete(CONFIGMAPS, "owner")
    assert family.names(CONFIGMAPS) == []
