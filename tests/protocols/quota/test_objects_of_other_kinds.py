"""Usage of Services, claims and all other objects.

Source of the cases: kubernetes pkg/quota/v1/evaluator/core/{services,persistent_volume_claims,resource_claims}_test.go,
staging/src/k8s.io/apiserver/pkg/quota/v1/generic/evaluator_test.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from kcm.protocols.objects import Object, name_of
from kcm.protocols.quota.amounts import written
from kcm.protocols.quota.evaluators import CREATE, UPDATE, Evaluator
from kcm.protocols.quota.resource_claims import EXTENDED_CLAIM, DeviceClasses, ResourceClaims
from kcm.protocols.quota.scopes import DOES_NOT_EXIST, EXISTS, IN, NOT_IN, VOLUME_ATTRIBUTES_CLASS, ScopeRequirement
from kcm.protocols.quota.services import Services
from kcm.protocols.quota.volume_claims import VolumeClaims, concerns_quotas

TWO = [{"port": 27443}, {"port": 27444}]
TWO_GIVEN = [{"port": 27443, "nodePort": 32001}, {"port": 27444, "nodePort": 32002}]


@pytest.mark.parametrize(
    ("spec", "node_ports", "load_balancers"),
    [
        ({"type": "LoadBalancer"}, "0", "1"),
        ({"type": "LoadBalancer", "ports": TWO[:1]}, "1", "1"),
        ({"type": "LoadBalancer", "ports": TWO}, "2", "1"),
        ({"type": "LoadBalancer", "ports": TWO, "allocateLoadBalancerNodePorts": False}, "0", "1"),
        ({"type": "LoadBalancer", "ports": TWO, "allocateLoadBalancerNodePorts": True}, "2", "1"),
        ({"type": "LoadBalancer", "ports": TWO_GIVEN}, "2", "1"),
        ({"type": "LoadBalancer", "ports": TWO_GIVEN, "allocateLoadBalancerNodePorts": False}, "2", "1"),
        ({"type": "NodePort", "ports": TWO[:1]}, "1", "0"),
        ({"type": "NodePort", "ports": TWO}, "2", "0"),
        ({"type": "ClusterIP", "ports": TWO}, "0", "0"),
        ({}, "0", "0"),
    ],
)
def test_a_service_uses_node_ports_and_load_balancers(spec: Object, node_ports: str, load_balancers: str) -> None:
    for each in ({"spec": spec}, Services().essence({"spec": spec})):
        assert written(Services().usage(each)) == {
            "count/services": "1",
            "services": "1",
            "services.nodeports": node_ports,
            "services.loadbalancers": load_balancers,
        }


def test_names_that_services_use() -> None:
    names = {"services", "services.nodeports", "services.loadbalancers", "count/services"}
    assert Services().matching({*names, "pods", "count/pods"}) == names


@pytest.mark.parametrize("evaluator", [Services(), VolumeClaims()])
@pytest.mark.parametrize(
    ("operation", "subresource", "handled"),
    [(CREATE, "", True), (UPDATE, "", True), (CREATE, "any", False), (UPDATE, "any", False), ("DELETE", "", False)],
)
def test_services_and_claims_may_use_more_after_an_update(
    evaluator: Evaluator, operation: str, subresource: str, handled: bool
) -> None:
    assert evaluator.handles(operation, subresource, {}, {}) is handled


def claim(storage: str = "10Gi", *, allocated: str = "", annotations: Object | None = None, **spec: Any) -> Object:
    status = {"allocatedResources": {"storage": allocated}} if allocated else {}
    return {
        "metadata": {"name": "foo", "namespace": "ns", "annotations": annotations or {}},
        "spec": {"resources": {"requests": {"storage": storage}}, **spec},
        "status": status,
    }


@pytest.mark.parametrize(
    ("of", "storage", "class_"),
    [
        (claim(), "10Gi", ""),
        (claim(storageClassName="gold"), "10Gi", "gold"),
        (claim("1001m"), "2", ""),
        (claim("1001m", storageClassName="gold"), "2", "gold"),
        (claim("5G", allocated="10G"), "10G", ""),
        (claim("10G", allocated="5G"), "10G", ""),
        (
            claim(storageClassName="gold", annotations={"volume.beta.kubernetes.io/storage-class": "old"}),
            "10Gi",
            "old",
        ),
    ],
)
def test_a_claim_uses_storage_of_its_class(of: Object, storage: str, class_: str) -> None:
    expected = {"count/persistentvolumeclaims": "1", "persistentvolumeclaims": "1", "requests.storage": storage}
    if class_:
        of_class = f"{class_}.storageclass.storage.k8s.io/"
        expected |= {f"{of_class}persistentvolumeclaims": "1", f"{of_class}requests.storage": storage}
    assert written(VolumeClaims().usage(of)) == expected
    assert written(VolumeClaims().usage(VolumeClaims().essence(of))) == expected


def test_names_that_claims_use() -> None:
    ours = {
        "count/persistentvolumeclaims",
        "requests.storage",
        "persistentvolumeclaims",
        "gold.storageclass.storage.k8s.io/requests.storage",
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims",
    }
    others = {
        "storage",
        "ephemeral-storage",
        "bronze.storageclass.storage.k8s.io/storage",
        "gold.storage.k8s.io/requests.storage",
    }
    assert VolumeClaims().matching(ours | others) == ours


ABSENT, PRESENT = (
    ScopeRequirement(VOLUME_ATTRIBUTES_CLASS, DOES_NOT_EXIST),
    ScopeRequirement(VOLUME_ATTRIBUTES_CLASS, EXISTS),
)
NOT_FOURTH = ScopeRequirement(VOLUME_ATTRIBUTES_CLASS, NOT_IN, ("class4",))


def one_of(*classes: str) -> ScopeRequirement:
    return ScopeRequirement(VOLUME_ATTRIBUTES_CLASS, IN, classes)


WANTS = {"spec": {"volumeAttributesClassName": "class1"}}
HAS = {**WANTS, "status": {"currentVolumeAttributesClassName": "class2"}}
CHANGES = {
    **WANTS,
    "status": {
        **HAS["status"],
        "modifyVolumeStatus": {"targetVolumeAttributesClassName": "class3"},
    },
}


@pytest.mark.parametrize(
    ("of", "scopes"),
    [
        ({}, [ABSENT, NOT_FOURTH]),
        (WANTS, [PRESENT, one_of("class1"), NOT_FOURTH]),
        (HAS, [PRESENT, one_of("class1"), one_of("class2"), one_of("class4", "class2"), NOT_FOURTH]),
        (
            CHANGES,
            [PRESENT, one_of("class1"), one_of("class2"), one_of("class3"), one_of("class4", "class2"), NOT_FOURTH],
        ),
    ],
)
def test_a_claim_meets_the_scopes_of_all_its_attributes_classes(of: Object, scopes: list[ScopeRequirement]) -> None:
    asked = [
        ABSENT,
        PRESENT,
        *(one_of(f"class{i}") for i in (1, 2, 3, 4)),
        one_of("class4", "class2"),
        NOT_FOURTH,
        ScopeRequirement("Terminating"),
    ]
    for each in (of, VolumeClaims().essence(of)):
        assert [scope for scope in asked if VolumeClaims().meets(each, scope)] == scopes


def test_a_status_of_a_claim_concerns_quotas_where_storage_or_classes_change() -> None:
    assert not concerns_quotas(claim(), claim())
    assert concerns_quotas(claim(allocated="20Gi"), claim())
    assert not concerns_quotas(claim(allocated="20Gi"), claim(allocated="20480Mi"))
    assert concerns_quotas({"spec": {}, **HAS}, WANTS)
    assert VolumeClaims().handles(UPDATE, "status", claim(allocated="20Gi"), claim())
    assert not VolumeClaims().handles(UPDATE, "status", claim(), claim())


@pytest.mark.parametrize(
    ("resource", "names"),
    [
        ("secrets", {"secrets", "count/secrets"}),
        ("configmaps", {"configmaps", "count/configmaps"}),
        ("replicationcontrollers", {"replicationcontrollers", "count/replicationcontrollers"}),
        ("resourcequotas", {"resourcequotas", "count/resourcequotas"}),
        ("endpoints", {"count/endpoints"}),
        ("deployments.apps", {"count/deployments.apps"}),
    ],
)
def test_all_others_are_counted(resource: str, names: set[str]) -> None:
    evaluator = Evaluator(resource)
    assert evaluator.usage({}).keys() == names
    assert evaluator.matching([*names, "pods", resource]) == names
    assert evaluator.handles(CREATE, "", {}, None)
    assert not evaluator.handles(CREATE, "scale", {}, None)
    assert not evaluator.handles(UPDATE, "", {}, {})
    assert not evaluator.meets({}, ScopeRequirement("Terminating"))


# ResourceClaims.

COUNT, DEVICES = "count/resourceclaims.resource.k8s.io", "gpu.deviceclass.resource.k8s.io/devices"
IMPLICIT, EXPLICIT = "requests.deviceclass.resource.kubernetes.io/gpu", "requests.example.com/gpu"
BY_NAME, BY_CLASS = {"example.com/gpu": "1"}, {"deviceclass.resource.kubernetes.io/gpu": "1"}
GPU = {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}


class Cluster:
    """Objects that the evaluator of claims reads."""

    def __init__(self, *, classes: Iterable[Object] = (), pods: Iterable[Object] = (), claims: Iterable[Object] = ()):
        self._classes, self._claims = DeviceClasses(classes), list(claims)
        self._pods = {name_of(pod): pod for pod in pods}

    def now(self) -> float:
        return 0.0

    def device_classes(self) -> DeviceClasses:
        return self._classes

    def pod(self, _namespace: str, name: str) -> Object | None:
        return self._pods.get(name)

    def claims(self, _namespace: str) -> Iterable[Object]:
        return self._claims


def exactly(mode: str = "ExactCount", count: int = 1, **more: Any) -> Object:
    return {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": mode, "count": count, **more}}


def first_of(*alternatives: tuple[str, str, int]) -> Object:
    options = [
        {"name": f"s{i}", "deviceClassName": class_, "allocationMode": mode, "count": count}
        for i, (class_, mode, count) in enumerate(alternatives)
    ]
    return {"name": "r", "firstAvailable": options}


def devices(*requests: Object, pod: str = "", name: str = "foo", created: str = "") -> Object:
    meta: Object = {"name": name, "namespace": "ns", "creationTimestamp": created}
    if pod:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": "uid", "controller": True}
        meta |= {"annotations": {EXTENDED_CLAIM: "true"}, "ownerReferences": [owner]}
    return {"metadata": meta, "spec": {"devices": {"requests": list(requests)}}}


@pytest.mark.parametrize(
    ("requests", "number"),
    [
        ([exactly()], 1),
        ([exactly()] * 5, 5),
        ([exactly(count=5)], 5),
        ([exactly("All", 0)], 32),
        ([exactly(adminAccess=True)], 1),
        ([first_of(("gpu", "ExactCount", 1))], 1),
        ([first_of(("gpu", "ExactCount", 2), ("gpu", "ExactCount", 1))], 2),
        ([first_of(("gpu", "ExactCount", 2), ("gpu", "All", 0))], 32),
        ([first_of(("gpu", "ExactCount", 2)), exactly()], 3),
    ],
)
def test_a_claim_uses_devices_by_class(requests: list[Object], number: int) -> None:
    used = written(ResourceClaims(Cluster()).usage(devices(*requests)))
    assert used == {COUNT: "1", DEVICES: str(number), IMPLICIT: str(number)}


def test_alternatives_count_by_their_classes() -> None:
    used = written(
        ResourceClaims(Cluster()).usage(devices(first_of(("gpu", "ExactCount", 2), ("tpu", "ExactCount", 1))))
    )
    assert (used[DEVICES], used["tpu.deviceclass.resource.k8s.io/devices"]) == ("2", "1")


def test_ways_of_a_later_release_use_nothing() -> None:
    assert written(ResourceClaims(Cluster()).usage(devices(exactly("future-mode")))) == {COUNT: "1", DEVICES: "0"}
    assert written(ResourceClaims(Cluster()).usage(devices({"name": "r", "later": {}}))) == {COUNT: "1"}


def asking(name: str, *, init: tuple[Object, ...] = (), claim: str | None = "foo", containers: Any = ()) -> Object:
    spec = {
        part: [{"resources": {"requests": requests}} for requests in given]
        for part, given in (("initContainers", init), ("containers", containers))
    }
    status = {} if claim is None else {"extendedResourceClaimStatus": {"resourceClaimName": claim}}
    return {"metadata": {"name": name, "namespace": "ns", "uid": "uid"}, "spec": spec, "status": status}


BOTH = {**BY_NAME, **BY_CLASS}


@pytest.mark.parametrize(
    ("pod", "number", "used"),
    [
        (asking("p", containers=(BY_CLASS,)), 1, {EXPLICIT: "1"}),
        (asking("p", init=(BY_NAME,)), 1, {IMPLICIT: "1"}),
        (asking("p", init=(BOTH,), containers=(BOTH,)), 2, {EXPLICIT: "1", IMPLICIT: "1"}),
        (asking("p", init=(BY_NAME,), containers=(BY_CLASS,), claim=None), 2, {EXPLICIT: "1", IMPLICIT: "1"}),
        (asking("p", init=(BOTH, BOTH), containers=(BOTH,)), 2, {EXPLICIT: "1", IMPLICIT: "1"}),
        (asking("p", containers=(BY_CLASS,), claim="another"), 1, {EXPLICIT: "1", IMPLICIT: "1"}),
        (asking("other", containers=(BY_CLASS,)), 1, {EXPLICIT: "1", IMPLICIT: "1"}),
    ],
)
def test_devices_counted_for_the_pod_are_not_counted_for_its_claim(pod: Object, number: int, used: Object) -> None:
    of_pod = devices(*[exactly()] * number, pod="p")
    evaluator = ResourceClaims(Cluster(classes=[GPU], pods=[pod], claims=[of_pod]))
    assert written(evaluator.usage(of_pod)) == {COUNT: "1", DEVICES: str(number), **used}


@pytest.mark.parametrize(
    ("name", "created", "counted"),
    [
        ("foo-copy", "2026-01-01T00:00:00Z", "1"),
        ("older", "2025-01-01T00:00:00Z", None),
        ("a", "2026-01-01T00:00:00Z", None),
    ],
)
def test_first_of_two_claims_belongs_to_the_pod(name: str, created: str, counted: str | None) -> None:
    first = devices(exactly(), pod="p", created="2026-01-01T00:00:00Z")
    this = devices(exactly(), pod="p", name=name, created=created)
    pod = asking("p", containers=(BY_CLASS,), claim=None)
    used = written(ResourceClaims(Cluster(classes=[GPU], pods=[pod], claims=[first, this])).usage(this))
    assert used.get(IMPLICIT) == counted


def test_names_that_claims_of_devices_use() -> None:
    names = {COUNT, DEVICES, IMPLICIT, EXPLICIT, "requests.example.com/other", "requests.cpu", "pods"}
    assert ResourceClaims(Cluster()).matching(names) == {COUNT, DEVICES}
    assert ResourceClaims(Cluster(classes=[GPU])).matching(names) == {COUNT, DEVICES, IMPLICIT, EXPLICIT}
    unnamed = {"metadata": {"name": "gpu"}, "spec": {}}
    assert ResourceClaims(Cluster(classes=[unnamed])).matching(names) == {COUNT, DEVICES, IMPLICIT}
    assert ResourceClaims(Cluster()).handles(UPDATE, "", {}, {})
    assert not ResourceClaims(Cluster()).handles(UPDATE, "status", {}, {})
