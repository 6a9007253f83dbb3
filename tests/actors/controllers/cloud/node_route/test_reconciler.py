"""Tests of the node route controller in a simulated cluster with a fake cloud."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from kcm.actors.controllers.cloud.node_route.spec import ROUTE_SYNCS, SPEC
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.conditions import find_condition
from kcm.protocols.messages.cloud import CreateRoute, DeleteRoute, ListRoutes
from kcm.protocols.objects import uid_of
from kcm.protocols.resources import EVENTS, NODES
from kcm.protocols.routes import Route, decode_route
from kcm.runtime.cloud.fake import FakeCloud, FakeRoutes
from kcm.runtime.cloud.provider import CloudConflictError
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from tests.actors.controllers.cloud.node_route.objects import CLUSTER, TWO, routed_node, to
from tests.actors.controllers.nodes.fleet import options_of


class RefusingRoutes(FakeRoutes):
    """Fake routes of a cloud in which the first creations fail. refusals: number of failures."""

    def __init__(self, refusals: int, error: Exception) -> None:
        super().__init__()
        self.refusals, self.error = refusals, error

    def create(self, cluster: str, hint: str, route: Route) -> None:
        if self.refusals > 0:
            self.refusals -= 1
            raise self.error
        super().create(cluster, hint, route)


def start(make_cluster: Callable[..., SimulatedCluster], cloud: FakeCloud) -> SimulatedCluster:
    cluster = make_cluster(cloud=cloud)
    options = options_of("--cloud-provider=fake", "--cluster-cidr=10.120.0.0/16", "--route-reconciliation-period=10s")
    cluster.manager(controllers=[SPEC], options=options)
    return cluster


def condition(cluster: SimulatedCluster, name: str) -> tuple[str, str, str] | None:
    there = cluster.get(NODES, name)
    assert there is not None
    found = find_condition(there["status"].get("conditions"), "NetworkUnavailable")
    return None if found is None else (found["status"], found["reason"], found["message"])


def routes(cloud: FakeCloud) -> set[tuple[str, str]]:
    return {(route.node, route.destination) for route in cloud.routes.list(CLUSTER)}


def test_route_is_created_and_deleted_with_its_node(make_cluster: Callable[..., SimulatedCluster]) -> None:
    cloud = FakeCloud()
    cluster = start(make_cluster, cloud)
    first = cluster.create(NODES, TWO[0])
    cluster.create(NODES, TWO[1])
    cluster.create(NODES, routed_node("n3"))
    cluster.run_for(11.0)
    assert routes(cloud) == {("n1", "10.120.0.0/24"), ("n2", "10.120.1.0/24")}
    assert condition(cluster, "n1") == ("False", "RouteCreated", "RouteController created a route")
    assert condition(cluster, "n3") is None
    hints = [call.hint for _, call in cluster.calls.made if isinstance(call, CreateRoute)]
    assert uid_of(first) in hints
    cluster.delete(NODES, "n2")
    cluster.run_for(11.0)
    assert routes(cloud) == {("n1", "10.120.0.0/24")}


@pytest.mark.parametrize(("refusals", "events"), [(3, 3), (6, 5)])
def test_conflicting_creation_is_tried_five_times_per_pass(
    refusals: int, events: int, make_cluster: Callable[..., SimulatedCluster]
) -> None:
    cloud = FakeCloud()
    cloud.routes = RefusingRoutes(refusals, CloudConflictError("busy"))
    cluster = start(make_cluster, cloud)
    cluster.run_for(1.0)
    made = cluster.create(NODES, TWO[0])
    cluster.run_for(10.0)
    failures = [event for event in cluster.list(EVENTS) if event["reason"] == "FailedToCreateRoute"]
    assert sum(event.get("count") or 1 for event in failures) == events
    assert all(event["type"] == "Warning" for event in failures)
    start_of_message = f"Could not create route {uid_of(made)} 10.120.0.0/24 for node n1 after "
    assert all(event["message"].startswith(start_of_message) for event in failures)
    assert all(event["message"].endswith("s: busy") for event in failures)
    expected = "RouteCreated" if refusals < 5 else "NoRouteCreated"
    assert (condition(cluster, "n1") or ("", ""))[1] == expected
    cluster.run_for(10.0)
    assert (condition(cluster, "n1") or ("", ""))[1] == "RouteCreated"


def test_failure_other_than_conflict_is_retried_in_the_next_pass(make_cluster: Callable[..., SimulatedCluster]) -> None:
    cloud = FakeCloud()
    cloud.routes = RefusingRoutes(1, RuntimeError("quota"))
    cluster = start(make_cluster, cloud)
    cluster.run_for(1.0)
    cluster.create(NODES, TWO[0])
    cluster.run_for(10.0)
    assert condition(cluster, "n1") == ("True", "NoRouteCreated", "RouteController failed to create a route")
    cluster.run_for(10.0)
    assert condition(cluster, "n1") == ("False", "RouteCreated", "RouteController created a route")


def test_cidr_of_two_nodes_is_routed_to_one(make_cluster: Callable[..., SimulatedCluster]) -> None:
    cloud = FakeCloud()
    cluster = start(make_cluster, cloud)
    cluster.create(NODES, routed_node("n1", "10.120.0.0/24"))
    cluster.create(NODES, routed_node("n2", "10.120.0.0/24"))
    cluster.run_for(11.0)
    (routed,) = routes(cloud)
    reasons = {name: (condition(cluster, name) or ("", ""))[1] for name in ("n1", "n2")}
    assert reasons == {name: "RouteCreated" if name == routed[0] else "NoRouteCreated" for name in ("n1", "n2")}


def test_changed_address_replaces_the_route(make_cluster: Callable[..., SimulatedCluster]) -> None:
    cloud = FakeCloud()
    cloud.routes = FakeRoutes(to_addresses=True)
    cluster = start(make_cluster, cloud)
    cluster.create(NODES, TWO[0])
    cluster.run_for(11.0)
    moved = routed_node("n1", address="192.0.2.77")["status"]["addresses"]
    cluster.merge(NODES, "n1", {"status": {"addresses": moved}}, subresource="status")
    cluster.run_for(11.0)
    (route,) = cloud.routes.list(CLUSTER)
    assert route.addresses == frozenset([("InternalIP", "192.0.2.77")])
    times = {type(call): when for when, call in cluster.calls.made}
    assert times[CreateRoute] >= times[DeleteRoute] + cluster.calls.latency, "the old route is deleted first"


def test_new_node_of_the_same_name_waits_for_its_own_route(make_cluster: Callable[..., SimulatedCluster]) -> None:
    cloud = FakeCloud()
    cluster = start(make_cluster, cloud)
    cluster.run_for(1.0)
    cluster.calls.latency = 8.0
    cluster.create(NODES, TWO[0])
    cluster.run_for(20.0)
    assert any(isinstance(call, CreateRoute) for _, call in cluster.calls.made)
    cluster.delete(NODES, "n1")
    cluster.create(NODES, routed_node("n1", "10.120.7.0/24"))
    cluster.run_for(8.0)
    assert condition(cluster, "n1") is None


def test_stale_table_does_not_remove_routes_of_existing_nodes(
    make_cluster: Callable[..., SimulatedCluster],
) -> None:
    """Regression test: a restarted manager received a stale list of nodes, and deleted routes.

    Found by the simulation campaign with the setting `nodes`.
    """
    cloud = FakeCloud()
    crash = Fault(kind=FaultKind.PROCESS_CRASHED, start=20.0, until=21.0, process="manager")
    stale = Fault(kind=FaultKind.LIST_STALE, start=21.0, until=60.0, seconds=20.0)
    cluster = make_cluster(cloud=cloud, faults=[crash, stale])
    options = options_of("--cloud-provider=fake", "--cluster-cidr=10.120.0.0/16", "--route-reconciliation-period=10s")
    cluster.manager(controllers=[SPEC], options=options)
    cluster.run_for(5.0)
    cluster.create(NODES, TWO[0])
    cluster.create(NODES, TWO[1])
    cluster.run_for(10.0)
    cluster.delete(NODES, "n2")
    cluster.run_for(12.0)
    assert routes(cloud) == {("n1", "10.120.0.0/24")}
    deleted = [decode_route(call.route).node for _, call in cluster.calls.made if isinstance(call, DeleteRoute)]
    assert deleted == ["n2"]


@pytest.mark.parametrize("status", [500, 503])
def test_route_of_unreadable_node_is_kept(make_cluster: Callable[..., SimulatedCluster], status: int) -> None:
    cloud = FakeCloud()
    unread = Fault(kind=FaultKind.COMMAND_ANSWERED, start=0.0, until=30.0, status=status, resource="nodes", object="n1")
    cluster = make_cluster(cloud=cloud, faults=[unread])
    cloud.routes.create(CLUSTER, "hint", to("n1", "10.120.0.0/24"))
    options = options_of("--cloud-provider=fake", "--cluster-cidr=10.120.0.0/16", "--route-reconciliation-period=10s")
    cluster.manager(controllers=[SPEC], options=options)
    cluster.run_for(29.0)
    assert routes(cloud) == {("n1", "10.120.0.0/24")}
    cluster.run_for(15.0)
    assert routes(cloud) == set()


def test_cloud_without_routes_is_queried_once(make_cluster: Callable[..., SimulatedCluster]) -> None:
    cloud = FakeCloud()
    cloud.routes = None  # type: ignore[assignment]
    cluster = start(make_cluster, cloud)
    cluster.run_for(60.0)
    assert len(cluster.calls.made) == 1


def test_passes_are_scheduled_from_their_start(make_cluster: Callable[..., SimulatedCluster]) -> None:
    cloud = FakeCloud()
    cluster = make_cluster(cloud=cloud)
    options = options_of("--cloud-provider=fake", "--cluster-cidr=10.120.0.0/16", "--route-reconciliation-period=10s")
    system = cluster.manager(controllers=[SPEC], options=options)
    cluster.calls.latency = 4.0
    cluster.run_for(65.0)
    began = [when for when, _ in cluster.calls.made]
    assert [round(later - first) for first, later in pairwise(began)] == [10] * 6
    assert system.metrics.counter(ROUTE_SYNCS).value == len(began)


# With the gate CloudControllerManagerWatchBasedRoutesReconciliation.


class WatchBased:
    """Simulated cluster with the feature gate for routes that follow watch events of nodes."""

    def __init__(self, make_cluster: Callable[..., SimulatedCluster], cloud: FakeCloud) -> None:
        self.cluster = make_cluster(cloud=cloud)
        options = options_of(
            "--cloud-provider=fake",
            "--cluster-cidr=10.120.0.0/16",
            "--route-reconciliation-period=10s",
            "--feature-gates=CloudControllerManagerWatchBasedRoutesReconciliation=true",
        )
        self.cluster.manager(controllers=[SPEC], options=options)

    def passes(self) -> list[int]:
        """Return the virtual seconds at which the cloud's routes were listed."""
        return [round(when) for when, call in self.cluster.calls.made if isinstance(call, ListRoutes)]


