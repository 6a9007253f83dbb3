"""Services with kubectl, on our own cluster and on a real kube-apiserver: what finds their pods."""

from __future__ import annotations

from kcm.protocols.objects import Object
from tests.e2e.kubectl import Kubectl
from tests.e2e.programs import until

SLICES = "discovery.k8s.io/v1/endpointslices"


def slices(kubectl: Kubectl) -> list[Object]:
    return kubectl.items(SLICES)


def ready_pods(kubectl: Kubectl) -> set[str]:
    return {
        endpoint["targetRef"]["name"]
        for slice_ in slices(kubectl)
        for endpoint in slice_.get("endpoints") or ()
        if endpoint["conditions"]["ready"]
    }


def pods(kubectl: Kubectl) -> set[str]:
    return {pod["metadata"]["name"] for pod in kubectl.items("pods") if not pod["metadata"].get("deletionTimestamp")}


def test_a_deployment_is_exposed_and_its_pods_are_followed(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx", "--replicas=3", "--port=80")
    assert kubectl("expose", "deployment", "web") == "service/web exposed\n"
    kubectl.until_complete("web")
    until(lambda: len(ready_pods(kubectl)) == 3, "all pods are ready endpoints")
    [slice_] = slices(kubectl)
    assert slice_["metadata"]["name"].startswith("web-")
    assert slice_["ports"] == [{"name": "", "port": 80, "protocol": "TCP"}]
    assert {endpoint["zone"] for endpoint in slice_["endpoints"]} <= {"zone-a", "zone-b"}
    printed = kubectl("get", "endpointslices").splitlines()
    assert printed[0].split() == ["NAME", "ADDRESSTYPE", "PORTS", "ENDPOINTS", "AGE"]
    assert printed[1].split()[1:3] == ["IPv4", "80"]

    kubectl("scale", "deployment", "web", "--replicas=1")
    until(lambda: ready_pods(kubectl) == pods(kubectl) and len(pods(kubectl)) == 1, "one endpoint is left")
    kubectl("patch", "service", "web", "-p", '{"spec": {"trafficDistribution": "PreferSameZone"}}')
    [endpoint] = until(
        lambda: [endpoint for endpoint in slices(kubectl)[0]["endpoints"] if endpoint.get("hints")], "a hint is given"
    )
    assert endpoint["hints"] == {"forZones": [{"name": endpoint["zone"]}]}
    kubectl("delete", "endpointslice", slices(kubectl)[0]["metadata"]["name"])
    until(lambda: ready_pods(kubectl) == pods(kubectl), "a slice that somebody deleted is there again")


def test_endpoints_follow_a_service_and_go_with_it(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx", "--replicas=2", "--port=80")
    kubectl("expose", "deployment", "web")
    kubectl.until_complete("web")

    def ready() -> set[str]:
        found = {item["metadata"]["name"]: item for item in kubectl.items("endpoints")}
        subsets = found.get("web", {}).get("subsets") or ()
        return {address["targetRef"]["name"] for subset in subsets for address in subset.get("addresses") or ()}

    until(lambda: ready() == pods(kubectl), "both pods are endpoints")
    assert ":80" in kubectl("get", "endpoints", "web", "--no-headers")
    kubectl("delete", "service", "web")
    until(lambda: not kubectl.items("endpoints"), "the endpoints are gone")


def test_endpoints_written_by_hand_are_mirrored(kubectl: Kubectl) -> None:
    kubectl("create", "service", "clusterip", "db", "--tcp=5432")
    kubectl("patch", "service", "db", "--type=json", "-p", '[{"op": "remove", "path": "/spec/selector"}]')
    until(lambda: not kubectl.get("services", "db")["spec"].get("selector"), "the service selects nothing")
    kubectl("delete", "endpoints", "db", "--ignore-not-found")
    subsets = [{"addresses": [{"ip": "192.0.2.7"}], "ports": [{"port": 5432}]}]
    path = kubectl.path("endpoints")
    kubectl.api.request("POST", path, {"metadata": {"name": "db"}, "subsets": subsets})

    def mirrors() -> list[Object]:
        manager = "endpointslicemirroring-controller.k8s.io"
        label = "endpointslice.kubernetes.io/managed-by"
        return [slice_ for slice_ in slices(kubectl) if slice_["metadata"]["labels"].get(label) == manager]

    [mirror] = until(mirrors, "the endpoints are mirrored")
    assert mirror["endpoints"] == [{"addresses": ["192.0.2.7"], "conditions": {"ready": True}}]
    assert [port["port"] for port in mirror["ports"]] == [5432]
    kubectl("label", "endpoints", "db", "endpointslice.kubernetes.io/skip-mirror=true")
    until(lambda: not mirrors(), "the mirror is gone")
