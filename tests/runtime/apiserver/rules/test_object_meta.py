"""The metadata of every object."""

from __future__ import annotations

import pytest

from kcm.protocols.objects import Object
from tests.runtime.apiserver.conftest import Api


@pytest.mark.parametrize(
    "meta,field,text",
    [
        ({}, "metadata.name", "Required value: name or generateName is required"),
        ({"name": "Web"}, "metadata.name", 'Invalid value: "Web": a lowercase RFC 1123 subdomain must consist of '),
        ({"name": "Web"}, "metadata.name", " (e.g. 'example.com', regex used for validation is '[a-z0-9]("),
        ({"name": "x" * 254}, "metadata.name", f'Invalid value: "{"x" * 254}": must be no more than 253 characters'),
        ({"name": "x", "labels": {"a/b/c": "v"}}, "metadata.labels", 'Invalid value: "a/b/c": a valid label key must '),
        ({"name": "x", "labels": {"/b": "v"}}, "metadata.labels", 'Invalid value: "/b": prefix part must be non-empty'),
        ({"name": "x", "labels": {"a": "-"}}, "metadata.labels", 'Invalid value: "-": a valid label must be an empty '),
        (
            {"name": "x", "annotations": {"a": "y" * 300_000}},
            "metadata.annotations",
            "may not be more than 262144 bytes",
        ),
        (
            {"name": "x", "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": ""}]},
            "metadata.ownerReferences.uid",
            'Invalid value: "": must not be empty',
        ),
        (
            {"name": "x", "finalizers": ["orphan", "foregroundDeletion"]},
            "metadata.finalizers",
            "finalizer orphan and foregroundDeletion cannot be both set",
        ),
    ],
)
def test_invalid_metadata_has_upstreams_error_text(api: Api, meta: Object, field: str, text: str) -> None:
    body = api.pod()
    body["metadata"] = meta
    refused = api.create("pods", body)
    assert refused.status == 422
    assert text in refused.causes[field]


def test_error_for_many_controllers_is_short(api):
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
    body = {"metadata": {"name": "c", "ownerReferences": [reference] * 2000}}
    refused = api.create("configmaps", body)
    assert refused.status == 422
    causes = refused.obj["details"]["causes"]
    assert sum(len(cause["message"]) for cause in causes) < 700_000
    assert causes[-1] == {"message": "and 7 more"}