def test_events_of_nodes_start_passes_at_most_every_10_seconds(make_cluster: Callable[..., SimulatedCluster]) -> None:
    cloud = FakeCloud()
    scene = WatchBased(make_cluster, cloud)
    scene.cluster.run_for(100.0)
    assert scene.passes() == [], "no nodes exist"
    scene.cluster.create(NODES, TWO[0])
    scene.cluster.run_for(3.0)
    assert (scene.passes(), routes(cloud)) == ([100], {("n1", "10.120.0.0/24")})
    assert condition(scene.cluster, "n1") == ("False", "RouteCreated", "RouteController created a route")
    scene.cluster.create(NODES, TWO[1])
    scene.cluster.run_for(3.0)
    assert routes(cloud) == {("n1", "10.120.0.0/24")}
    scene.cluster.run_for(100.0)
    assert scene.passes() == [100, 110]
    assert len(routes(cloud)) == 2


def test_only_changes_of_ranges_and_addresses_start_a_pass(make_cluster: Callable[..., SimulatedCluster]) -> None:
    scene = WatchBased(make_cluster, FakeCloud())
    scene.cluster.create(NODES, TWO[0])
    scene.cluster.run_for(100.0)
    assert scene.passes() == [0]
    scene.cluster.merge(NODES, "n1", {"metadata": {"labels": {"a": "b"}}})
    scene.cluster.run_for(100.0)
    assert scene.passes() == [0]
    addresses = [{"type": "InternalIP", "address": "10.0.0.9"}]
    scene.cluster.merge(NODES, "n1", {"status": {"addresses": addresses}}, subresource="status")
    scene.cluster.run_for(100.0)
    assert scene.passes() == [0, 200]
    scene.cluster.delete(NODES, "n1")
    scene.cluster.run_for(100.0)
    assert scene.passes() == [0, 200, 300]


def test_failed_pass_is_repeated_after_10_seconds(make_cluster: Callable[..., SimulatedCluster]) -> None:
    cloud = FakeCloud()
    cloud.routes = RefusingRoutes(2, RuntimeError("quota"))
    scene = WatchBased(make_cluster, cloud)
    scene.cluster.create(NODES, TWO[0])
    scene.cluster.run_for(100.0)
    assert scene.passes() == [0, 10, 20]
    assert routes(cloud) == {("n1", "10.120.0.0/24")}
