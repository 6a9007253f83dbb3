"""Cases of upstream's tests of the garbage collector that the other files here do not contain.

Source of the cases: kubernetes v1.36 pkg/controller/garbagecollector/garbagecollector_test.go and
test/integration/garbagecollector; each test names its own. Not applicable here are TestProcessEvent and
TestDependentsRace (a stored graph with locks) and TestGetAlternateOwnerIdentity (nodes identified by uid alone; here
all fields of a reference identify the owner).
"""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from structlog.typing import FilteringBoundLogger

from kcm.actors.controllers.apimachinery.garbage_collector.items import is_collected
from kcm.actors.controllers.apimachinery.garbage_collector.ownership import without_blocking, without_owners
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
    """Replaces the response to the requests for one object. received: these requests."""

    def __init__(self, family: Family, monkeypatch: pytest.MonkeyPatch, method: str, end: str, status: int) -> None:
        self.received: list[Request] = []
        self.stopped = False
        serve = family.cluster.network.serve

        def serving(request: Request) -> Response:
            if request.method == method and request.path.endswith(end):
                self.received.append(request)
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
def test_owner_references_are_removed_by_strategic_or_merge_patch(
    uids: list[str], strategic: list[Object], merged: list[str] | None
) -> None:
    patch = without_owners(PODS, OWNED, uids, strategic=True)
    assert patch.patch_type == PatchType.STRATEGIC
    assert orjson.loads(patch.body) == {"metadata": {"uid": "100", "ownerReferences": strategic}}
    patch = without_owners(PODS, OWNED, uids, strategic=False)
    assert patch.patch_type == PatchType.MERGE
    meta = orjson.loads(patch.body)["metadata"]
    left = meta.pop("ownerReferences")
    remaining = [reference["uid"] for reference in left] if left is not None else None
    assert (remaining, meta) == (merged, {"resourceVersion": "7"})


def test_only_blocking_references_are_unblocked() -> None:
    strategic = orjson.loads(without_blocking(PODS, OWNED, strategic=True).body)
    blocking = [{"uid": "1", "name": "a", "blockOwnerDeletion": False}]
    assert strategic == {"metadata": {"uid": "100", "ownerReferences": blocking}}
    merged = orjson.loads(without_blocking(PODS, OWNED, strategic=False).body)["metadata"]
    assert merged["resourceVersion"] == "7"
    assert [(reference["uid"], reference["blockOwnerDeletion"]) for reference in merged["ownerReferences"]] == [
        ("1", False),
        ("2", False),
        ("3", False),
    ]


# Collected resources: TestGetDeletableResources.


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
    resource = ServedResource(group=group, version="v1", plural=plural, kind="K", namespaced=True, verbs=verbs)
    assert is_collected(resource) == collected


# Absent owners: TestAttemptToDeleteItem, TestAbsentOwnerCache.


def test_absent_owner_is_looked_up_once_for_all_dependents(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Answers(family, monkeypatch, "GET", "/secrets/ghost", 0)
    ghost = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ghost", "uid": "ghost-uid"}}
    for name in ("one", "two", "three"):
        family.make(CONFIGMAPS, name, ghost)
    family.settle(SOON)
    assert family.names(CONFIGMAPS) == []
    family.make(CONFIGMAPS, "late", ghost)
    family.settle(SOON)
    assert (family.names(CONFIGMAPS), len(looks.received)) == ([], 1)


# TestAttemptToDeleteItemDeleteObjectNotFound, …WaitingForDependents.


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
def test_concurrent_deletion_by_another_client_is_ignored(
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


def test_owner_is_kept_until_all_dependents_are_orphaned(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = family.make(CONFIGMAPS, "owner")
    for name in ("one", "two"):
        family.make(CONFIGMAPS, name, owner)
    family.settle()
    patches = Answers(family, monkeypatch, "PATCH", "/configmaps/two", 409)
    family.delete(CONFIGMAPS, "owner", "Orphan")
    family.settle(5.0)
    assert family.meta(CONFIGMAPS, "owner")["finalizers"] == ["orphan"]
    assert "ownerReferences" not in family.meta(CONFIGMAPS, "one")
    assert len(patches.received) > 1, "the patch is retried"
    patches.stopped = True
    assert family.cluster.run_until(lambda: family.names(CONFIGMAPS) == ["one", "two"], within=60.0)
    assert "ownerReferences" not in family.meta(CONFIGMAPS, "two")


# Versions of an owner's kind: TestConflictingData.


def two_versions(*, second_served: bool = True) -> Object:
    found = crd()
    first = found["spec"]["versions"][0]
    found["spec"]["versions"].append({**first, "name": "v2", "served": second_served, "storage": False})
    return found


def test_owner_reference_with_non_preferred_version_is_resolved(family: Family) -> None:
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
    """Child, existing owner with inaccessible API version: the child is kept before and after the owner's deletion."""
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
    """Child, non-existent owner with inaccessible API version, and another child with an accessible one."""
    family = Family(log)
    ghost = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "uid": "ghost-uid"}}
    children = [("bad", named(ghost, "extensions/v1beta1")), ("good", ghost)]
    for name, owner in children if bad_first else reversed(children):
        family.make(CONFIGMAPS, name, owner)
        family.settle()
    family.settle(120.0)
    assert family.names(CONFIGMAPS) == ["bad"]


@pytest.mark.parametrize("order", [("bad", "good"), ("good", "bad")])
def test_dependent_with_wrong_owner_kind_does_not_affect_valid_one(family: Family, order: tuple[str, str]) -> None:
    """Bad child, existing owner with incorrect API version: before and after the owner is in a table."""
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


def test_deleted_crd_deletes_its_objects_and_their_dependents_repeatedly(family: Family) -> None:
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


def test_temporarily_missing_api_deletes_no_dependents(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    """Own case: the tables of the API are removed, and the server responds with 404 to requests for its objects."""
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
                        resource
                        for resource in groups[field]
                        if "example.com" not in (resource.get("name"), (resource.get("metadata") or {}).get("name"))
                    ]
            return Response(status=200, body=orjson.dumps(groups))
        return response

    def watching(request: Request, **more: Any) -> Any:
        return Response(status=404) if "example.com" in request.path else watch(request, **more)

    with monkeypatch.context() as for_a_while:
        for_a_while.setattr(family.cluster.network, "serve", away)
        for_a_while.setattr(family.cluster.network.server, "watch", watching)
        assert family.cluster.run_until(lambda: not any("things" in name for name in family.system.tables), within=60.0)
        family.settle(120.0)
        assert family.names(CONFIGMAPS) == ["owned"]
    family.settle(60.0)
    assert family.names(CONFIGMAPS) == ["owned"]
    family.delete(THINGS, "thing")
    family.settle(SOON)
    assert family.names(CONFIGMAPS) == []


def test_owner_is_found_when_its_kind_is_served_in_another_version(family: Family) -> None:
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


def test_core_and_custom_objects_own_each_other(family: Family) -> None:
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


def test_dependent_with_a_remaining_owner_is_kept(family: Family) -> None:
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


def test_dependents_of_owners_in_other_namespaces_are_deleted_and_valid_ones_kept(family: Family) -> None:
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


def test_temporary_discovery_failure_loses_no_state(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
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
