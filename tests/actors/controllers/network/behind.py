"""Builders of pods and Services for the tests of endpoints."""

from __future__ import annotations

from typing import Any

from kcm.actors.simulation import objects
from kcm.protocols.objects import Object

READY = "2026-01-01T00:00:10Z"


def pod(
    name: str,
    *,
    ips: tuple[str, ...] = ("10.0.0.1",),
    ready: bool = True,
    phase: str = "Running",
    node: str = "n1",
    deleting: bool = False,
    labels: dict[str, str] | None = None,
    since: str = READY,
    **spec: Any,
) -> Object:
    """Return a pod; the Service web selects it unless its labels are replaced."""
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": since}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": labels if labels is not None else {"app": "web"},
            **({"deletionTimestamp": "2026-01-01T00:01:00Z"} if deleting else {}),
        },
        "spec": {"nodeName": node, "containers": [{"name": "c"}], **spec},
        "status": {"phase": phase, "conditions": [condition], "podIPs": [{"ip": ip} for ip in ips]},
    }


def service(name: str = "web", *, ports: list[Object] | None = None, **spec: Any) -> Object:
    """Return a Service with one port by default, and with a cluster IP unless the spec overrides it."""
    ports = [{"name": "", "port": 80, "protocol": "TCP", "targetPort": 8080}] if ports is None else ports
    own = {"clusterIP": "10.96.0.10", "ipFamilies": ["IPv4"], "selector": {"app": "web"}, "ports": ports, **spec}
    own = {field: value for field, value in own.items() if value is not None}
    return objects.service(name, metadata={"creationTimestamp": "2026-01-01T00:00:00Z"}, spec=own)
