"""The cloud in memory."""

from __future__ import annotations

import pytest

from protocols.objects import Object
from protocols.routes import Route
from runtime.cloud.fake import FakeCloud
from runtime.cloud.provider import CloudConflictError, InstanceMetadata, InstanceNotFoundError


def node(name: str = "n1", said: str = "") -> Object:
    annotations = {"cloud.kcm.dev/instance": said} if said else {}
    labels = {"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "eu"}
    addresses = [{"type": "InternalIP", "address": "192.0.2.1"}]
    meta = {"name": name, "uid": f"uid-{name}", "annotations": annotations, "labels": labels}
    return {"metadata": meta, "status": {"addresses": addresses}}


def service(name: str) -> Object:
    return {"metadata": {"name": name, "uid": f"uid-{name}"}}


def test_machines_exist_and_run_until_it_is_said_otherwise() -> None:
    instances = FakeCloud().instances
    for one in (node(), node("n2")):
        assert instances.exists(one)
        assert not instances.is_shut_down(one)
    instances.terminate("n1")
    instances.shut_down("n2")
    assert not instances.exists(node())
    assert instances.exists(node("n2"))
    assert instances.is_shut_down(node("n2"))
    instances.start("n1", "n2")
    assert instances.exists(node())
    assert not instances.is_shut_down(node("n2"))


def test_an_annotation_says_it_too() -> None:
    instances = FakeCloud().instances
    assert not instances.exists(node(said="gone"))
    assert instances.exists(node(said="stopped"))
    assert instances.is_shut_down(node(said="stopped"))


def test_a_machine_is_what_its_node_says() -> None:
    instances = FakeCloud().instances
    assert instances.metadata(node()) == InstanceMetadata(
        provider_id="fake:///n1", instance_type="fake", zone="a", region="eu", addresses=(("InternalIP", "192.0.2.1"),)
    )
    with pytest.raises(InstanceNotFoundError, match="n1"):
        instances.metadata(node(said="gone"))


def test_a_destination_has_one_route_in_each_cluster() -> None:
    routes = FakeCloud().routes
    route = Route(destination="10.0.0.0/24", node="n1")
    routes.create("c", "h", route)
    routes.create("d", "h", route)
    with pytest.raises(CloudConflictError, match=r"10\.0\.0\.0/24 is routed to n1"):
        routes.create("c", "h", Route(destination="10.0.0.0/24", node="n2"))
    (made,) = routes.list("c")
    routes.delete("c", made)
    routes.delete("c", made)
    assert not routes.list("c")
    assert len(routes.list("d")) == 1


def test_a_balancer_keeps_its_address_while_it_is_there() -> None:
    balancers = FakeCloud().load_balancers
    first = balancers.ensure("c", service("web"), [node("n1")])
    assert balancers.ensure("c", service("web"), [node("n1"), node("n2")]) == first
    assert balancers.nodes == {"uid-web": ("n1", "n2")}
    assert balancers.ensure("c", service("api"), []) != first
    balancers.update("c", service("web"), [node("n2")])
    assert balancers.nodes["uid-web"] == ("n2",)
    balancers.delete("c", service("web"))
    balancers.delete("c", service("web"))
    assert balancers.get("c", service("web")) is None
    with pytest.raises(RuntimeError, match="no load balancer"):
        balancers.update("c", service("web"), [])


def test_addresses_run_out() -> None:
    balancers = FakeCloud().load_balancers
    addresses = {balancers.ensure("c", service(f"s{i}"), [])["ingress"][0]["ip"] for i in range(254)}
    assert len(addresses) == 254
    with pytest.raises(RuntimeError, match=r"203\.0\.113\.0/24"):
        balancers.ensure("c", service("one-more"), [])
