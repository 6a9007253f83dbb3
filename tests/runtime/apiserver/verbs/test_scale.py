"""The scale subresource."""

from __future__ import annotations

import pytest

from tests.runtime.apiserver.conftest import Api


@pytest.mark.parametrize("resource", ["replicationcontrollers", "replicasets", "deployments"])
def test_scale_shows_and_sets_the_replicas(api: Api, resource: str) -> None:
    body = api.replicaset(replicas=2)
    if resource == "replicationcontrollers":
        body["spec"]["selector"] = {"app": "web"}
    created = api.create(resource, body)

    scale = api.get(resource, "web", "scale").obj
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["metadata"]["uid"] == created.meta["uid"]
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 0, "selector": "app=web"}

    scale["spec"]["replicas"] = 5
    assert api.put(resource, scale, "scale").obj["spec"] == {"replicas": 5}
    stored = api.get(resource, "web")
    assert (stored.obj["spec"]["replicas"], stored.meta["generation"]) == (5, 2)

    too_many = api.patch(resource, "web", {"spec": {"replicas": 2**31}}, subresource="scale")
    assert too_many.status == 422
    assert "into Go struct field ScaleSpec.spec.replicas of type int32" in too_many.message

    stale = api.put(resource, scale, "scale")
    assert (stale.status, stale.reason) == (409, "Conflict")

    assert api.patch(resource, "web", {"spec": {"replicas": 0}}, subresource="scale").obj["spec"] == {}
    assert api.get(resource, "web").obj["spec"]["replicas"] == 0
    negative = api.patch(resource, "web", {"spec": {"replicas": -1}}, subresource="scale")
    assert negative.causes == {"spec.replicas": "Invalid value: -1: must be greater than or equal to 0"}


def test_unscalable_kind_has_no_scale(api: Api) -> None:
    api.create("pods", api.pod())
    assert api.get("pods", "web", "scale").status == 404
