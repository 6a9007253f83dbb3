"""Validation shared by the kinds with a pod template: selector, spec and status."""

from __future__ import annotations

import pytest

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.schema.patches import apply_merge_patch
from tests.runtime.apiserver.conftest import Api


def test_a_selector_cannot_change(api: Api) -> None:
    api.create("deployments", api.replicaset())
    body = api.replicaset(selector={"matchLabels": {"app": "b"}}, template=api.template(app="b"))
    refused = api.put("deployments", body)
    assert refused.status == 422
    assert refused.causes == {"spec.selector": 'Invalid value: {"matchLabels":{"app":"b"}}: field is immutable'}


UNMATCHED = 'Invalid value: {"app":"b"}: `selector` does not match template `labels`'


@pytest.mark.parametrize(
    "change,causes",
    [
        ({"replicas": -1}, {"spec.replicas": "Invalid value: -1: must be greater than or equal to 0"}),
        ({"minReadySeconds": -1}, {"spec.minReadySeconds": "Invalid value: -1: must be greater than or equal to 0"}),
        ({"selector": None}, {"spec.selector": "Required value"}),
        ({"selector": {}}, {"spec.selector": "Invalid value: {}: empty selector is invalid for deployment"}),
        (
            {"selector": {"matchExpressions": [{"key": "app", "operator": "Near"}]}},
            {
                "spec.selector.matchExpressions[0].operator": 'Invalid value: "Near": not a valid selector operator',
                "spec.selector": (
                    'Invalid value: {"matchExpressions":[{"key":"app","operator":"Near"}]}: invalid label selector'
                ),
            },
        ),
        ({"template": None}, {"spec.template.spec.containers": "Required value"}),
        ({"template": {"metadata": {"labels": {"app": "b"}}}}, {"spec.template.metadata.labels": UNMATCHED}),
        (
            {"template": {"spec": {"restartPolicy": "Never"}}},
            {"spec.template.spec.restartPolicy": 'Unsupported value: "Never": supported values: "Always"'},
        ),
        (
            {"template": {"spec": {"activeDeadlineSeconds": 5}}},
            {
                "spec.template.spec.activeDeadlineSeconds": (
                    "Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported"
                )
            },
        ),
    ],
)
@pytest.mark.parametrize("resource", ["replicasets", "deployments"])
def test_an_invalid_set_is_refused_with_its_causes(api: Api, resource: str, change: Object, causes: Object) -> None:
    body = apply_merge_patch(api.replicaset(), {"spec": change})
    if "selector" in change:
        body["spec"]["selector"] = change["selector"]
    refused = api.create(resource, body)
    assert refused.status == 422
    assert refused.causes.items() >= causes.items()


def test_invalid_status_is_rejected(api: Api) -> None:
    api.create("replicasets", api.replicaset())
    refused = api.patch("replicasets", "web", {"status": {"replicas": 1, "readyReplicas": 2}}, subresource="status")
    assert refused.causes == {"status.readyReplicas": "Invalid value: 2: cannot be greater than status.replicas"}
    api.create("deployments", api.replicaset())
    api.patch("deployments", "web", {"status": {"collisionCount": 2}}, subresource="status")
    refused = api.patch("deployments", "web", {"status": {"collisionCount": 1}}, subresource="status")
    assert refused.causes == {"status.collisionCount": "Invalid value: 1: cannot be decremented"}
