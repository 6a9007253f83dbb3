"""Computation of the routes to create and delete in the cloud, and of the nodes' condition NetworkUnavailable.

Source: kubernetes v1.36 staging/src/k8s.io/cloud-provider/controllers/route/route_controller.go, reconcile,
isResponsibleForRoute, updateNetworkingCondition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import ip_network

from msgspec import Struct

from kcm.actors.controllers.shared.cluster_ranges import Network, pod_cidrs
from kcm.protocols.conditions import find_condition, next_condition
from kcm.protocols.objects import Object, name_of
from kcm.protocols.routes import Route
from kcm.protocols.times import format_time

NETWORK_UNAVAILABLE = "NetworkUnavailable"


class RoutePlan(Struct, frozen=True, kw_only=True):
    """Routes to create in the cloud and to delete from it, so that each podCIDR of a node has one correct route."""

    # By node, the podCIDRs for which a correct route exists. A node with routes but without podCIDRs has an empty set.
    kept: dict[str, frozenset[str]]
    creations: list[Route]
    deletions: list[Route]
    deletions_first: bool  # send the deletions before the creations


def plan_routes(nodes: Iterable[Object], routes: Sequence[Route], clusters: Sequence[Network]) -> RoutePlan:
    """Compute the changes to the routes, so that each podCIDR of a node has one route with the node's addresses.

    routes: all existing routes of the cloud.
    clusters: value of --cluster-cidr. Routes outside of these networks are not managed by this controller.
    """
    by_node: dict[str, list[Route]] = {}
    for route in routes:
        if route.node:
            by_node.setdefault(route.node, []).append(route)
    kept: dict[str, frozenset[str]] = {name: frozenset() for name in by_node}
    creations, wanted, moved = [], set(), set()
    for node in nodes:
        name, addresses = name_of(node), addresses_of(node)
        correct = set()
        for destination in pod_cidrs(node):
            wanted.add((name, destination))
            existing = next((route for route in by_node.get(name, ()) if route.destination == destination), None)
            if existing is not None and existing.addresses in (None, addresses):
                correct.add(destination)
                continue
            if existing is not None:
                moved.add((name, destination))
            creations.append(Route(destination=destination, node=name, addresses=addresses))
        if pod_cidrs(node):
            kept[name] = frozenset(correct)
    deletions = [
        route
        for route in routes
        if is_ours(route, clusters)
        and (
            route.blackhole or (route.node, route.destination) not in wanted or (route.node, route.destination) in moved
        )
    ]
    deletions_first = bool(routes) and routes[0].addresses is not None
    return RoutePlan(kept=kept, creations=creations, deletions=deletions, deletions_first=deletions_first)


def is_ours(route: Route, clusters: Iterable[Network]) -> bool:
    """Report whether this controller manages a route (upstream: isResponsibleForRoute).

    It manages routes whose destination begins or ends within a cluster CIDR. False if the destination is invalid.
    """
    try:
        destination = ip_network(route.destination, strict=False)
    except ValueError:
        return False
    return any(
        cluster.version == destination.version
        and (destination.network_address in cluster or destination.broadcast_address in cluster)
        for cluster in clusters
    )


def addresses_of(node: Object) -> frozenset[tuple[str, str]]:
    addresses = (node.get("status") or {}).get("addresses") or ()
    return frozenset((address.get("type") or "", address.get("address") or "") for address in addresses)


def network_condition(node: Object, *, routed: bool, now: float) -> Object | None:
    """Return the condition NetworkUnavailable to write to a node; None if its status and reason are correct.

    A condition that another agent has written with another reason is replaced.

    routed: whether all podCIDRs of the node have routes.
    now: Unix seconds.
    """
    if routed:
        reason, message = "RouteCreated", "RouteController created a route"
    else:
        reason, message = "NoRouteCreated", "RouteController failed to create a route"
    status = "False" if routed else "True"
    known = find_condition((node.get("status") or {}).get("conditions"), NETWORK_UNAVAILABLE)
    if known is not None and known.get("status") == status and known.get("reason") == reason:
        return None
    written = next_condition(None, NETWORK_UNAVAILABLE, not routed, reason, message, now=now)
    return {**written, "lastHeartbeatTime": format_time(now)}
