"""The fake cloud."""

from __future__ import annotations

import pytest

from kcm.protocols.objects import Object
from kcm.protocols.routes import Route
from kcm.runtime.cloud.fake import FakeCloud
from kcm.runtime.cloud.provider import CloudConflictError, InstanceMetadata, InstanceNotFoundError
from tests.support.objects import node, service, stored

ANNOTATION = "cloud.kcm.dev/instance"


def instance(name: str = "n1", *, annotation: str = "") -> Object:
    """Return the node of an instance in zone eu:a.

    annotation: state of the instance in the fake cloud, "" for the default.
    """
    return node(
        name,
        labels={"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "eu"},
        metadata={"annotations": {ANNOTATION: annotation} if annotation else {}},
        status={"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]},
    )


def balanced(name: str) -> Object:
    return stored(service(name, selector={"app": name}), version=1)


def test_instances_exist_and_run_until_they_are_stopped_or_terminated() -> None:
    instances = FakeCloud().instances
    for existing in (instance(), instance("n2")):
        assert instances.exists(existing)
        assert not instances.is_shut_down(existing)
    instances.terminate("n1")
    instances.shut_down("n2")
    assert not instances.exists(instance())
    assert instances.exists(instance("n2"))
    assert instances.is_shut_down(instance("n2"))
    instances.start("n1", "n2")
    assert instances.exists(instance())
    assert not instances.is_shut_down(instance("n2"))


def test_an_annotation_of_the_node_does_the_same() -> None:
    instances = FakeCloud().instances
    assert not instances.exists(instance(annotation="gone"))
    assert instances.exists(instance(annotation="stopped"))
    assert instances.is_shut_down(instance(annotation="stopped"))


def test_an_instances_metadata_follows_its_node() -> None:
    instances = FakeCloud().instances
    assert instances.metadata(instance()) == InstanceMetadata(
        provider_id="fake:///n1", instance_type="fake", zone="a", region="eu", addresses=(("InternalIP", "192.0.2.1"),)
    )
    with pytest.raises(InstanceNotFoundError, match="n1"):
        instances.metadata(instance(annotation="gone"))


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


def test_load_balancer_has_the_requested_or_the_previous_address() -> None:
    """A restarted fake has allocated no addresses, and adopts the one in the status."""
    first, again = FakeCloud().load_balancers, FakeCloud().load_balancers
    wished = {**balanced("web"), "spec": {"loadBalancerIP": "198.51.100.7"}}
    assert first.ensure("c", wished, [])["ingress"][0]["ip"] == "198.51.100.7"
    first.ensure("c", balanced("a"), [])
    status = first.ensure("c", balanced("b"), [])
    assert again.ensure("c", {**balanced("b"), "status": {"loadBalancer": status}}, []) == status
    taken = again.ensure("c", {**balanced("c"), "status": {"loadBalancer": status}}, [])
    assert taken != status


def test_a_load_balancer_keeps_its_address_until_it_is_deleted() -> None:
    balancers = FakeCloud().load_balancers
    first = balancers.ensure("c", balanced("web"), [instance("n1")])
    assert balancers.ensure("c", balanced("web"), [instance("n1"), instance("n2")]) == first
    assert balancers.nodes == {"uid-web": ("n1", "n2")}
    assert balancers.ensure("c", balanced("api"), []) != first
    balancers.update("c", balanced("web"), [instance("n2")])
    assert balancers.nodes["uid-web"] == ("n2",)
    balancers.delete("c", balanced("web"))
    balancers.delete("c", balanced("web"))
    assert balancers.get("c", balanced("web")) is None
    with pytest.raises(RuntimeError, match="no load balancer"):
        balancers.update("c", balanced("web"), [])


def test_addresses_run_out() -> None:
    balancers = FakeCloud().load_balancers
    addresses = {balancers.ensure("c", balanced(f"s{i}"), [])["ingress"][0]["ip"] for i in range(254)}
    assert len(addresses) == 254
    with pytest.raises(RuntimeError, match=r"203\.0\.113\.0/24"):
        balancers.ensure("c", balanced("one-more"), [])
