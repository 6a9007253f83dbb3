"""Settings of a kind's Strategy: metadata.generation, updates without a version, and responses to deletions."""

from __future__ import annotations

import pytest

from tests.runtime.apiserver.conftest import Api

TEMPLATES = "/api/v1/namespaces/default/podtemplates"
DRIVERS = "/apis/storage.k8s.io/v1/csidrivers"
AUTOSCALERS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"


TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "a"}]}}
AUTOSCALER = {"maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}}


@pytest.mark.parametrize("collection, generation", [(TEMPLATES, 1), (AUTOSCALERS, None), (DRIVERS, None)])
def test_new_object_has_a_generation_if_its_kind_does(api: Api, collection: str, generation: int | None) -> None:
    spec = AUTOSCALER if collection == AUTOSCALERS else {}
    created = api.send("POST", collection, {"metadata": {"name": "x"}, "spec": spec, "template": TEMPLATE})
    assert (created.status, created.meta.get("generation")) == (201, generation)


@pytest.mark.parametrize(
    "collection, kind", [(TEMPLATES, "PodTemplate"), (DRIVERS, "CSIDriver"), (AUTOSCALERS, "Status")]
)
def test_a_deletion_returns_the_object_or_a_status(api: Api, collection: str, kind: str) -> None:
    api.send("POST", collection, {"metadata": {"name": "x"}, "template": TEMPLATE})
    assert api.send("DELETE", f"{collection}/x").obj["kind"] == kind


def test_csi_driver_update_needs_a_version(api: Api) -> None:
    driver = {"metadata": {"name": "x"}}
    api.send("POST", DRIVERS, driver)
    refused = api.send("PUT", f"{DRIVERS}/x", driver)
    assert refused.causes == {"metadata.resourceVersion": "Invalid value: 0: must be specified for an update"}
