"""PUT and PATCH: who may change what, and what a change means for versions and generations."""

from __future__ import annotations

import pytest

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def test_an_update_of_an_old_version_is_a_conflict(api):
    old = api.create("replicasets", api.replicaset("x")).obj
    api.patch("replicasets", "x", {"spec": {"replicas": 2}})

    refused = api.put("replicasets", old)

    assert (refused.status, refused.reason) == (409, "Conflict")
    assert refused.message == f'Operation cannot be fulfilled on replicasets.apps "x": {MODIFIED}'
    assert refused.obj["details"] == {"name": "x", "group": "apps", "kind": "replicasets"}


def test_an_update_without_a_version_overwrites(api):
    api.create("replicasets", api.replicaset())
    updated = api.put("replicasets", api.replicaset(replicas=5))
    assert (updated.status, updated.obj["spec"]["replicas"]) == (200, 5)


def test_a_lease_is_not_overwritten_blindly(api):
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}
    api.create("leases", lease)
    refused = api.put("leases", lease)
    assert refused.status == 422
    assert refused.causes == {"metadata.resourceVersion": "Invalid value: 0: must be specified for an update"}


def test_an_update_of_nothing_creates_a_lease_and_is_an_error_for_a_pod(api):
    assert api.put("leases", {"metadata": {"name": "l"}, "spec": {}}).status == 201
    assert api.put("pods", api.pod()).message == 'pods "web" not found'


def test_an_update_of_another_object_of_that_name_is_a_conflict(api):
    api.create("pods", api.pod())
    body = api.pod()
    body["metadata"]["uid"] = "of-its-predecessor"
    refused = api.put("pods", body)
    assert refused.status == 409
    assert "Precondition failed: UID in precondition: of-its-predecessor, UID in object meta: uid-" in refused.message


def test_a_change_that_changes_nothing_is_not_written(api):
    created = api.create("replicasets", api.replicaset())
    listener = api.watch("replicasets", resourceVersion=created.meta["resourceVersion"])
    again = api.put("replicasets", created.obj)
    patched = api.patch("replicasets", "web", {"spec": {"replicas": 1}})
    assert again.obj == patched.obj == created.obj
    assert listener.events == []


def test_an_update_cannot_change_identity_and_times(api):
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
def test_the_generation_counts_changes_of_the_spec(api, resource, patch, generation):
    """And of a Deployment's annotations, which its ReplicaSets copy."""
    api.create(resource, api.replicaset())
    assert api.patch(resource, "web", patch).meta["generation"] == generation


def test_status_and_spec_are_written_apart(api):
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
def test_a_status_write_changes_most_of_the_metadata(api, resource, kept, changed):
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


def test_a_pods_quality_of_service_is_decided_once(api):
    body = api.create("pods", api.pod()).obj
    body["status"] = {"phase": "Running"}
    written = api.put("pods", body, "status")
    assert written.obj["status"] == {"phase": "Running", "qosClass": "BestEffort"}
    refused = api.patch("pods", "web", {"status": {"qosClass": "Guaranteed"}}, subresource="status")
    assert refused.causes == {"status.qosClass": 'Invalid value: "Guaranteed": field is immutable'}


@pytest.mark.parametrize(
    "change,field",
    [
        ({"nodeName": "n1"}, "spec"),
        ({"containers": []}, "spec.containers"),
        ({"terminationGracePeriodSeconds": 1}, "spec"),
        ({"tolerations": []}, "spec.tolerations"),
        ({"schedulingGates": [{"name": "late"}]}, "spec.schedulingGates[0].name"),
    ],
)
def test_most_of_a_pods_spec_cannot_change(api, change, field):
    api.create("pods", api.pod(tolerations=[{"key": "k", "operator": "Exists", "effect": "NoSchedule"}]))
    refused = api.patch("pods", "web", {"spec": change})
    assert refused.status == 422
    assert list(refused.causes) == [field] or field in refused.causes
    if field == "spec":
        assert refused.causes["spec"].startswith(
            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
        )


def test_a_pod_cannot_be_without_the_tolerations_that_every_pod_has(api):
    created = api.create("pods", api.pod())
    assert api.patch("pods", "web", {"spec": {"tolerations": []}}).obj == created.obj


def test_a_pods_images_deadline_and_tolerations_can_change(api):
    api.create("pods", api.pod(schedulingGates=[{"name": "a"}, {"name": "b"}]))
    more = {"key": "k", "operator": "Exists", "effect": "NoSchedule"}
    tolerations = [*api.get("pods", "web").obj["spec"]["tolerations"], more]
    for change in (
        {"containers": [{"name": "c", "image": "nginx:2"}]},
        {"activeDeadlineSeconds": 10},
        {"tolerations": tolerations},
        {"schedulingGates": [{"name": "b"}]},
    ):
        assert (
            api.patch("pods", "web", {"spec": change}, "merge" if "containers" not in change else "strategic").status
            == 200
        )
    assert api.get("pods", "web").meta["generation"] == 5


def test_a_selector_cannot_change(api):
    api.create("deployments", api.replicaset())
    body = api.replicaset(selector={"matchLabels": {"app": "b"}}, template=api.template(app="b"))
    refused = api.put("deployments", body)
    assert refused.status == 422
    assert refused.causes == {"spec.selector": 'Invalid value: {"matchLabels":{"app":"b"}}: field is immutable'}


