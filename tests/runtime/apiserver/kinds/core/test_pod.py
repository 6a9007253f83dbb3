"""Pods: defaults, validation, QoS class, and updates."""

from __future__ import annotations

import pytest

from kcm.protocols.objects import Object
from tests.runtime.apiserver.conftest import Api


def test_gated_pod_has_a_scheduling_gated_condition(api: Api) -> None:
    status = api.create("pods", api.pod(schedulingGates=[{"name": "g"}])).obj["status"]
    assert status["conditions"][0]["reason"] == "SchedulingGated"


def test_a_pod_gets_upstreams_defaults(api: Api) -> None:
    spec = api.create("pods", api.pod()).obj["spec"]
    assert spec == {
        "containers": [
            {
                "name": "c",
                "image": "nginx:1",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
        ],
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "enableServiceLinks": True,
    }


@pytest.mark.parametrize(
    "image,policy",
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.25", "IfNotPresent"),
        ("host:5000/nginx", "Always"),
        ("host:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:abc", "IfNotPresent"),
    ],
)
def test_pull_policy_depends_on_the_image_tag(api: Api, image: str, policy: str) -> None:
    created = api.create("pods", api.pod(containers=[{"name": "c", "image": image}]))
    assert created.obj["spec"]["containers"][0]["imagePullPolicy"] == policy


@pytest.mark.parametrize(
    "resources,expected",
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"example.com/gpu": "1"}}, "BestEffort"),
    ],
)
def test_qos_class_depends_on_the_resources(api: Api, resources: Object, expected: str) -> None:
    created = api.create("pods", api.pod(containers=[{"name": "c", "image": "i", "resources": resources}]))
    assert created.obj["status"]["qosClass"] == expected


CONTAINER = {"name": "c", "image": "i"}


INVALID_PODS = [
    ({"containers": []}, {"spec.containers": "Required value"}),
    ({"containers": [{"image": "i"}]}, {"spec.containers[0].name": "Required value"}),
    ({"containers": [{"name": "c"}]}, {"spec.containers[0].image": "Required value"}),
    ({"containers": [CONTAINER, CONTAINER]}, {"spec.containers[1].name": 'Duplicate value: "c"'}),
    (
        {"restartPolicy": "Sometimes"},
        {"spec.restartPolicy": 'Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"'},
    ),
    (
        {"containers": [{**CONTAINER, "ports": [{"containerPort": 0}]}]},
        {"spec.containers[0].ports[0].containerPort": "Required value"},
    ),
    (
        {"containers": [{**CONTAINER, "ports": [{"containerPort": 70000}]}]},
        {"spec.containers[0].ports[0].containerPort": "Invalid value: 70000: must be between 1 and 65535, inclusive"},
    ),
    (
        {"containers": [{**CONTAINER, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]},
        {"spec.containers[0].volumeMounts[0].name": 'Not found: "v"'},
    ),
    (
        {"containers": [{**CONTAINER, "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]},
        {"spec.containers[0].resources.requests": 'Invalid value: "2": must be less than or equal to cpu limit of 1'},
    ),
    (
        {"containers": [{**CONTAINER, "resources": {"requests": {"example.com/gpu": "1"}}}]},
        {"spec.containers[0].resources.limits": ("Required value: Limit must be set for non overcommitable resources")},
    ),
    (
        {"activeDeadlineSeconds": 0},
        {"spec.activeDeadlineSeconds": "Invalid value: 0: must be between 1 and 2147483647, inclusive"},
    ),
    (
        {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
        {"spec.tolerations[0].operator": "Invalid value: \"b\": value must be empty when `operator` is 'Exists'"},
    ),
]


@pytest.mark.parametrize("spec,causes", INVALID_PODS)
def test_an_invalid_pod_is_refused_with_its_causes(api: Api, spec: Object, causes: Object) -> None:
    refused = api.create("pods", api.pod(**spec))
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert refused.causes == causes
    field, text = next(iter(causes.items()))
    assert refused.message == f'Pod "web" is invalid: {field}: {text}'
    assert refused.obj["details"]["kind"] == "Pod"


def test_several_causes_are_reported_together(api: Api) -> None:
    refused = api.create("pods", api.pod(containers=[{}]))
    assert refused.message == (
        'Pod "web" is invalid: [spec.containers[0].name: Required value, spec.containers[0].image: Required value]'
    )


def test_qos_class_of_a_pod_is_immutable(api: Api) -> None:
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
def test_most_fields_of_a_pods_spec_are_immutable(api: Api, change: Object, field: str) -> None:
    api.create("pods", api.pod(tolerations=[{"key": "k", "operator": "Exists", "effect": "NoSchedule"}]))
    refused = api.patch("pods", "web", {"spec": change})
    assert refused.status == 422
    assert list(refused.causes) == [field] or field in refused.causes
    if field == "spec":
        assert refused.causes["spec"].startswith(
            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
        )


def test_a_pods_images_deadline_and_tolerations_can_change(api: Api) -> None:
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
