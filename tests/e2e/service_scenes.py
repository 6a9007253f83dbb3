"""Scenarios of Services, pods and hand-written Endpoints in a namespace, for a controller of EndpointSlices.

There is no kubelet: a scenario writes the status of each pod itself. It calls `look` where all must have settled.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from tests.e2e.kubectl import Api, Object

ZONES = {"node-a1": "a", "node-a2": "a", "node-b1": "b", "node-c1": "c"}
READY_SINCE = "2026-01-02T03:04:05Z"
MERGE = "application/merge-patch+json"


class Scene(Protocol):
    """A namespace. look: waits until nothing changes any more, and keeps what there is under this title."""

    @property
    def api(self) -> Api: ...

    def path(self, resource: str, name: str = "") -> str: ...

    def look(self, title: str) -> None: ...


def make_nodes(api: Api) -> None:
    for name, zone in ZONES.items():
        labels = {"topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": name}
        api.request("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": READY_SINCE, "reason": "r", "message": "m"}
        status = {"conditions": [ready], "allocatable": {"cpu": "4"}, "capacity": {"cpu": "4"}}
        merge(api, f"/api/v1/nodes/{name}/status", {"status": status})


def merge(api: Api, path: str, body: Object) -> None:
    api.request("PATCH", path, body, type=MERGE)


class User:
    """Actions of a user and of kubelets in the namespace of a scene."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.api, self.look = scene, scene.api, scene.look

    def service(self, name: str = "web", *, labels: dict[str, str] | None = None, **spec: Any) -> None:
        meta: Object = {"name": name, "labels": labels or {}}
        wanted = {"selector": {"app": "web"}, "ports": [{"port": 80}], **spec}
        self.api.request("POST", self.scene.path("services"), {"metadata": meta, "spec": wanted})

    def change(self, name: str = "web", /, **spec: Any) -> None:
        merge(self.api, self.scene.path("services", name), {"spec": spec})

    def annotate(self, name: str = "web", /, *, resource: str = "services", **meta: Any) -> None:
        merge(self.api, self.scene.path(resource, name), {"metadata": meta})

    def pod(
        self,
        name: str,
        *ips: str,
        ready: bool = True,
        phase: str = "Running",
        node: str = "node-a1",
        ports: list[Object] | None = None,
        labels: dict[str, str] | None = None,
        finalizers: list[str] | None = None,
        **spec: Any,
    ) -> None:
        container: Object = {"name": "c", "image": "i", "ports": ports or []}
        meta = {"name": name, "labels": labels or {"app": "web"}, "finalizers": finalizers or []}
        body = {"metadata": meta, "spec": {"containers": [container], "nodeName": node, **spec}}
        self.api.request("POST", self.scene.path("pods"), body)
        self.report(name, *ips, ready=ready, phase=phase)

    def report(self, name: str, *ips: str, ready: bool = True, phase: str = "Running") -> None:
        condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": READY_SINCE}
        status: Object = {"phase": phase, "conditions": [condition]}
        if ips:
            status |= {"podIP": ips[0], "podIPs": [{"ip": ip} for ip in ips]}
        merge(self.api, f"{self.scene.path('pods', name)}/status", {"status": status})

    def delete(self, resource: str, name: str, **query: str) -> None:
        text = "&".join(f"{key}={value}" for key, value in query.items())
        self.api.request("DELETE", self.scene.path(resource, name) + (f"?{text}" if text else ""))

    def endpoints(self, *subsets: Object, name: str = "web", **meta: Any) -> None:
        """Made, or replaced."""
        body = {"metadata": {"name": name, **meta}, "subsets": list(subsets)}
        self.api.request("PUT", self.scene.path("endpoints", name), body)

    def slices(self, service: str = "web") -> list[Object]:
        path = self.scene.path("discovery.k8s.io/v1/endpointslices")
        items: list[Object] = self.api.get(f"{path}?labelSelector=kubernetes.io%2Fservice-name%3D{service}")["items"]
        return items

    def many(self, first: int, count: int) -> None:
        """Pods of consecutive numbers, some at a time."""

        def make(number: int) -> None:
            self.pod(f"p{number}", f"10.2.{number // 250}.{number % 250 + 1}", node=[*ZONES][number % 4])

        with ThreadPoolExecutor(max_workers=8) as several:
            list(several.map(make, range(first, first + count)))


