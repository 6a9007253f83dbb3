"""Nodes and pods, as small as they may be, and what was asked of the server about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from actors.simulation import SimulatedCluster
from protocols.objects import Object, decode_object
from protocols.resources import EVENTS, NODES, PODS


def node(name: str = "n1", *, taints: Sequence[Object] = (), ready: str | None = None, **spec: Any) -> Object:
    status = {} if ready is None else {"conditions": [{"type": "Ready", "status": ready}]}
    return {"metadata": {"name": name}, "spec": {"taints": list(taints), **spec}, "status": status}


def taint(key: str = "drain", effect: str = "NoExecute", **more: Any) -> Object:
    return {"key": key, "effect": effect, **more}


def toleration(key: str = "drain", seconds: int | None = None, **more: Any) -> Object:
    limit = {} if seconds is None else {"tolerationSeconds": seconds}
    return {"key": key, "operator": "Exists", "effect": "NoExecute", **limit, **more}


def pod(name: str = "p1", *, node: str = "n1", tolerations: Sequence[Object] = (), **meta: Any) -> Object:
    return {
        "metadata": {"name": name, "namespace": "default", **meta},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "tolerations": list(tolerations),
            **({"nodeName": node} if node else {}),
        },
    }


def set_taints(cluster: SimulatedCluster, name: str, *taints: Object) -> None:
    cluster.merge(NODES, name, {"spec": {"taints": list(taints)}})


def set_phase(cluster: SimulatedCluster, name: str, phase: str, **status: Any) -> None:
    cluster.merge(PODS, f"default/{name}", {"status": {"phase": phase, **status}}, subresource="status")


class Sent(NamedTuple):
    """One write that was asked of the server. at: virtual seconds; what: "PATCH pods/p1/status"."""

    at: float
    what: str
    body: Object


def writes(cluster: SimulatedCluster, *, client: str, since: float = 0.0) -> list[Sent]:
    """All but events, which are written in the same clients' names."""
    return [
        Sent(at - since, f"{request.method} {_short(request.path)}", decode_object(request.body))
        for at, who, request in cluster.transport.requests
        if who == client and request.method != "GET" and "/events" not in request.path
    ]


def _short(path: str) -> str:
    return path.removeprefix("/api/v1/").removeprefix("namespaces/default/")


def messages(cluster: SimulatedCluster, *, about: str) -> list[tuple[str, str, str]]:
    """(type, reason, message) of the events on the object of this name, each as often as it happened."""
    events = [event for event in cluster.list(EVENTS) if event["involvedObject"]["name"] == about]
    return [
        (event["type"], event["reason"], event["message"])
        for event in sorted(events, key=lambda event: event["firstTimestamp"])
        for _ in range(event.get("count", 1))
    ]
