"""Services with kubectl, on our own cluster and on a real kube-apiserver: what finds their pods."""

from __future__ import annotations

from protocols.objects import Object
from tests.e2e.kubectl import Kubectl
from tests.e2e.running import until

SLICES = "discovery.k8s.io/v1/endpointslices"


def slices(kubectl: Kubectl) -> list[Object]:
    return kubectl.items(SLICES)


def ready_pods(kubectl: Kubectl) -> set[str]:
    return {
        one["targetRef"]["name"]
        for slice_ in slices(kubectl)
        for one in slice_.get("endpoints") or ()
        if one["conditions"]["ready"]
    }


def pods(kubectl: Kubectl) -> set[str]:
    return {one["metadata"]["name"] for one in kubectl.items("pods") if not one["metadata"].get("deletionTimestamp")}


def test_a_deployment_is_exposed_and_its_pods_are_followed(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx", "--replicas=3", "--port=80")
    assert kubectl("expose", "deployment", "web") == "service/web exposed\n"
    kubectl.until_complete("web")
    until(lambda: len(ready_pods(kubectl)) == 3, "all pods are ready endpoints")
    [slice_] = slices(kubectl)
    assert slice_["metadata"]["name"].startswith("web-")
    assert slice_["ports"] == [{"name": "", "port": 80, "protocol": "TCP"}]
    assert {one["zone"] for one in slice_["endpoints"]} <= {"zone-a", "zone-b"}
    printed = kubectl("get", "endpointslices").splitlines()
    assert printed[0].split() == ["NAME", "ADDRESSTYPE", "PORTS", "ENDPOINTS", "AGE"]
    assert printed[1].split()[1:3] == ["IPv4", "80"]

    kubectl("scale", "deployment", "web", "--replicas=1")
    until(lambda: ready_pods(kubectl) == pods(kubectl) and len(pods(kubectl)) == 1, "one endpoint is left")
    kubectl("patch", "service", "web", "-p", '{"spec": {"trafficDistribution": "PreferSameZone"}}')
    [endpoint] = until(lambda: [one for one in slices(kubectl)[0]["endpoints"] if one.get("hints")], "a hint is given")
    assert endpoint["hints"] == {"forZones": [{"name": endpoint["zone"]}]}
    kubectl("delete", "endpointslice", slices(kubectl)[0]["metadata"]["name"])
    until(lambda: ready_pods(kubectl) == pods(kubectl), "a slice that somebody deleted is there again")