def ports(**numbers: int) -> list[Object]:
    return [{"name": name, "containerPort": number} for name, number in numbers.items()]


def pods_in_every_state(user: User) -> None:
    user.service()
    user.look("no pod")
    user.pod("ready", "10.1.0.1")
    user.pod("unready", "10.1.0.2", ready=False)
    user.pod("leaving", "10.1.0.3")
    user.pod("leaving-unready", "10.1.0.4", ready=False)
    user.pod("succeeded", "10.1.0.5", phase="Succeeded", ready=False)
    user.pod("failed", "10.1.0.6", phase="Failed", ready=False)
    user.pod("without-address", ready=False, phase="Pending")
    user.pod("on-unknown-node", "10.1.0.8", node="nobody-knows")
    user.pod("another", "10.1.0.9", labels={"app": "other"})
    user.pod("host", "192.0.2.1", hostNetwork=True)
    for name in ("leaving", "leaving-unready"):
        user.delete("pods", name)
    user.look("all states")
    user.change(publishNotReadyAddresses=True)
    user.look("not ready ones are published")
    user.change(publishNotReadyAddresses=None)
    user.report("ready", "10.1.0.1", ready=False)
    user.report("unready", "10.1.0.2")
    user.look("ready and unready have changed")
    user.annotate("another", resource="pods", labels={"app": "web"})
    user.annotate("host", resource="pods", labels={"app": None})
    user.delete("pods", "leaving", gracePeriodSeconds="0")
    user.look("labels have changed and one is gone")
    user.change(selector={"app": "web", "more": "x"})
    user.look("nothing is selected")
    user.change(selector=None)
    user.look("nobody selects")


def headless_services(user: User) -> None:
    user.service("web", clusterIP="None", ports=[])
    user.service("ported", clusterIP="None", publishNotReadyAddresses=True)
    user.pod("named", "10.1.1.1", hostname="one", subdomain="web")
    user.pod("of-another", "10.1.1.2", hostname="two", subdomain="ported")
    user.pod("unready", "10.1.1.3", ready=False, hostname="three", subdomain="web")
    user.pod("plain", "10.1.1.4")
    user.look("with hostnames")
    user.change("web", ports=[{"port": 80}])
    user.look("a port more")
    user.change("ported", ports=None)
    user.look("a port less")
    user.delete("services", "web")
    user.service("web")
    user.look("headless no more")


def named_ports(user: User) -> None:
    user.service(
        ports=[
            {"name": "http", "port": 80, "targetPort": "http", "appProtocol": "kubernetes.io/h2c"},
            {"name": "dns", "port": 53, "targetPort": "dns", "protocol": "UDP"},
            {"name": "plain", "port": 9000},
        ]
    )
    user.pod("one", "10.1.2.1", ports=ports(http=80))
    user.pod("two", "10.1.2.2", ports=ports(http=8080))
    user.pod("three", "10.1.2.3", ports=[*ports(http=8080), {"name": "dns", "containerPort": 5353, "protocol": "UDP"}])
    user.pod("four", "10.1.2.4", ports=ports(dns=5353))
    user.pod("none", "10.1.2.5")
    sidecar = {"name": "s", "image": "i", "restartPolicy": "Always", "ports": ports(http=7070)}
    user.pod("sidecar", "10.1.2.6", initContainers=[sidecar])
    user.look("every pod has its own")
    user.change(ports=[{"name": "http", "port": 80, "targetPort": "http"}])
    user.look("one port is left")
    user.change(ports=[{"name": "web", "port": 81, "targetPort": 8080}])
    user.look("it is a number now")


