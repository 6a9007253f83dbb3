"""ResourceQuota: no object is created above a quota, and usage and object are one commit.

Source of the cases: kubernetes plugin/pkg/admission/resourcequota/admission_test.go, apiserver
pkg/admission/plugin/resourcequota/admission_test.go (v1.36).
"""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.admission import resource_quota
from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.apiserver.kinds.resource import resource_claim
from kcm.runtime.apiserver.storage.store import MemoryStore
from tests.runtime.apiserver.conftest import Answer, Api


def quota(api: Api, hard: Object, used: Object | None = None, name: str = "q", **spec: Any) -> None:
    """Create a quota whose usage has been counted. `used` is 0 of each resource by default."""
    made = api.create("resourcequotas", {"metadata": {"name": name}, "spec": {"hard": hard, **spec}})
    assert made.status == 201, made.message
    counted = {**dict.fromkeys(hard, "0"), **(used or {})} if used != {} else {}
    status = {"hard": hard, "used": counted}
    answer = api.put("resourcequotas", {**made.obj, "status": status}, "status")
    assert answer.status == 200, answer.message


def used(api: Api, name: str = "q") -> Object:
    found: Object = api.get("resourcequotas", name).obj["status"]["used"]
    return found


def create_pod(
    api: Api, name: str, requests: Object | None = None, limits: Object | None = None, **spec: Any
) -> Answer:
    resources = {"requests": requests or {}, "limits": limits or {}}
    body = api.pod(name, **spec)
    body["spec"]["containers"] = [{"name": "c", "image": "i", "resources": resources}]
    return api.create("pods", body)


def test_created_object_is_charged(api: Api) -> None:
    quota(api, {"pods": "3", "cpu": "2", "requests.memory": "4Gi", "limits.cpu": "5", "count/pods": "9"})
    assert create_pod(api, "a", {"cpu": "100m", "memory": "1Gi"}, {"cpu": "1"}).status == 201
    assert create_pod(api, "b", {"cpu": "1", "memory": "1Gi"}, {"cpu": "2"}).status == 201
    assert used(api) == {"pods": "2", "cpu": "1100m", "requests.memory": "2Gi", "limits.cpu": "3", "count/pods": "2"}
    api.delete("pods", "a")
    assert used(api)["pods"] == "2"  # the controller subtracts deleted objects


@pytest.mark.parametrize(
    ("hard", "given", "asked", "refused"),
    [
        (
            {"cpu": "3", "memory": "100Gi", "pods": "5"},
            {"cpu": "1", "memory": "50Gi", "pods": "3"},
            {"cpu": "3", "memory": "2Gi"},
            "exceeded quota: q, requested: cpu=3, used: cpu=1, limited: cpu=3",
        ),
        (
            {"cpu": "1", "memory": "1Gi"},
            {"cpu": "500m", "memory": "1Gi"},
            {"cpu": "1", "memory": "1Mi"},
            "exceeded quota: q, requested: cpu=1,memory=1Mi, used: cpu=500m,memory=1Gi, limited: cpu=1,memory=1Gi",
        ),
        ({"pods": "0"}, {}, {}, "status unknown for quota: q, resources: pods"),
        ({"pods": "0"}, None, {}, "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0"),
        ({"cpu": "3", "memory": "1Gi"}, None, {"cpu": "1"}, "failed quota: q: must specify memory for: c"),
        (
            {"limits.cpu": "3", "requests.memory": "1Gi"},
            None,
            {},
            "failed quota: q: must specify limits.cpu for: c; requests.memory for: c",
        ),
        (
            {"cpu": "1"},
            {"cpu": "2"},
            {"cpu": "100m"},
            "exceeded quota: q, requested: cpu=100m, used: cpu=2, limited: cpu=1",
        ),
        (
            {"requests.example.com/gpu": "1"},
            {"requests.example.com/gpu": "1"},
            {"example.com/gpu": "1"},
            "exceeded quota: q, requested: {0}=1, used: {0}=1, limited: {0}=1".format("requests.example.com/gpu"),
        ),
    ],
)
def test_object_above_the_quota_is_rejected(
    api: Api, hard: Object, given: Object | None, asked: Object, refused: str
) -> None:
    quota(api, hard, given)
    before = used(api) if given != {} else None
    limits = {name: amount for name, amount in asked.items() if "/" in name}
    answer = create_pod(api, "a", asked, limits)
    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert answer.message == f'pods "a" is forbidden: {refused}'
    assert answer.obj["details"] == {"name": "a", "kind": "pods"}
    assert before is None or used(api) == before
    assert not api.exists("pods", "a")


def test_resource_outside_of_the_quota_is_not_limited(api: Api) -> None:
    quota(api, {"cpu": "1", "services": "1"}, {"cpu": "1"})
    assert create_pod(api, "a", {"cpu": "0", "memory": "1Ei"}).status == 201
    assert api.create("configmaps", {"metadata": {"name": "c"}}).status == 201
    assert api.create("configmaps", {"metadata": {"name": "c"}}, namespace="kube-system").status == 201


