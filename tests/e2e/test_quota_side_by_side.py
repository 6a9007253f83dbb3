"""Quotas of every kind with the real kube-controller-manager and with ours, on one kube-apiserver: each quota must have
the same status, at first and after objects are deleted. Neither manager records events of quotas.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.e2e.conftest import Site, in_namespace
from tests.e2e.kubectl import Kubectl, Object
from tests.e2e.manifests import pod
from tests.e2e.programs import until
from tests.e2e.real_server import RealServer, real_manager
from tests.e2e.snapshots import Snapshot, differences, normalised
from tests.e2e.test_disruption_side_by_side import scaled_kind
from tests.e2e.volumes import claim

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

STILL = 4  # seconds without a change
GPU = "example.com/gpu"
# No node here has this label, so these pods are never scheduled and do not change.
NOWHERE = {"kubernetes.io/os": "none"}
QUOTAS: dict[str, Object] = {
    "compute": {
        "hard": {
            "pods": "9",
            "cpu": "9",
            "requests.memory": "9Gi",
            "limits.cpu": "9",
            "requests.ephemeral-storage": "9Gi",
            "requests.hugepages-2Mi": "9Gi",
            f"requests.{GPU}": "9",
        }
    },
    "objects": {
        "hard": {
            "count/pods": "20",
            "configmaps": "9",
            "count/secrets": "9",
            "resourcequotas": "20",
            "count/deployments.apps": "9",
            "count/leases.coordination.k8s.io": "9",
            "count/nothing.example.com": "9",
        }
    },
    "services": {"hard": {"services": "9", "services.nodeports": "9", "services.loadbalancers": "9"}},
    "claims": {
        "hard": {
            "persistentvolumeclaims": "9",
            "requests.storage": "90Gi",
            "gold.storageclass.storage.k8s.io/requests.storage": "90Gi",
            "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "9",
            "tin.storageclass.storage.k8s.io/persistentvolumeclaims": "9",
        }
    },
    "devices": {
        "hard": {
            "count/resourceclaims.resource.k8s.io": "9",
            "quick.deviceclass.resource.k8s.io/devices": "99",
            "slow.deviceclass.resource.k8s.io/devices": "99",
            "requests.deviceclass.resource.kubernetes.io/quick": "99",
        }
    },
    "terminating": {"hard": {"pods": "9", "cpu": "9"}, "scopes": ["Terminating"]},
    "not-terminating": {"hard": {"pods": "9", "cpu": "9"}, "scopes": ["NotTerminating"]},
    "best-effort": {"hard": {"pods": "9"}, "scopes": ["BestEffort"]},
    "not-best-effort": {"hard": {"pods": "9", "cpu": "9"}, "scopes": ["NotBestEffort"]},
    "affine": {"hard": {"pods": "9"}, "scopes": ["CrossNamespacePodAffinity"]},
    **{
        name: {
            "hard": {"pods": "9"},
            "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", **expression}]},
        }
        for name, expression in {
            "urgent": {"operator": "In", "values": ["urgent-in-quotas"]},
            "other": {"operator": "NotIn", "values": ["urgent-in-quotas"]},
            "any": {"operator": "Exists"},
        }.items()
    },
}


def pending_pod(name: str, requests: Object | None = None, limits: Object | None = None, **spec: Any) -> Object:
    """Return a pod that no node can run."""
    placed = {"nodeSelector": NOWHERE, "terminationGracePeriodSeconds": 0, **spec}
    return pod(name, requests=requests, limits=limits, **placed)


def devices(name: str, *requests: Object) -> Object:
    named = [{"name": f"r{number}", **request} for number, request in enumerate(requests)]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": named}},
    }


def service_of_type(name: str, type_: str, *ports: int) -> Object:
    spec = {"type": type_, "ports": [{"name": f"p{port}", "port": port} for port in ports]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def cluster_wide(group: str) -> list[Object]:
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "urgent-in-quotas"},
            "value": 1000,
        },
        *(
            {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": {}}
            for name in ("quick", "slow")
        ),
        scaled_kind(f"things.{group}"),
    ]


def objects(group: str) -> list[Object]:
    elsewhere = {"namespaceSelector": {}, "labelSelector": {}, "topologyKey": "x"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [elsewhere]}}
    quick = {"deviceClassName": "quick", "allocationMode": "ExactCount", "count": 2}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pending_pod("x")["spec"]}
    template["spec"].pop("terminationGracePeriodSeconds")
    deployment = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    return [
        pending_pod("plain"),
        pending_pod("asks", {"cpu": "100m", "memory": "1Gi", GPU: "2"}, {"cpu": "200m", GPU: "2"}),
        pending_pod("going", {"cpu": "300m", "memory": "1Gi"}),
        pending_pod(
            "deadline", {"cpu": "400m", "memory": "500Mi", "ephemeral-storage": "2Gi"}, activeDeadlineSeconds=6000
        ),
        pending_pod("ended", {"cpu": "1", "memory": "1Gi"}),
        pending_pod("urgent", {"cpu": "1m", "memory": "1Mi"}, priorityClassName="urgent-in-quotas"),
        pending_pod("affine", {"cpu": "1m", "memory": "1Mi"}, affinity=affinity),
        pending_pod("huge", {"cpu": "1m", "memory": "1Mi", "hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": "4Mi"}),
        service_of_type("inside", "ClusterIP", 80),
        service_of_type("ports", "NodePort", 80, 81),
        service_of_type("balanced", "LoadBalancer", 80),
        claim("gold", "5Gi", class_="gold"),
        claim("tin", "1500Mi", class_="tin"),
        devices("some", {"exactly": quick}, {"exactly": {"deviceClassName": "slow", "allocationMode": "All"}}),
        devices("either", {"firstAvailable": [{**quick, "name": "a"}, {**quick, "name": "b", "count": 3}]}),
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": deployment},
        {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "thing"}, "spec": {}},
        *({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}} for name in ("a", "b")),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}},
    ]


def quota(name: str, spec: Object) -> Object:
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": spec}


def scene(kubectl: Kubectl) -> Snapshot:
    group = f"{kubectl.namespace}.example.com"
    kubectl.apply(*cluster_wide(group))
    until(lambda: kubectl.run("get", f"things.{group}").returncode == 0, "the kind is served")
    # A quota holds only what it has counted: most of this is there before.
    kubectl.apply(*objects(group))
    kubectl.apply(*(quota(name, spec) for name, spec in QUOTAS.items()))
    kubectl.apply(quota("things", {"hard": {f"count/things.{group}": "9"}}))
    until_still(kubectl, {"things": {f"count/things.{group}": "1"}, "urgent": {"pods": "1"}})
    found = left(kubectl, "counted")
    # What is created, and grows, is charged by the server; what goes is given back by the manager.
    kubectl.apply(
        pending_pod("later", {"cpu": "10m", "memory": "1Mi"}, {"cpu": "10m"}), service_of_type("later", "NodePort", 90)
    )
    kubectl("patch", "service", "ports", '--patch={"spec":{"type":"ClusterIP"}}')
    kubectl("patch", "pod", "ended", "--subresource=status", '--patch={"status":{"phase":"Succeeded"}}')
    kubectl("patch", "pod", "asks", '--patch={"spec":{"activeDeadlineSeconds":6000}}')
    kubectl("patch", "pod", "asks", "--subresource=resize", f"--patch={resize('c', cpu='150m')}")
    kubectl(
        "delete",
        "pod/going",
        "secret/a",
        "configmap/a",
        "resourceclaim/either",
        "deployment/d",
        f"things.{group}/thing",
    )
    kubectl("patch", "pvc", "tin", "--type=merge", '--patch={"metadata":{"finalizers":null}}')
    kubectl("delete", "pvc/tin")
    kubectl("patch", "quota", "services", '--patch={"spec":{"hard":{"services":"1","count/services":"5"}}}')
    until_still(
        kubectl,
        {
            "things": {f"count/things.{group}": "0"},
            "terminating": {"pods": "2", "cpu": "550m"},
            "claims": {"persistentvolumeclaims": "1"},
            "services": {"services": "4", "count/services": "4", "services.nodeports": "2"},
        },
    )
    return found | left(kubectl, "given back")


def resize(container: str, **requests: str) -> str:
    return json.dumps({"spec": {"containers": [{"name": container, "resources": {"requests": requests}}]}})


def until_still(kubectl: Kubectl, wanted: dict[str, Object]) -> None:
    """These are used, and all that is limited is counted that there is."""

    def used() -> dict[str, Object]:
        return {
            quota["metadata"]["name"]: quota.get("status", {}).get("used", {})
            for quota in kubectl.items("resourcequotas")
        }

    def counted() -> bool:
        found = used()
        return len(found) == len(QUOTAS) + 1 and all(
            {**found[name], **some} == found[name] for name, some in wanted.items()
        )

    until(counted, str(wanted), why=lambda: json.dumps(used(), indent=1))
    seen: list[object] = []
    while len(seen) < STILL or any(usage != seen[-1] for usage in seen[-STILL:]):
        seen.append(used())
        time.sleep(1.0)


def left(kubectl: Kubectl, when: str) -> Snapshot:
    lines = [
        json.dumps({"name": quota["metadata"]["name"], "status": quota["status"]}, sort_keys=True, indent=1)
        for quota in kubectl.items("resourcequotas")
    ]
    events = [
        event["message"] for event in kubectl.items("events") if event["involvedObject"]["kind"] == "ResourceQuota"
    ]
    return {when: sorted(normalised(lines, kubectl.namespace, {})), f"events, {when}": events}


@pytest.fixture(scope="module")
def with_the_real_one(real: RealServer) -> Snapshot:
    # A resource that is served from now on has its quotas counted by that period; ours does so when it comes.
    flags = ("--controllers=resourcequota-controller", "--resource-quota-sync-period=5s")
    with real_manager(real, *flags):
        return scene(in_namespace(real.kubeconfig, "quotas-real"))


def test_quotas_are_the_same_as_with_kube_controller_manager(with_the_real_one: Snapshot, on_real: Site) -> None:
    found = differences(with_the_real_one, scene(on_real.namespace("quotas-ours")))
    if found:
        pytest.fail(found, pytrace=False)
