"""Controllers that are off by default, on an embedded cluster through kubectl: each with its result for users."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kcm.protocols.objects import Object
from tests.e2e.conftest import Site
from tests.e2e.kubectl import Kubectl
from tests.e2e.programs import managing, until
from tests.e2e.volumes import claim, pod_with

DRIVER = "gpu.example.com"
DEVICES = "hollow.kcm.dev/devices"
FLAGS = (
    "--controllers=*,selinux-warning-controller",
    "--feature-gates=DRADeviceTaintRules=true,DRAResourcePoolStatus=true",
    "--embedded-runtime-config=resource.k8s.io/v1beta2/devicetaintrules=true,resource.k8s.io/v1alpha3=true",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("off-by-default")
    with managing(directory / "kcm.log", f"--embedded-dir={directory / 'kcm'}", *FLAGS) as manager:
        yield Site(directory / "kcm" / "kubeconfig", manager)


def labelled(name: str, level: str) -> Object:
    made = pod_with(name, "shared")
    made["spec"]["containers"][0]["volumeMounts"] = [{"name": "v0", "mountPath": "/data"}]
    made["spec"]["securityContext"] = {"seLinuxOptions": {"level": level}}
    return made


def test_pods_of_one_volume_with_different_selinux_labels_are_warned(site: Site) -> None:
    kubectl = site.namespace("selinux")
    until(lambda: not kubectl.run("get", "csidriver", "hollow.kcm.dev").returncode, "the driver is registered")
    kubectl("patch", "csidriver", "hollow.kcm.dev", "--patch", '{"spec": {"seLinuxMount": true}}')
    kubectl.apply(claim("shared", accessModes=["ReadWriteMany"]), labelled("left", "s0:c1"), labelled("right", "s0:c2"))

    def conflicts() -> set[str]:
        found = [event for event in kubectl.items("events") if event["reason"] == "SELinuxLabelConflict"]
        return {event["involvedObject"]["name"] for event in found}

    until(lambda: conflicts() == {"left", "right"}, "both pods have an event", why=kubectl.state)
    message = next(event["message"] for event in kubectl.items("events") if event["reason"] == "SELinuxLabelConflict")
    assert ("s0:c1" in message, "s0:c2" in message) == (True, True)
    series = "selinux_warning_controller_selinux_volume_conflict{"
    until(lambda: series in site.manager.get("/metrics")[1], "the metric shows the conflict")
    kubectl("delete", "pod", "left", "--timeout=30s")
    until(lambda: series not in site.manager.get("/metrics")[1], "the metric shows no conflict")


def shown(kubectl: Kubectl, *what: str) -> Object:
    """Return what `kubectl get` shows, also of cluster-scoped objects."""
    found: Object = json.loads(kubectl("get", *what, "--output=json"))
    return found


def published(kubectl: Kubectl) -> bool:
    slices = shown(kubectl, "resourceslices")["items"]
    return sum(len(each["spec"]["devices"]) for each in slices) == 6


@pytest.fixture
def devices(site: Site, request: pytest.FixtureRequest) -> Kubectl:
    """Return access to a namespace of a cluster with two devices on each node, and a class and a template for them."""
    kubectl = site.namespace(request.node.name.replace("_", "-")[:50].strip("-"))
    until(lambda: len(kubectl("get", "nodes", "--no-headers").splitlines()) == 3, "the nodes are registered")
    kubectl("annotate", "nodes", "--all", "--overwrite", f"{DEVICES}={DRIVER}=2")
    until(lambda: published(kubectl), "the devices are published")
    expression = f'device.driver == "{DRIVER}"'
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]
    group = {"apiVersion": "resource.k8s.io/v1"}
    kubectl.apply(
        {
            **group,
            "kind": "DeviceClass",
            "metadata": {"name": "gpu"},
            "spec": {"selectors": [{"cel": {"expression": expression}}], "extendedResourceName": "example.com/gpu"},
        },
        {
            **group,
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "gpu"},
            "spec": {"spec": {"devices": {"requests": requests}}},
        },
    )
    return kubectl


def pod(name: str, **spec: Any) -> Object:
    container = {"name": "app", "image": "nginx", **spec.pop("container", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container], **spec}}


@pytest.mark.slow  # the condition is written 10 s after the last change
def test_device_taint_rule_evicts_the_pods_of_its_devices(devices: Kubectl) -> None:
    devices.apply(pod("train", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}]))
    devices("wait", "pod/train", "--for=condition=Ready", "--timeout=60s")
    rule = {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "broken"},
        "spec": {
            "deviceSelector": {"driver": DRIVER},
            "taint": {"key": "example.com/broken", "value": "yes", "effect": "NoExecute"},
        },
    }
    devices.apply(rule)
    devices("wait", "pod/train", "--for=delete", "--timeout=60s")
    (event,) = [each for each in devices.items("events") if each["reason"] == "DeviceTaintManagerEviction"]
    assert (event["involvedObject"]["name"], event["message"]) == ("train", "Marking for deletion")
    condition = "--for=condition=EvictionInProgress=False"
    devices("wait", "devicetaintrule/broken", condition, "--timeout=60s")  # nothing is left to evict
    # New pods are not scheduled to tainted devices until the rule is deleted.
    devices.apply(pod("next", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}]))
    until(lambda: "FailedScheduling" in devices("get", "events"), "the pod waits", why=devices.state)
    devices("delete", "devicetaintrule", "broken")
    devices("wait", "pod/next", "--for=condition=Ready", "--timeout=60s")
    devices("delete", "pod", "next", "--timeout=30s")


def test_status_request_counts_the_devices_of_pools(devices: Kubectl) -> None:
    devices.apply(pod("train", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}]))
    devices("wait", "pod/train", "--for=condition=Ready", "--timeout=60s")
    request = {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "ResourcePoolStatusRequest",
        "metadata": {"name": "gpus"},
        "spec": {"driver": DRIVER},
    }
    devices.apply(request)
    devices("wait", "resourcepoolstatusrequest/gpus", "--for=condition=Complete", "--timeout=60s")
    status = shown(devices, "resourcepoolstatusrequests", "gpus")["status"]
    node = devices.get("pods", "train")["spec"]["nodeName"]
    assert status["poolCount"] == 3
    counts = {
        pool["poolName"]: (pool["totalDevices"], pool["allocatedDevices"], pool["availableDevices"])
        for pool in status["pools"]
    }
    others = {f"hollow-node-{number}": (2, 0, 2) for number in range(3)}
    assert counts == {**others, node: (2, 1, 1)}
    devices("delete", "pod", "train", "--timeout=30s")


def test_extended_resource_is_provided_by_a_device(devices: Kubectl) -> None:
    amounts = {"example.com/gpu": "2"}
    devices.apply(pod("train", container={"resources": {"requests": amounts, "limits": amounts}}))
    devices("wait", "pod/train", "--for=condition=Ready", "--timeout=60s")
    status = devices.get("pods", "train")["status"]["extendedResourceClaimStatus"]
    made = devices.get("resource.k8s.io/v1/resourceclaims", status["resourceClaimName"])
    assert len(made["status"]["allocation"]["devices"]["results"]) == 2
    assert [user["name"] for user in made["status"]["reservedFor"]] == ["train"]
    devices("delete", "pod", "train", "--timeout=30s")
    until(lambda: not devices.items("resource.k8s.io/v1/resourceclaims"), "the claim is deleted", why=devices.state)