def test_quota_without_status_limits_nothing(api: Api) -> None:
    api.create("resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}})
    assert create_pod(api, "a").status == 201


def test_object_must_fit_into_all_quotas(api: Api) -> None:
    quota(api, {"pods": "5"}, name="a")
    quota(api, {"pods": "1"}, name="b")
    assert create_pod(api, "a").status == 201
    refused = create_pod(api, "b").message
    assert refused == 'pods "b" is forbidden: exceeded quota: b, requested: pods=1, used: pods=1, limited: pods=1'
    assert (used(api, "a"), used(api, "b")) == ({"pods": "1"}, {"pods": "1"})


@pytest.mark.parametrize(
    ("spec", "of", "charged"),
    [
        ({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 5}, True),
        ({"scopes": ["Terminating"]}, {}, False),
        ({"scopes": ["NotTerminating"]}, {}, True),
        ({"scopes": ["BestEffort"]}, {}, True),
        ({"scopes": ["NotBestEffort"]}, {}, False),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]
                }
            },
            {"priorityClassName": "high"},
            True,
        ),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "NotIn", "values": ["high"]}]
                }
            },
            {"priorityClassName": "high"},
            False,
        ),
    ],
)
def test_quota_applies_to_its_scopes(api: Api, spec: Object, of: Object, charged: bool) -> None:
    api.create("priorityclasses", {"metadata": {"name": "high"}, "value": 7})
    quota(api, {"pods": "1"}, {"pods": "1"}, **spec)
    assert (create_pod(api, "a", **of).status == 403) is charged


def test_a_pod_that_enters_a_scope_is_charged(api: Api) -> None:
    quota(api, {"pods": "1"}, name="t", scopes=["Terminating"])
    quota(api, {"pods": "2"}, name="n", scopes=["NotTerminating"])
    for name in ("a", "b"):
        assert create_pod(api, name).status == 201
    assert api.patch("pods", "a", {"spec": {"activeDeadlineSeconds": 9}}).status == 200
    assert (used(api, "t"), used(api, "n")) == ({"pods": "1"}, {"pods": "2"})
    refused = api.patch("pods", "b", {"spec": {"activeDeadlineSeconds": 9}})
    assert (
        refused.message == 'pods "b" is forbidden: exceeded quota: t, requested: pods=1, used: pods=1, limited: pods=1'
    )
    assert api.patch("pods", "a", {"spec": {"activeDeadlineSeconds": 8}}).status == 200
    assert used(api, "t") == {"pods": "1"}


def service(name: str, type_: str, ports: int = 1) -> Object:
    numbers = [{"name": f"p{i}", "port": 80 + i} for i in range(ports)]
    return {"metadata": {"name": name}, "spec": {"type": type_, "ports": numbers, "selector": {"a": "b"}}}


def test_update_is_charged_for_the_increase(api: Api) -> None:
    quota(api, {"services": "2", "services.nodeports": "3", "services.loadbalancers": "1"})
    assert api.create("services", service("a", "NodePort", 2)).status == 201
    assert used(api) == {"services": "1", "services.nodeports": "2", "services.loadbalancers": "0"}
    assert api.patch("services", "a", {"spec": {"type": "LoadBalancer"}}).status == 200
    assert used(api) == {"services": "1", "services.nodeports": "2", "services.loadbalancers": "1"}
    more = {"spec": {"ports": service("a", "NodePort", 4)["spec"]["ports"]}}
    refused = api.patch("services", "a", more)
    assert refused.message == (
        'services "a" is forbidden: exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=2, '
        "limited: services.nodeports=3"
    )
    assert api.patch("services", "a", {"spec": {"type": "ClusterIP", "ports": more["spec"]["ports"]}}).status == 200
    assert used(api)["services.nodeports"] == "2"  # the controller counts decreases
    assert api.create("services", service("b", "ClusterIP")).status == 201
    assert api.create("services", service("c", "ClusterIP")).status == 403


def test_allocated_storage_is_counted_and_not_rejected(api: Api) -> None:
    quota(api, {"requests.storage": "2Gi", "gold.storageclass.storage.k8s.io/requests.storage": "2Gi"})
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "gold",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    grows = {"metadata": {"name": "gold"}, "provisioner": "p", "allowVolumeExpansion": True}
    api.send("POST", "/apis/storage.k8s.io/v1/storageclasses", grows)
    assert api.create("persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": spec}).status == 201
    given = {"status": {"phase": "Bound", "allocatedResources": {"storage": "3Gi"}}}
    assert api.patch("persistentvolumeclaims", "c", given, subresource="status").status == 200
    assert set(used(api).values()) == {"3Gi"}
    grown = {"spec": {"resources": {"requests": {"storage": "4Gi"}}}}
    assert api.patch("persistentvolumeclaims", "c", grown).status == 403


