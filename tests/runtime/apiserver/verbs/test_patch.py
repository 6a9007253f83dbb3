"""PATCH in its four forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kcm.protocols.objects import Object
from tests.runtime.apiserver.conftest import Answer, Api


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
def test_patch_of_each_type_changes_its_fields(api: Api, form: str, body: Object | Sequence[Object]) -> None:
    api.create("pods", api.pod())
    patched = api.patch("pods", "web", body, form)
    assert (patched.status, patched.meta["labels"]) == (200, {"b": "2"})


def test_strategic_merge_patch_merges_lists_by_key(api: Api) -> None:
    api.create("deployments", api.replicaset())
    change = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}}}
    containers = api.patch("deployments", "web", change, "strategic").obj["spec"]["template"]["spec"]["containers"]
    assert [(container["name"], container["image"], container["imagePullPolicy"]) for container in containers] == [
        ("c", "nginx:2", "IfNotPresent")
    ]


def applied(api: Api, manager: str, /, body: Any = None, resource: str = "configmaps", **data: str) -> Answer:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}
    type_ = "application/apply-patch+yaml"
    return api.send("PATCH", api.path(resource, "c"), body or manifest, type_=type_, fieldManager=manager)


def test_apply_creates_the_object_and_later_removes_dropped_fields(api: Api) -> None:
    """The contract tests compare further behaviour with kube-apiserver."""
    assert applied(api, "me", a="1").status == 201
    api.patch("configmaps", "c", {"data": {"d": "4"}})
    again = applied(api, "me", b="2")
    assert (again.status, again.obj["data"]) == (200, {"b": "2", "d": "4"})
    managers = {entry["manager"]: entry["fieldsV1"] for entry in again.meta["managedFields"]}
    assert managers == {"me": {"f:data": {"f:b": {}}}, "unknown": {"f:data": {"f:d": {}}}}
    assert api.patch("configmaps", "d", b"{a: [", "apply").status == 400


def test_apply_conflict_lists_the_conflicting_fields(api: Api) -> None:
    applied(api, "me", a="1", b="2")
    api.patch("configmaps", "c", {"data": {"c": "3"}})
    refused = applied(api, "other", a="9", b="9", c="9")
    assert (refused.status, refused.reason) == (409, "Conflict")
    assert refused.message == (
        'Apply failed with 3 conflicts: conflicts with "me":\n- .data.a\n- .data.b\n'
        'conflicts with "unknown" using v1:\n- .data.c'
    )


def test_fields_from_before_the_first_apply_stay_when_dropped(api: Api) -> None:
    api.create("configmaps", {"metadata": {"name": "c"}, "data": {"a": "1"}})
    forgotten = api.patch("configmaps", "c", {"metadata": {"managedFields": []}})
    assert "managedFields" not in forgotten.meta
    assert applied(api, "me", a="9").message == (
        'Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.a'
    )
    assert applied(api, "me", a="1", b="2").status == 200
    assert applied(api, "me").obj["data"] == {"a": "1"}


@pytest.mark.parametrize(
    "body",
    [
        {"spec": []},
        {"spec": {"template": 7}},
        {"spec": {"template": {"spec": {"containers": ["c"]}}}},
        {"spec": {"template": {"spec": {"containers": [{"name": {}}]}}}},
        {"spec": {"template": {"spec": {"containers": {"name": "c"}}}}},
        {"metadata": []},
        {"metadata": {"labels": ["a"]}},
        {"metadata": {"finalizers": {"a": "b"}}},
    ],
)
def test_malformed_apply_configuration_is_rejected(api: Api, body: Any) -> None:
    api.create("replicasets", {**api.replicaset(), "metadata": {"name": "c"}})
    refused = applied(api, "me", {"apiVersion": "apps/v1", "kind": "ReplicaSet", **body}, resource="replicasets")
    assert 400 <= refused.status <= 500, refused.obj
    if refused.status == 500:  # as upstream, for violations of the schema
        assert refused.message.startswith("failed to create typed patch object (/; apps/v1, Kind=ReplicaSet): ")


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
def test_patch_with_an_invalid_result_is_rejected(api: Api, form: str, body: Any, status: int) -> None:
    before = api.create("replicasets", api.replicaset()).obj
    assert api.patch("replicasets", "web", body, form).status == status
    assert api.get("replicasets", "web").obj == before


def test_error_of_a_patch_contains_its_result(api: Api) -> None:
    api.create("replicasets", api.replicaset())
    refused = api.patch("replicasets", "web", {"spec": {"replicas": "many"}})
    assert refused.message.startswith(' "" is invalid: patch: Invalid value: "{\\"kind\\":')
    assert refused.message.endswith(
        ": json: cannot unmarshal string into Go struct field ReplicaSetSpec.spec.replicas of type int32"
    )


def test_an_apply_needs_a_field_manager(api: Api) -> None:
    refused = api.send("PATCH", api.path("configmaps", "c"), {}, type_="application/apply-patch+yaml")
    assert refused.causes == {"fieldManager": "Required value: is required for apply patch"}


def test_unknown_patch_type_is_rejected(api: Api) -> None:
    api.create("pods", api.pod())
    refused = api.send("PATCH", api.path("pods", "web"), {}, type_="text/plain")
    assert (refused.status, refused.reason) == (415, "UnsupportedMediaType")


def test_patch_with_an_old_version_is_a_conflict(api: Api) -> None:
    version = api.create("pods", api.pod()).meta["resourceVersion"]
    assert api.patch("pods", "web", {"metadata": {"resourceVersion": "1", "labels": {"a": "b"}}}).status == 409
    assert api.patch("pods", "web", {"metadata": {"resourceVersion": version, "labels": {"a": "b"}}}).status == 200