def changes_of_type(user: User) -> None:
    user.service(labels={"team": "x"})
    user.pod("one", "10.1.3.1")
    user.look("it has an address")
    user.change(type="ExternalName", externalName="a.example.com")
    user.look("it is a name")
    user.change(type="NodePort", externalName=None)
    user.look("it has an address again")
    user.annotate(labels={"team": None, "other": "y", "service.kubernetes.io/headless": ""}, annotations={"a": "b"})
    user.look("labels have changed")
    user.change(sessionAffinity="ClientIP")
    user.look("nothing that concerns endpoints")
    user.delete("services", "web")
    user.look("it is gone")
    user.service()
    user.look("it is back")


def edited_by_others(user: User) -> None:
    user.service()
    user.pod("one", "10.1.4.1")
    user.pod("two", "10.1.4.2")
    user.look("made")
    (slice_,) = user.slices()
    name, resource = slice_["metadata"]["name"], "discovery.k8s.io/v1/endpointslices"
    merge(user.api, user.scene.path(resource, name), {"endpoints": [{"addresses": ["10.9.9.9"]}]})
    user.look("its endpoints were changed")
    user.annotate(name, resource=resource, labels={"mine": "x"}, annotations={"mine": "y"})
    user.look("it was labelled")
    for slice_ in user.slices():
        user.delete(resource, slice_["metadata"]["name"])
    user.look("all were deleted")
    user.delete("endpoints", "web")
    user.look("the endpoints were deleted")
    user.endpoints({"addresses": [{"ip": "10.9.9.9"}], "ports": [{"port": 1}]}, labels={"mine": "x"})
    user.look("the endpoints were replaced")
    user.pod("three", "10.1.4.3")
    user.look("a pod more")


def mirrored(user: User) -> None:
    user.endpoints({"addresses": [{"ip": "192.0.2.10"}], "ports": [{"port": 1}]}, name="orphan")
    user.service(selector=None)
    user.endpoints(
        {
            "addresses": [{"ip": "192.0.2.2", "hostname": "h", "nodeName": "node-a1"}, {"ip": "2001:db8::2"}],
            "notReadyAddresses": [{"ip": "192.0.2.3"}],
            "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81, "protocol": "UDP", "appProtocol": "x"}],
        },
        {"addresses": [{"ip": "192.0.2.4"}, {"ip": "192.0.2.2"}], "ports": [{"name": "a", "port": 82}]},
        labels={"team": "x"},
        annotations={"note": "y"},
    )
    user.look("of two families")
    user.endpoints({"addresses": [{"ip": "192.0.2.2"}], "ports": [{"port": 80}]}, labels={"team": "z"})
    user.look("less")
    user.endpoints({"notReadyAddresses": [{"ip": "192.0.2.2"}]})
    user.look("without ports")
    user.endpoints()
    user.look("nothing")
    user.endpoints({"addresses": [{"ip": "192.0.2.2"}], "ports": [{"port": 80}]})
    user.look("something")
    user.annotate(resource="endpoints", labels={"endpointslice.kubernetes.io/skip-mirror": "true"})
    user.look("left alone by label")
    user.annotate(resource="endpoints", labels={"endpointslice.kubernetes.io/skip-mirror": None})
    user.look("no more")
    user.annotate(resource="endpoints", annotations={"control-plane.alpha.kubernetes.io/leader": "{}"})
    user.look("of a leader election")
    user.annotate(resource="endpoints", annotations={"control-plane.alpha.kubernetes.io/leader": None})
    user.look("of none")
    user.change(selector={"app": "web"})
    user.pod("one", "10.1.5.1")
    user.look("the service selects")
    user.change(selector=None)
    user.look("and no more")
    user.delete("endpoints", "web")
    user.look("without endpoints")
    user.service("orphan", selector=None)
    user.look("there is a service for those that were without")
    user.delete("services", "orphan")
    user.look("and no more again")


def mirrored_in_large_numbers(user: User) -> None:
    user.service(selector=None)
    addresses = [{"ip": f"10.3.{number // 250}.{number % 250 + 1}"} for number in range(1010)]
    user.endpoints({"addresses": addresses, "ports": [{"port": 80}]})
    user.look("more than are mirrored")
    user.endpoints({"addresses": addresses[:150], "notReadyAddresses": addresses[150:160], "ports": [{"port": 80}]})
    user.look("fewer")