@pytest.mark.parametrize(
    ("resource", "name", "body"),
    [
        ("configmaps", "configmaps", {"metadata": {"generateName": "x-"}}),
        ("secrets", "count/secrets", {"metadata": {"generateName": "x-"}}),
        ("replicasets", "count/replicasets.apps", None),
        ("leases", "count/leases.coordination.k8s.io", {"metadata": {"generateName": "x-"}, "spec": {}}),
    ],
)
def test_objects_of_any_resource_are_counted(api: Api, resource: str, name: str, body: Object | None) -> None:
    quota(api, {name: "1"})
    body = {**api.replicaset(), "metadata": {"generateName": "x-"}} if body is None else body
    assert api.create(resource, body).status == 201
    refused = api.create(resource, body)
    assert refused.status == 403
    assert refused.message.endswith(f"exceeded quota: q, requested: {name}=1, used: {name}=1, limited: {name}=1")
    assert ' "x-0000' in refused.message  # the name has already been generated


def test_events_are_never_counted(api: Api) -> None:
    quota(api, {"count/events": "0", "count/events.events.k8s.io": "0"})
    event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "type": "Normal"}
    assert api.create("events", event).status == 201


def test_quotas_are_counted_by_a_quota(api: Api) -> None:
    quota(api, {"resourcequotas": "2"}, {"resourcequotas": "1"})
    for name, status in (("b", 201), ("c", 403)):
        assert api.create("resourcequotas", {"metadata": {"name": name}, "spec": {}}).status == status


def test_a_dry_run_is_checked_and_not_charged(api: Api) -> None:
    quota(api, {"configmaps": "1"})
    body = {"metadata": {"name": "c"}}
    assert api.create("configmaps", body, dryRun="All").status == 201
    assert used(api) == {"configmaps": "0"}
    assert api.create("configmaps", body).status == 201
    assert api.create("configmaps", body, dryRun="All").status == 403


def test_object_rejected_for_another_reason_is_not_charged(api: Api) -> None:
    quota(api, {"configmaps": "2"})
    assert api.create("configmaps", {"metadata": {"name": "c"}}).status == 201
    assert api.create("configmaps", {"metadata": {"name": "c"}}).status == 409
    assert api.create("configmaps", {"metadata": {"name": "C"}}).status == 422
    assert used(api) == {"configmaps": "1"}
    assert api.create("configmaps", {"metadata": {"name": "d"}}).status == 201
    assert (
        api.create("configmaps", {"metadata": {"name": "d"}}).status == 403
    )  # the quota is checked first, as upstream


def test_object_and_usage_are_one_commit() -> None:
    commits: list[list[tuple[str, str]]] = []

    class Recording(MemoryStore):
        def commit(self, changes: Any, done: Any) -> None:
            commits.append([(change.storage, change.key) for change in changes])
            super().commit(changes, done)

    api = Api(Recording())
    quota(api, {"configmaps": "1"})
    commits.clear()
    api.create("configmaps", {"metadata": {"name": "c"}})
    assert commits == [[("resourcequotas", "default/q"), ("configmaps", "default/c")]]


def test_watch_of_a_quota_delivers_charges(api: Api) -> None:
    quota(api, {"configmaps": "2"})
    listener = api.watch("resourcequotas")
    api.create("configmaps", {"metadata": {"name": "c"}})
    assert [event["object"]["status"]["used"] for event in listener.events][-1] == {"configmaps": "1"}


def test_claims_of_devices_are_counted_by_class() -> None:
    api = Api(resources=(*BUILT_IN, *(each for each in (resource_claim.RESOURCE,) if each not in BUILT_IN)))
    devices = "gpu.deviceclass.resource.k8s.io/devices"
    quota(api, {devices: "2", "count/resourceclaims.resource.k8s.io": "9"})
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"

    def claim(name: str, number: int) -> Object:
        exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": number}
        spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
        return {"metadata": {"name": name}, "spec": spec}

    assert api.send("POST", path, claim("a", 2)).status == 201
    refused = api.send("POST", path, claim("b", 1))
    assert refused.message == (
        f'resourceclaims.resource.k8s.io "b" is forbidden: exceeded quota: q, requested: {devices}=1, '
        f"used: {devices}=2, limited: {devices}=2"
    )


def test_create_without_quotas_decodes_nothing(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_reading(_raw: bytes) -> Object:
        raise AssertionError("nothing is to be decoded")

    quota_elsewhere = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}
    api.create("resourcequotas", quota_elsewhere, namespace="kube-system")
    monkeypatch.setattr(resource_quota, "decode_object", no_reading)
    assert api.create("configmaps", {"metadata": {"name": "c"}}).status == 201
    assert orjson.dumps(api.get("configmaps", "c").obj)
