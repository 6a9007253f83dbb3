"""Builders of nodes with pod CIDRs, and of routes."""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.protocols.routes import Route
from tests.support.objects import node

CLUSTER = "kubernetes"


def routed_node(name: str, *cidrs: str, address: str = "192.0.2.1", conditions: tuple[Object, ...] = ()) -> Object:
    return node(
        name,
        spec={"podCIDR": cidrs[0], "podCIDRs": list(cidrs)} if cidrs else {},
        status={"addresses": [{"type": "InternalIP", "address": address}], "conditions": list(conditions)},
    )


def to(node: str, destination: str, **more: object) -> Route:
    return Route(destination=destination, node=node, **more)  # type: ignore[arg-type]


TWO = (routed_node("n1", "10.120.0.0/24"), routed_node("n2", "10.120.1.0/24"))
