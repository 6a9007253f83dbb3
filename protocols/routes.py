"""Routes of a cloud, each from a range of pod addresses to a node.

Source: kubernetes v1.36 staging/src/k8s.io/cloud-provider/cloud.go, Route.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from msgspec import Struct


class Route(Struct, frozen=True, kw_only=True):
    """Route of the cloud's route table.

    destination: a CIDR, spelled as in the node's podCIDR.
    node: the target node's name, "" if unknown.
    name: chosen by the cloud, "" before it has chosen one.
    blackhole: packets are dropped because the machine does not exist.
    addresses: the target's (type, address) pairs, as in a node's status.addresses, if the cloud routes to addresses;
        None if it routes to machines.
    """

    destination: str
    node: str
    name: str = ""
    blackhole: bool = False
    addresses: frozenset[tuple[str, str]] | None = None


def encode_route(route: Route) -> bytes:
    return orjson.dumps(_to_map(route))


def decode_route(raw: bytes) -> Route:
    return _from_map(orjson.loads(raw))


def encode_routes(routes: Iterable[Route]) -> bytes:
    return orjson.dumps([_to_map(route) for route in routes])


def decode_routes(raw: bytes) -> list[Route]:
    return [_from_map(each) for each in orjson.loads(raw)]


def _to_map(route: Route) -> dict[str, Any]:
    return {
        "destination": route.destination,
        "node": route.node,
        "name": route.name,
        "blackhole": route.blackhole,
        "addresses": None if route.addresses is None else sorted(route.addresses),
    }


def _from_map(each: Mapping[str, Any]) -> Route:
    addresses = each["addresses"]
    return Route(
        destination=each["destination"],
        node=each["node"],
        name=each["name"],
        blackhole=each["blackhole"],
        addresses=None if addresses is None else frozenset((type, address) for type, address in addresses),
    )