def many_pods(user: User) -> None:
    user.service()
    user.many(0, 120)
    user.look("more than one slice holds")
    user.many(120, 885)
    user.look("more than Endpoints hold")
    user.report("p7", "10.2.0.8", ready=False)
    user.look("one is not ready")
    for number in range(5):
        user.delete("pods", f"p{number}", gracePeriodSeconds="0")
    user.look("as many as Endpoints hold")


def near_ones(user: User) -> None:
    user.service(trafficDistribution="PreferClose")
    user.pod("a", "10.1.6.1")
    user.pod("b", "10.1.6.2", node="node-b1")
    user.pod("unready", "10.1.6.3", node="node-b1", ready=False)
    user.look("in zones")
    user.change(trafficDistribution="PreferSameNode")
    user.look("on nodes")
    user.pod("nowhere", "10.1.6.4", node="nobody-knows")
    user.look("one has no zone")
    user.change(trafficDistribution="PreferSameZone")
    user.look("by zone")
    user.change(trafficDistribution=None)
    user.look("wherever")


def topology_aware(user: User) -> None:
    user.service()
    for number, node in enumerate(ZONES):
        user.pod(f"one-{number}", f"10.1.7.{number + 1}", node=node)
    user.look("without hints")
    user.annotate(annotations={"service.kubernetes.io/topology-mode": "Auto"})
    user.look("too few endpoints, or enough")
    user.annotate(annotations={"service.kubernetes.io/topology-mode": "Disabled"})
    user.look("disabled while pods are added")  # otherwise the events depend on how many pods a sync finds
    for number in range(8):
        user.pod(f"two-{number}", f"10.1.7.{number + 20}", node=[*ZONES][number % 4])
    user.annotate(annotations={"service.kubernetes.io/topology-mode": "Auto"})
    user.look("more of them")
    user.pod("nowhere", "10.1.7.40", node="nobody-knows")
    user.look("one without a zone")
    user.delete("pods", "nowhere", gracePeriodSeconds="0")
    user.look("without it")
    user.change(trafficDistribution="PreferClose")
    user.look("both")
    user.annotate(annotations={"service.kubernetes.io/topology-mode": "Disabled"})
    user.look("disabled")
    user.annotate(annotations={"service.kubernetes.io/topology-mode": None})
    user.look("not said")


def of_both_families(user: User) -> None:
    user.service("four", ipFamilies=["IPv4"])
    user.service("six", ipFamilies=["IPv6"])
    user.service("both", ipFamilyPolicy="RequireDualStack")
    user.service("headless", ipFamilyPolicy="PreferDualStack", ipFamilies=["IPv6", "IPv4"], clusterIP="None")
    user.pod("both", "10.1.8.1", "fd00:1::1")
    user.pod("six-first", "fd00:1::2", "10.1.8.2")
    user.pod("four", "10.1.8.3")
    user.pod("six", "fd00:1::4", ready=False)
    user.look("everywhere")
    user.change("four", ipFamilyPolicy="PreferDualStack")
    user.change("both", ipFamilyPolicy="SingleStack")
    user.look("one more, one less")
    user.delete("pods", "six-first", gracePeriodSeconds="0")
    user.look("a pod less")


def refused(user: User) -> None:
    """A quota that a controller would have written forbids both kinds."""
    hard = {"count/endpointslices.discovery.k8s.io": "0", "count/endpoints": "0"}
    path = user.scene.path("resourcequotas")
    user.api.request("POST", path, {"metadata": {"name": "none"}, "spec": {"hard": hard}})
    merge(user.api, f"{path}/none/status", {"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}})
    user.service()
    user.pod("one", "10.1.9.1")
    user.look("nothing can be made")
    user.delete("resourcequotas", "none")
    user.annotate(annotations={"again": "now"})
    user.look("it can")


SCENES: tuple[Callable[[User], None], ...] = (
    many_pods,
    pods_in_every_state,
    headless_services,
    named_ports,
    changes_of_type,
    edited_by_others,
    mirrored,
    mirrored_in_large_numbers,
    near_ones,
    topology_aware,
    of_both_families,
    refused,
)
