"""Devices of hollow nodes and preemption, with kubectl on an embedded cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import Site
from tests.e2e.kubectl import Kubectl
from tests.e2e.programs import ROOT, managing, until

EXAMPLE = ROOT / "examples" / "devices.yml"


@pytest.fixture
def kubectl(own_cluster: Site, request: pytest.FixtureRequest) -> Kubectl:
    return own_cluster.namespace(request.node.name.replace("_", "-")[:60].strip("-"))


def is_running(kubectl: Kubectl, *pods: str) -> bool:
    return all(kubectl.get("pods", pod).get("status", {}).get("phase") == "Running" for pod in pods)


def device_of(kubectl: Kubectl, claim: str) -> tuple[str, str]:
    (result,) = kubectl.get("resource.k8s.io/v1/resourceclaims", claim)["status"]["allocation"]["devices"]["results"]
    return result["pool"], result["device"]


def test_pods_of_the_example_run_with_their_devices(kubectl: Kubectl) -> None:
    until(lambda: len(kubectl("get", "nodes", "--no-headers").splitlines()) == 3, "the nodes are registered")
    kubectl("annotate", "nodes", "--all", "--overwrite", "hollow.kcm.dev/devices=gpu.example.com=2")
    kubectl("apply", "-f", str(Path(EXAMPLE)))
    until(lambda: is_running(kubectl, "single", "left", "right"), "the pods run", within=60.0, why=kubectl.state)
    (status,) = kubectl.get("pods", "single")["status"]["resourceClaimStatuses"]
    shared, own = device_of(kubectl, "shared-gpu"), device_of(kubectl, status["resourceClaimName"])
    assert shared != own
    nodes = {pod: kubectl.get("pods", pod)["spec"]["nodeName"] for pod in ("single", "left", "right")}
    assert nodes == {"single": own[0], "left": shared[0], "right": shared[0]}
    users = kubectl.get("resource.k8s.io/v1/resourceclaims", "shared-gpu")["status"]["reservedFor"]
    assert sorted(user["name"] for user in users) == ["left", "right"]
    # Without users the claims are deallocated, or deleted.
    kubectl("delete", "pod", "single", "left", "right", "--timeout=30s")

    def released() -> bool:
        claims = kubectl.items("resource.k8s.io/v1/resourceclaims")
        return [claim["metadata"]["name"] for claim in claims] == ["shared-gpu"] and not claims[0].get("status")

    until(released, "the devices are released", within=30.0, why=kubectl.state)
    kubectl("annotate", "nodes", "--all", "hollow.kcm.dev/devices-")
    until(lambda: "No resources" in kubectl.run("get", "resourceslices").stderr, "no slices", within=30.0)


def test_pod_of_higher_priority_preempts_others(kubectl: Kubectl) -> None:
    kubectl("create", "priorityclass", "urgent", "--value=1000")
    for index in range(3):
        node = {"kubernetes.io/hostname": f"hollow-node-{index}"}
        kubectl.apply(pod(f"low-{index}", cpu="20", nodeSelector=node))
    lows = [f"low-{index}" for index in range(3)]
    until(lambda: is_running(kubectl, *lows), "the pods run", why=kubectl.state)
    kubectl.apply(pod("urgent", cpu="20", priorityClassName="urgent"))
    until(lambda: is_running(kubectl, "urgent"), "the pod runs", within=60.0, why=kubectl.state)
    left = {each["metadata"]["name"] for each in kubectl.items("pods")}
    assert len(left) == 3
    (event,) = [each for each in kubectl.items("events") if each["reason"] == "Preempted"]
    assert event["involvedObject"]["name"] in set(lows) - left
    kubectl("delete", "priorityclass", "urgent")
    kubectl("delete", "pod", "--all", "--timeout=30s")


def pod(name: str, *, cpu: str, **spec: object) -> dict[str, object]:
    container = {"name": "app", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container], **spec}}


GROUP = """
apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {name: gang}
spec:
  schedulingPolicy: {basic: {}}
  resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec: {selectors: [{cel: {expression: "device.driver == 'gpu.example.com'"}}]}
"""
MEMBER = """
---
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  schedulingGroup: {podGroupName: gang}
  resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
  containers: [{name: c, image: nginx, resources: {claims: [{name: gpu}]}}]
"""


@pytest.mark.slow
def test_pods_of_a_group_share_a_claim_that_is_generated_for_the_group(tmp_path: Path) -> None:
    manifest = tmp_path / "gang.yml"
    manifest.write_text(GROUP + MEMBER % "left" + MEMBER % "right")
    flags = (
        f"--embedded-dir={tmp_path / 'kcm'}",
        "--feature-gates=GenericWorkload=true,DRAWorkloadResourceClaims=true",
        "--embedded-runtime-config=scheduling.k8s.io/v1alpha2=true",
    )
    with managing(tmp_path / "kcm.log", *flags) as manager:
        kubectl = Site(tmp_path / "kcm" / "kubeconfig", manager).namespace("gang")
        until(lambda: len(kubectl("get", "nodes", "--no-headers").splitlines()) == 3, "the nodes are registered")
        kubectl("annotate", "nodes", "--all", "hollow.kcm.dev/devices=gpu.example.com=1")
        kubectl("apply", "-f", str(manifest))
        until(lambda: is_running(kubectl, "left", "right"), "the pods run", within=60.0, why=kubectl.state)
        (claim,) = kubectl.items("resource.k8s.io/v1/resourceclaims")
        assert [(user["resource"], user["name"]) for user in claim["status"]["reservedFor"]] == [("podgroups", "gang")]
        assert claim["metadata"]["ownerReferences"][0]["kind"] == "PodGroup"
        kubectl("delete", "pod", "left", "right", "--timeout=30s")
        kubectl("delete", "podgroup", "gang", "--timeout=30s")
        until(
            lambda: not kubectl.items("resource.k8s.io/v1/resourceclaims"),
            "the claim is deleted with its group",
            within=30.0,
            why=kubectl.state,
        )
