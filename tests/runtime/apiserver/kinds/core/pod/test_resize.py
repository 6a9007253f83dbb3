"""Subresource pods/resize: changes of cpu and memory within limits and quotas.

Source of the cases: kubernetes pkg/apis/core/validation/validation_test.go (TestValidatePodResize),
pkg/registry/core/pod/strategy_test.go (v1.36).
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.protocols.objects import Object
from tests.runtime.apiserver.conftest import Answer, Api

SMALL = {"cpu": "100m", "memory": "100Mi"}


def container(name: str = "c", requests: Object | None = None, limits: Object | None = None, **more: Any) -> Object:
    parts = {"requests": requests, "limits": limits}
    return {
        "name": name,
        "image": "i",
        "resources": {part: amounts for part, amounts in parts.items() if amounts is not None},
        **more,
    }


def a_pod(api: Api, *containers: Object, name: str = "p", **spec: Any) -> None:
    body = api.pod(name, **spec)
    body["spec"]["containers"] = list(containers or (container(requests=SMALL),))
    made = api.create("pods", body)
    assert made.status == 201, made.message


def resize(api: Api, *containers: Object, name: str = "p", **spec: Any) -> Answer:
    """PUT the stored pod with other containers."""
    pod = api.get("pods", name).obj
    some = {"containers": list(containers)} if containers else {}
    return api.put("pods", {**pod, "spec": {**pod["spec"], **some, **spec}}, "resize")


def requests_of(api: Api, name: str = "p") -> Object:
    found: Object = api.get("pods", name).obj["spec"]["containers"][0]["resources"]["requests"]
    return found


def test_only_cpu_and_memory_can_be_resized(api: Api) -> None:
    a_pod(api)
    before = api.get("pods", "p").obj
    changed = container(requests={"cpu": "200m", "memory": "100Mi"}, image="other")
    pod = {**before, "metadata": {**before["metadata"], "labels": {"a": "b"}}, "status": {"phase": "Failed"}}
    pod["spec"] = {**before["spec"], "containers": [changed], "activeDeadlineSeconds": 5}
    answer = api.put("pods", pod, "resize")
    assert answer.status == 200, answer.message
    after = api.get("pods", "p").obj
    assert after["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "200m", "memory": "100Mi"}}
    assert (before["metadata"]["generation"], after["metadata"]["generation"]) == (1, 2)
    before["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "200m"
    before["metadata"] |= {name: after["metadata"][name] for name in ("generation", "resourceVersion", "managedFields")}
    assert after == before


def test_resize_subresource_can_be_read_and_patched(api: Api) -> None:
    a_pod(api)
    assert api.send("GET", api.path("pods", "p", "resize")).obj["kind"] == "Pod"
    patch = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "150m"}}}]}}
    answer = api.send("PATCH", api.path("pods", "p", "resize"), patch, type_="application/strategic-merge-patch+json")
    assert answer.status == 200, answer.message
    assert requests_of(api) == {"cpu": "150m", "memory": "100Mi"}
    same = resize(api)
    assert same.obj["metadata"]["generation"] == answer.obj["metadata"]["generation"] == 2


GUARANTEED = container(requests=SMALL, limits=SMALL)
INIT = container("i", requests={"cpu": "1m"})


@pytest.mark.parametrize(
    ("given", "desired", "message"),
    [
        ([container(requests=SMALL)], [container(requests={"cpu": "1"})], "resource requests cannot be removed"),
        ([GUARANTEED], [container(requests=SMALL)], "resource limits cannot be removed"),
        (
            [GUARANTEED],
            [container(requests={**SMALL, "cpu": "50m"}, limits=SMALL)],
            "Pod QOS Class may not change as a result of resizing",
        ),
        (
            [container(requests=SMALL)],
            [container(requests={**SMALL, "ephemeral-storage": "1Gi"})],
            "only cpu and memory resources are mutable",
        ),
        (
            [container(requests=SMALL)],
            [container(requests=SMALL), container("d")],
            "containers may not be added or removed on resize",
        ),
        (
            [container(requests=SMALL)],
            [container("d", requests=SMALL)],
            "containers may not be renamed or reordered on resize",
        ),
        (
            [container(requests=SMALL, limits={"cpu": "1"})],
            [container(requests={**SMALL, "cpu": "2"}, limits={"cpu": "1"})],
            "must be less than or equal to cpu limit",
        ),
    ],
)
def test_invalid_resize_is_rejected(api: Api, given: list[Object], desired: list[Object], message: str) -> None:
    a_pod(api, *given)
    answer = resize(api, *desired)
    assert answer.status == 422, answer.obj
    assert message in answer.message
    assert api.get("pods", "p").obj["metadata"]["generation"] == 1


def test_init_containers_can_be_resized_unless_it_restarts_them(api: Api) -> None:
    policy = {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}
    a_pod(api, initContainers=[INIT, container("side", requests=SMALL, restartPolicy="Always", **policy)])
    more = [container("i", requests={"cpu": "2m"}), container("side", requests={**SMALL, "cpu": "1"}, **policy)]
    assert resize(api, initContainers=more).status == 200
    a_pod(api, name="q", initContainers=[{**INIT, **policy}])
    answer = resize(api, name="q", initContainers=[{**more[0], **policy}])
    assert (answer.status, "non-sidecar init containers" in answer.message) == (422, True)


@pytest.mark.parametrize(("has", "status"), [({}, 422), ({"resources": {"requests": SMALL}}, 200)])
def test_resize_needs_a_kubelet_that_reports_resources(api: Api, has: Object, status: int) -> None:
    a_pod(api)
    running = {"name": "c", "state": {"running": {}}, "image": "i", "imageID": "", "ready": True, "restartCount": 0}
    api.patch("pods", "p", {"status": {"containerStatuses": [{**running, **has}]}}, subresource="status")
    assert resize(api, container(requests={**SMALL, "cpu": "2"})).status == status


def test_static_pods_cannot_be_resized(api: Api) -> None:
    body = api.pod("p", nodeName="n")
    body["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    assert api.create("pods", body).status == 201
    answer = resize(api)
    assert (answer.status, "static pods cannot be resized" in answer.message) == (422, True)


def a_quota(api: Api, hard: Object, used: Object) -> None:
    made = api.create("resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    assert api.put("resourcequotas", {**made.obj, "status": {"hard": hard, "used": used}}, "status").status == 200


def test_resize_is_charged_to_the_quota_and_limited_by_it(api: Api) -> None:
    a_pod(api)
    a_quota(api, {"pods": "1", "requests.cpu": "1"}, {"pods": "1", "requests.cpu": "100m"})

    def used() -> Object:
        found: Object = api.get("resourcequotas", "q").obj["status"]["used"]
        return found

    assert resize(api, container(requests={**SMALL, "cpu": "600m"})).status == 200
    assert used() == {"pods": "1", "requests.cpu": "600m"}
    answer = resize(api, container(requests={**SMALL, "cpu": "1001m"}))
    assert answer.status == 403
    words = "exceeded quota: q, requested: requests.cpu=401m, used: requests.cpu=600m, limited: requests.cpu=1"
    assert words in answer.message
    assert resize(api, container(requests={**SMALL, "cpu": "200m"})).status == 200
    assert used() == {"pods": "1", "requests.cpu": "600m"}  # the controller counts decreases


def test_resize_up_to_allocated_resources_is_not_charged_again(api: Api) -> None:
    """Usage is the maximum of requested and allocated resources, as a reduction may not be complete yet."""
    a_pod(api)
    has = {"name": "c", "state": {"running": {}}, "image": "i", "imageID": "", "ready": True, "restartCount": 0}
    has |= {"resources": {"requests": {"cpu": "500m"}}, "allocatedResources": {"cpu": "500m"}}
    api.patch("pods", "p", {"status": {"containerStatuses": [has]}}, subresource="status")
    a_quota(api, {"requests.cpu": "500m"}, {"requests.cpu": "500m"})
    assert resize(api, container(requests={**SMALL, "cpu": "500m"})).status == 200
    assert resize(api, container(requests={**SMALL, "cpu": "501m"})).status == 403


def test_resize_is_limited_by_limit_ranges(api: Api) -> None:
    a_pod(api)
    limits = [{"type": "Container", "max": {"cpu": "1"}, "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}]
    assert api.create("limitranges", {"metadata": {"name": "l"}, "spec": {"limits": limits}}).status == 201
    answer = resize(api, container(requests={**SMALL, "cpu": "2"}, limits={"cpu": "2"}))
    assert (answer.status, "maximum cpu usage per Container is 1, but limit is 2" in answer.message) == (403, True)
    assert resize(api, container(requests={**SMALL, "cpu": "200m"})).status == 200
    made = api.get("pods", "p").obj
    assert made["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1"}  # the default of the LimitRange
    assert "annotations" not in made["metadata"]


def test_pod_level_resources_can_be_resized(api: Api) -> None:
    a_pod(api, resources={"requests": {"cpu": "1"}})
    assert resize(api, resources={"requests": {"cpu": "2"}}).status == 200
    for desired, message in (
        ({"requests": {}}, "pod-level resource requests cannot be removed"),
        (None, "pod-level resources cannot be removed"),
    ):
        answer = resize(api, resources=desired)
        assert (answer.status, message in answer.message) == (422, True), answer.message
