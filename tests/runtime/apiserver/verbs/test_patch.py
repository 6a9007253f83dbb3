"""PATCH in its four forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from protocols.objects import Object
from tests.runtime.apiserver.conftest import Api


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
def test_each_form_of_patch_changes_what_it_names(api: Api, form: str, body: Object | Sequence[Object]) -> None:
    api.create("pods", api.pod())
    patched = api.patch("pods", "web", body, form)
    assert (patched.status, patched.meta["labels"]) == (200, {"b": "2"})


def test_a_strategic_merge_patch_knows_lists_by_their_keys(api: Api) -> None:
    api.create("deployments", api.replicaset())
    change = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}}}
    containers = api.patch("deployments", "web", change, "strategic").obj["spec"]["template"]["spec"]["containers"]
    assert [(one["name"], one["image"], one["imagePullPolicy"]) for one in containers] == [
        ("c", "nginx:2", "IfNotPresent")
    ]


def test_an_applied_object_is_created_and_then_merged(api: Api) -> None:
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
def test_a_patch_that_does_not_lead_to_such_an_object_is_refused(api: Api, form: str, body: Any, status: int) -> None:
    before = api.create("replicasets", api.replicaset()).obj
    assert api.patch("replicasets", "web", body, form).status == status
    assert api.get("replicasets", "web").obj == before


def test_the_error_of_a_patch_shows_its_result(api: Api) -> None:
    api.create("replicasets", api.replicaset())
    refused = api.patch("replicasets", "web", {"spec": {"replicas": "many"}})
    assert refused.message.startswith(' "" is invalid: patch: Invalid value: "{\\"kind\\":')
    assert refused.message.endswith(
        ": json: cannot unmarshal string into Go struct field ReplicaSetSpec.spec.replicas of type int32"
    )


def test_an_apply_needs_a_field_manager(api: Api) -> None:
    refused = api.send("PATCH", api.path("configmaps", "c"), {}, type_="application/apply-patch+yaml")
    assert refused.causes == {"fieldManager": "Required value: is required for apply patch"}


def test_an_unknown_type_of_patch_is_refused(api: Api) -> None:
    api.create("pods", api.pod())
    refused = api.send("PATCH", api.path("pods", "web"), {}, type_="text/plain")
    assert (refused.status, refused.reason) == (415, "UnsupportedMediaType")


def test_a_patch_can_insist_on_a_version(api: Api) -> None:
    version = api.create("pods", api.pod()).meta["resourceVersion"]
    assert api.patch("pods", "web", {"metadata": {"resourceVersion": "1", "labels": {"a": "b"}}}).status == 409
    assert api.patch("pods", "web", {"metadata": {"resourceVersion": version, "labels": {"a": "b"}}}).status == 200
