"""PUT of an object and of its status."""

from __future__ import annotations

import pytest

from kcm.protocols.objects import Object
from tests.runtime.apiserver.conftest import Api

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def test_an_update_of_an_old_version_is_a_conflict(api: Api) -> None:
    old = api.create("replicasets", api.replicaset("x")).obj
    api.patch("replicasets", "x", {"spec": {"replicas": 2}})

    refused = api.put("replicasets", old)

    assert (refused.status, refused.reason) == (409, "Conflict")
    assert refused.message == f'Operation cannot be fulfilled on replicasets.apps "x": {MODIFIED}'
    assert refused.obj["details"] == {"name": "x", "group": "apps", "kind": "replicasets"}


def test_an_update_without_a_version_overwrites(api: Api) -> None:
    api.create("replicasets", api.replicaset())
    updated = api.put("replicasets", api.replicaset(replicas=5))
    assert (updated.status, updated.obj["spec"]["replicas"]) == (200, 5)


def test_lease_update_without_version_is_rejected(api: Api) -> None:
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}
    api.create("leases", lease)
    refused = api.put("leases", lease)
    assert refused.status == 422
    assert refused.causes == {"metadata.resourceVersion": "Invalid value: 0: must be specified for an update"}


def test_update_of_a_missing_lease_creates_it_and_of_a_missing_pod_is_not_found(api: Api) -> None:
    assert api.put("leases", {"metadata": {"name": "l"}, "spec": {}}).status == 201
    assert api.put("pods", api.pod()).message == 'pods "web" not found'


def test_update_with_another_uid_is_a_conflict(api: Api) -> None:
    api.create("pods", api.pod())
    body = api.pod()
    body["metadata"]["uid"] = "of-its-predecessor"
    refused = api.put("pods", body)
    assert refused.status == 409
    assert "Precondition failed: UID in precondition: of-its-predecessor, UID in object meta: uid-" in refused.message


def test_update_without_changes_is_not_written(api: Api) -> None:
    created = api.create("replicasets", api.replicaset())
    listener = api.watch("replicasets", resourceVersion=created.meta["resourceVersion"])
    again = api.put("replicasets", created.obj)
    patched = api.patch("replicasets", "web", {"spec": {"replicas": 1}})
    assert again.obj == patched.obj == created.obj
    assert listener.events == []


def test_an_update_cannot_change_identity_and_times(api: Api) -> None:
    created = api.create("replicasets", api.replicaset()).obj
    body = api.replicaset(replicas=3)
    body["metadata"] |= {"creationTimestamp": "1999-01-01T00:00:00Z", "generation": 40, "deletionTimestamp": None}
    meta = api.put("replicasets", body).meta
    assert meta["creationTimestamp"] == created["metadata"]["creationTimestamp"]
    assert meta["uid"] == created["metadata"]["uid"]
    assert meta["generation"] == 2


@pytest.mark.parametrize(
    "resource,patch,generation",
    [
        ("replicasets", {"spec": {"replicas": 7}}, 2),
        ("replicasets", {"metadata": {"annotations": {"a": "b"}}}, 1),
        ("deployments", {"metadata": {"annotations": {"a": "b"}}}, 2),
        ("deployments", {"metadata": {"labels": {"a": "b"}}}, 1),
        ("deployments", {"spec": {"paused": True}}, 2),
    ],
)
def test_generation_increases_with_changes_of_the_spec(api: Api, resource: str, patch: Object, generation: int) -> None:
    """It also increases with changes of a Deployment's annotations, which its ReplicaSets copy."""
    api.create(resource, api.replicaset())
    assert api.patch(resource, "web", patch).meta["generation"] == generation


def test_status_and_spec_are_updated_separately(api: Api) -> None:
    api.create("replicasets", api.replicaset(replicas=3))

    both = {"spec": {"replicas": 9}, "status": {"replicas": 2, "observedGeneration": 1}}
    written = api.patch("replicasets", "web", both, subresource="status")
    assert written.obj["spec"]["replicas"] == 3
    assert written.obj["status"] == {"replicas": 2, "observedGeneration": 1}
    assert written.meta["generation"] == 1

    written = api.patch("replicasets", "web", {"spec": {"replicas": 4}, "status": {"replicas": 0}})
    assert written.obj["spec"]["replicas"] == 4
    assert written.obj["status"]["replicas"] == 2
    assert api.get("replicasets", "web", "status").obj == written.obj


@pytest.mark.parametrize(
    "resource,kept,changed",
    [
        ("deployments", "labels", "annotations"),
        ("pods", "ownerReferences", "labels"),
        ("replicasets", None, "labels"),
    ],
)
def test_status_update_changes_most_metadata(api: Api, resource: str, kept: str | None, changed: str) -> None:
    """The Deployment controller stores its revision annotation through the status path."""
    api.create(resource, api.pod() if resource == "pods" else api.replicaset())
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
    values = {"labels": {"app": "other"}, "annotations": {"revision": "1"}, "ownerReferences": [owner]}
    before = api.get(resource, "web").meta
    patch = {"metadata": {part: values[part] for part in (kept, changed) if part}}

    meta = api.patch(resource, "web", patch, subresource="status").meta

    assert meta[changed] == values[changed]
    if kept:
        assert meta.get(kept) == before.get(kept)


def test_name_in_the_body_must_be_that_of_the_path(api: Api) -> None:
    api.create("pods", api.pod())
    refused = api.send("PUT", api.path("pods", "web"), api.pod("other"))
    assert refused.message == "the name of the object (other) does not match the name on the URL (web)"


def test_dry_run_returns_the_change_without_storing_it(api: Api) -> None:
    before = api.create("replicasets", api.replicaset()).obj
    shown = api.put("replicasets", api.replicaset(replicas=8), dryRun="All")
    assert (shown.status, shown.obj["spec"]["replicas"]) == (200, 8)
    assert api.get("replicasets", "web").obj == before
