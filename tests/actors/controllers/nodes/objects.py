"""Helpers of the node tests: change nodes and pods, and return the requests and events about them."""

from __future__ import annotations

from typing import Any, NamedTuple

from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import Object, decode_object
from kcm.protocols.resources import EVENTS, NODES, PODS


def set_taints(cluster: SimulatedCluster, name: str, *taints: Object) -> None:
    cluster.merge(NODES, name, {"spec": {"taints": list(taints)}})


def set_phase(cluster: SimulatedCluster, name: str, phase: str, **status: Any) -> None:
    cluster.merge(PODS, f"default/{name}", {"status": {"phase": phase, **status}}, subresource="status")


class Sent(NamedTuple):
    """Write request that the API server has received.

    at: virtual seconds.
    what: method and path, like "PATCH pods/p1/status".
    """

    at: float
    what: str
    body: Object


def writes(cluster: SimulatedCluster, *, client: str, since: float = 0.0) -> list[Sent]:
    """Return the write requests of a client, without those that create events."""
    return [
        Sent(at - since, f"{request.method} {_short(request.path)}", decode_object(request.body))
        for at, who, request in cluster.transport.requests
        if who == client and request.method != "GET" and "/events" not in request.path
    ]


def _short(path: str) -> str:
    return path.removeprefix("/api/v1/").removeprefix("namespaces/default/")


def messages(cluster: SimulatedCluster, *, about: str) -> list[tuple[str, str, str]]:
    """Return the events about an object as (type, reason, message), each repeated by its count."""
    events = [event for event in cluster.list(EVENTS) if event["involvedObject"]["name"] == about]
    return [
        (event["type"], event["reason"], event["message"])
        for event in sorted(events, key=lambda event: event["firstTimestamp"])
        for _ in range(event.get("count", 1))
    ]
