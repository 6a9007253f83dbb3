"""Tainted devices and requests for the status of pools with the real kube-controller-manager and with ours.

Both work on one kube-apiserver, one after the other. The test plays the driver, the scheduler and the kubelet.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import in_namespace
from tests.e2e.kubectl import Kubectl, Object
from tests.e2e.programs import ending, run_kcm, stays, until
from tests.e2e.real_server import RealServer, assets_or_skip, real_manager, real_server

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]

GATES = "--feature-gates=DRADeviceTaintRules=true,DRAResourcePoolStatus=true"
SERVED = "--runtime-config=resource.k8s.io/v1beta2/devicetaintrules=true,resource.k8s.io/v1alpha3=true"
NAMES = "device-taint-eviction-controller,resourcepoolstatusrequest-controller"
API = "/apis/resource.k8s.io"
SLICES, RULES, REQUESTS = (
    f"{API}/v1/resourceslices",
    f"{API}/v1beta2/devicetaintrules",
    f"{API}/v1alpha3/resourcepoolstatusrequests",
)
MERGE = "application/merge-patch+json"
TAINT = {"key": "example.com/broken", "effect": "NoExecute"}


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with real_server(tmp_path_factory.mktemp("taints"), assets_or_skip(), GATES, SERVED) as server:
        yield server


class Scene:
    """Namespace and driver of one manager. side: part of the names of cluster-scoped objects."""

    def __init__(self, kubectl: Kubectl, side: str) -> None:
        self.kubectl, self.api = kubectl, kubectl.api
        self.driver = f"{side}.example.com"

    def named(self, name: str) -> str:
        return f"{name}.{self.driver}"

    def publish(self, *taints: Object) -> None:
        """Publish three devices; the first has these taints."""
        devices: list[Object] = [{"name": f"device-{number}"} for number in range(3)]
        devices[0]["taints"] = list(taints)
        name = self.named("slice")
        pool = {"name": "pool", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": self.driver, "pool": pool, "nodeName": "node", "devices": devices}
        if any(each["metadata"]["name"] == name for each in self.api.get(SLICES)["items"]):
            self.api.request("PATCH", f"{SLICES}/{name}", {"spec": spec}, type=MERGE)
        else:
            self.api.request("POST", SLICES, {"metadata": {"name": name}, "spec": spec})

    def user(self, name: str, device: str, *tolerations: Object) -> None:
        """Create a pod on a node that uses a device."""
        pods, claims = self.kubectl.path("pods"), self.kubectl.path("resource.k8s.io/v1/resourceclaims")
        request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
        spec: Object = {"devices": {"requests": [request]}}
        self.api.request("POST", claims, {"metadata": {"name": name}, "spec": spec})
        spec = {
            "nodeName": "node",
            "containers": [{"name": "c", "image": "nginx"}],
            "resourceClaims": [{"name": "r", "resourceClaimName": name}],
        }
        pod = self.api.request("POST", pods, {"metadata": {"name": name}, "spec": spec})
        result = {"request": "r", "driver": self.driver, "pool": "pool", "device": device}
        status = {
            "allocation": {"devices": {"results": [{**result, "tolerations": list(tolerations)}]}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}],
        }
        self.api.request("PATCH", f"{claims}/{name}/status", {"status": status}, type=MERGE)

    def rule(self, name: str, device: str, taint: Object) -> None:
        selector = {"driver": self.driver, "device": device}
        body = {"metadata": {"name": self.named(name)}, "spec": {"deviceSelector": selector, "taint": taint}}
        self.api.request("POST", RULES, body)

    def condition(self, rule: str) -> tuple[str, ...]:
        status = self.api.get(f"{RULES}/{self.named(rule)}").get("status") or {}
        (found,) = status.get("conditions") or [{}]
        names = ("type", "status", "reason", "message", "observedGeneration")
        return tuple(str(found.get(name)) for name in names)

    def pods(self) -> dict[str, Any]:
        """Return the condition DisruptionTarget of each pod that is being deleted; None for the others."""
        return {
            pod["metadata"]["name"]: [
                (each["status"], each["reason"], each["message"])
                for each in pod["status"]["conditions"]
                if each["type"] == "DisruptionTarget"
            ]
            if "deletionTimestamp" in pod["metadata"]
            else None
            for pod in self.kubectl.items("pods")
        }

    def events(self) -> list[str]:
        return sorted(
            f"{event['involvedObject']['name']} {event['type']} {event['reason']} {event['message']}"
            for event in self.kubectl.items("events")
            if event["source"].get("component") == "device-taint-eviction-controller"
        )

    def until(self, condition: Any, what: str) -> None:
        until(condition, what, why=lambda: json.dumps([self.pods(), self.events()]))


def played(scene: Scene) -> list[Any]:
    """Return what is observed after each stage."""
    seen: list[Any] = []
    forever = {"operator": "Exists", "effect": "NoExecute"}
    scene.publish()
    for name, device, tolerations in (
        ("plain", "device-0", []),
        ("patient", "device-0", [{**forever, "tolerationSeconds": 600}]),
        ("tolerant", "device-0", [forever]),
        ("ruled", "device-1", []),
        ("spared", "device-2", []),
    ):
        scene.user(name, device, *tolerations)
    stays(lambda: not any(scene.pods().values()), "untainted", seconds=2.0)

    scene.publish(TAINT)
    scene.until(lambda: scene.pods()["plain"], "the pod without tolerations is evicted")
    scene.publish()
    scene.until(lambda: len(scene.events()) == 2, "the delayed eviction is cancelled")
    seen += [scene.pods(), scene.events()]

    scene.rule("probe", "device-1", {**TAINT, "effect": "None"})
    scene.rule("other", "device-1", {**TAINT, "effect": "NoSchedule"})
    for rule in ("probe", "other"):
        scene.until(lambda rule=rule: scene.condition(rule)[1] != "None", f"a condition of {rule}")
        seen.append(scene.condition(rule))

    scene.rule("evict", "device-1", TAINT)
    scene.until(lambda: scene.condition("evict")[2] == "PodsPendingEviction", "the pod is pending")
    seen.append(scene.condition("evict"))
    scene.until(lambda: scene.condition("evict")[2] == "Completed", "the eviction is reported")
    seen += [scene.condition("evict"), scene.pods(), scene.events()]

    for name, spec in (("all", {}), ("one", {"poolName": "pool", "limit": 1}), ("none", {"poolName": "other"})):
        path = f"{REQUESTS}/{scene.named(name)}"
        body = {"metadata": {"name": scene.named(name)}, "spec": {"driver": scene.driver, **spec}}
        scene.api.request("POST", REQUESTS, body)
        scene.until(lambda path=path: scene.api.get(path).get("status"), f"the status of request {name}")
        status = scene.api.get(path)["status"]
        for condition in status["conditions"]:
            del condition["lastTransitionTime"]
        seen.append(status)
    return json.loads(json.dumps(seen).replace(scene.driver, "DRIVER"))  # type: ignore[no-any-return]


def test_the_same_pods_are_evicted_and_the_same_statuses_written(gated: RealServer) -> None:
    with real_manager(gated, f"--controllers={NAMES}", GATES):
        theirs = played(Scene(in_namespace(gated.kubeconfig, "taints-a"), "a"))
    flags = (f"--kubeconfig={gated.kubeconfig}", "--leader-elect=false", f"--controllers={NAMES}", GATES)
    with ending(run_kcm(gated.directory / "taints.log", *flags).program):
        ours = played(Scene(in_namespace(gated.kubeconfig, "taints-b"), "b"))
    assert ours == theirs
    assert theirs[0] == {
        "plain": [["True", "DeletionByDeviceTaintManager", "Device Taint manager: deleting due to NoExecute taint"]],
        **dict.fromkeys(("patient", "tolerant", "ruled", "spared")),
    }
