"""Load balancers of Services with kubectl, from the cloud of `--cloud-provider=fake`: on our own cluster, and on a real
kube-apiserver.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest

from kcm.protocols.objects import Object
from tests.e2e.conftest import in_namespace
from tests.e2e.kubectl import Kubectl
from tests.e2e.programs import CONTROLLERS, managing, until
from tests.e2e.real_server import RealServer

FINALIZER = "service.kubernetes.io/load-balancer-cleanup"
CLOUD = "--cloud-provider=fake"


@pytest.fixture(scope="module")
def own_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Start an embedded cluster with the fake cloud; return its kubeconfig."""
    directory = tmp_path_factory.mktemp("cloud")
    with managing(directory / "kcm.log", f"--embedded-dir={directory / 'kcm'}", CLOUD):
        yield directory / "kcm" / "kubeconfig"


@pytest.fixture
def own(own_cloud: Path, request: pytest.FixtureRequest) -> Kubectl:
    return in_namespace(own_cloud, f"balanced-{crc32(request.node.name.encode())}")


@pytest.fixture
def on_real_server(real: RealServer, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    controllers = f"--controllers={','.join((*CONTROLLERS, 'service-lb-controller'))}"
    flags = (f"--kubeconfig={real.kubeconfig}", "--leader-elect=false", controllers, CLOUD)
    with managing(tmp_path / "kcm.log", *flags):
        yield in_namespace(real.kubeconfig, f"balanced-{crc32(request.node.name.encode())}")


@pytest.fixture(params=["own", pytest.param("on_real_server", marks=pytest.mark.cluster)])
def people(request: pytest.FixtureRequest) -> Kubectl:
    kubectl: Kubectl = request.getfixturevalue(request.param)
    return kubectl


def external_ip(kubectl: Kubectl) -> str:
    return kubectl("get", "svc", "web", "--no-headers").split()[3]


def event_reasons(kubectl: Kubectl) -> list[str]:
    """Reasons of events of the load balancer, in the order of their first time."""
    events: list[Object] = kubectl.items("events")
    mine = [event for event in events if event.get("source", {}).get("component") == "service-controller"]
    return [event["reason"] for event in sorted(mine, key=lambda event: event["metadata"]["creationTimestamp"])]


def test_a_service_gets_an_address_and_loses_it(people: Kubectl) -> None:
    [node, *_] = until(lambda: people.api.get("/api/v1/nodes")["items"], "there are nodes")
    people("create", "service", "loadbalancer", "web", "--tcp=80:8080")
    address = until(lambda: external_ip(people).startswith("203.0.113.") and external_ip(people), "it has an address")
    service = people.get("services", "web")
    assert service["metadata"]["finalizers"] == [FINALIZER]
    assert service["status"]["loadBalancer"] == {"ingress": [{"ip": address, "ipMode": "VIP"}]}
    until(lambda: {"EnsuringLoadBalancer", "EnsuredLoadBalancer"} <= set(event_reasons(people)), "people are told")

    name, label = node["metadata"]["name"], "node.kubernetes.io/exclude-from-external-load-balancers"
    people("label", "node", name, f"{label}=true")
    until(lambda: "UpdatedLoadBalancer" in event_reasons(people), "its hosts are updated")
    people("label", "node", name, f"{label}-")

    people("patch", "service", "web", "-p", '{"spec": {"type": "ClusterIP"}}')
    until(lambda: not people.get("services", "web")["metadata"].get("finalizers"), "the load balancer is gone")
    assert external_ip(people) == "<none>"
    until(lambda: "DeletedLoadBalancer" in event_reasons(people), "people are told")

    people("patch", "service", "web", "-p", '{"spec": {"type": "LoadBalancer"}}')
    until(lambda: external_ip(people).startswith("203.0.113."), "it has an address again")
    people("delete", "service", "web")
    until(
        lambda: "web" not in {service["metadata"]["name"] for service in people.items("services")},
        "the service is gone",
    )


def test_a_service_of_a_class_is_left_to_another_controller(people: Kubectl) -> None:
    spec = {"type": "LoadBalancer", "loadBalancerClass": "example.com/other", "ports": [{"port": 80}]}
    path = people.path("services")
    people.api.request("POST", path, {"metadata": {"name": "web"}, "spec": spec})
    people("create", "service", "loadbalancer", "ours", "--tcp=80")
    until(lambda: people.get("services", "ours")["status"]["loadBalancer"], "ours has an address")
    assert external_ip(people) == "<pending>"
    assert "finalizers" not in people.get("services", "web")["metadata"]