@pytest.mark.parametrize(
    "form,body",
    [
        ("merge", {"metadata": {"labels": {"b": "2", "app": None}}}),
        ("strategic", {"metadata": {"labels": {"b": "2", "app": None}}}),
        (
            "json",
            [
                {"op": "add", "path": "/metadata/labels/b", "value": "2"},
                {"op": "remove", "path": "/metadata/labels/app"},
            ],
        ),
    ],
)
def test_each_form_of_patch_changes_what_it_names(api, form, body):
    api.create("pods", api.pod())
    patched = api.patch("pods", "web", body, form)
    assert (patched.status, patched.meta["labels"]) == (200, {"b": "2"})


def test_a_strategic_merge_patch_knows_lists_by_their_keys(api):
    api.create("deployments", api.replicaset())
    change = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}}}
    containers = api.patch("deployments", "web", change, "strategic").obj["spec"]["template"]["spec"]["containers"]
    assert [(one["name"], one["image"], one["imagePullPolicy"]) for one in containers] == [
        ("c", "nginx:2", "IfNotPresent")
    ]


def test_an_applied_object_is_created_and_then_merged(api):
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    assert api.patch("configmaps", "c", manifest, "apply").status == 201
    again = api.patch("configmaps", "c", {"apiVersion": "v1", "kind": "ConfigMap", "data": {"b": "2"}}, "apply")
    assert (again.status, again.obj["data"]) == (200, {"a": "1", "b": "2"})
    assert api.patch("configmaps", "d", b"{a: [", "apply").status == 400


@pytest.mark.parametrize(
    "form,body,status",
    [
        ("merge", b"{", 400),
        ("merge", b"[]", 400),
        ("strategic", b"7", 400),
        ("json", b"{}", 400),
        ("json", [{"op": "test", "path": "/metadata/name", "value": "other"}], 422),
        ("json", [{"op": "remove", "path": "/spec/nothing"}], 422),
        ("json", [{"op": "remove", "path": "/metadata"}], 400),
        ("merge", {"metadata": {"name": "other"}}, 400),
        ("merge", {"metadata": {"namespace": "other"}}, 400),
        ("merge", {"metadata": []}, 422),
        ("merge", {"spec": None}, 422),
        ("merge", {"spec": {"replicas": "many"}}, 422),
        ("merge", {"kind": "Pod"}, 422),
    ],
)
def test_a_patch_that_does_not_lead_to_such_an_object_is_refused(api, form, body, status):
    before = api.create("replicasets", api.replicaset()).obj
    assert api.patch("replicasets", "web", body, form).status == status
    assert api.get("replicasets", "web").obj == before


def test_what_a_patch_leads_to_is_told_with_what_is_wrong_with_it(api):
    api.create("replicasets", api.replicaset())
    refused = api.patch("replicasets", "web", {"spec": {"replicas": "many"}})
    assert refused.message.startswith(' "" is invalid: patch: Invalid value: "{\\"kind\\":')
    assert refused.message.endswith(
        ": json: cannot unmarshal string into Go struct field ReplicaSetSpec.spec.replicas of type int32"
    )


def test_who_applies_says_who_he_is(api):
    refused = api.send("PATCH", api.path("configmaps", "c"), {}, type_="application/apply-patch+yaml")
    assert refused.causes == {"fieldManager": "Required value: is required for apply patch"}


def test_an_unknown_type_of_patch_is_refused(api):
    api.create("pods", api.pod())
    refused = api.send("PATCH", api.path("pods", "web"), {}, type_="text/plain")
    assert (refused.status, refused.reason) == (415, "UnsupportedMediaType")


def test_a_patch_can_insist_on_a_version(api):
    version = api.create("pods", api.pod()).meta["resourceVersion"]
    assert api.patch("pods", "web", {"metadata": {"resourceVersion": "1", "labels": {"a": "b"}}}).status == 409
    assert api.patch("pods", "web", {"metadata": {"resourceVersion": version, "labels": {"a": "b"}}}).status == 200


def test_the_name_in_the_body_is_the_one_in_the_path(api):
    api.create("pods", api.pod())
    refused = api.send("PUT", api.path("pods", "web"), api.pod("other"))
    assert refused.message == "the name of the object (other) does not match the name on the URL (web)"


def test_dry_run_shows_the_change_and_makes_none(api):
    before = api.create("replicasets", api.replicaset()).obj
    shown = api.put("replicasets", api.replicaset(replicas=8), dryRun="All")
    assert (shown.status, shown.obj["spec"]["replicas"]) == (200, 8)
    assert api.get("replicasets", "web").obj == before


def test_a_secret_that_is_immutable_stays_so(api):
    api.create("secrets", {"metadata": {"name": "s"}, "stringData": {"a": "b"}, "immutable": True})
    stored = api.get("secrets", "s").obj
    assert (stored["data"], stored["type"]) == ({"a": "Yg=="}, "Opaque")
    assert "stringData" not in stored
    refused = api.patch("secrets", "s", {"data": {"a": "Yw=="}, "immutable": False})
    detail = "Forbidden: field is immutable when `immutable` is set"
    assert refused.causes == {"immutable": detail, "data": detail}
