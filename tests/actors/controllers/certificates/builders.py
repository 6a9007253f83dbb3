"""Builders of CertificateSigningRequests."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from kcm.actors.simulation.driver import NOW
from kcm.protocols.objects import Object
from kcm.protocols.times import format_time
from kcm.runtime.simulation.keys import request_pem

KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
NODE, NODES = "system:node:n1", "system:nodes"
CLIENT_USAGES = ("digital signature", "key encipherment", "client auth")
SERVING_USAGES = ("digital signature", "key encipherment", "server auth")


def condition(kind: str, *, age: float = 60.0, status: str = "True") -> dict[str, Any]:
    time = format_time(NOW - age)
    return {"type": kind, "status": status, "lastUpdateTime": time, "lastTransitionTime": time}


def csr(
    name: str = "r",
    *,
    pem: bytes | None = None,
    signer: str = KUBELET_CLIENT,
    usages: Iterable[str] = CLIENT_USAGES,
    user: str = NODE,
    conditions: Iterable[dict[str, Any]] = (),
    certificate: bytes = b"",
    age: float = 60.0,
    **spec: Any,
) -> Object:
    """Return a CertificateSigningRequest; by default from a kubelet that renews its client certificate."""
    status: dict[str, Any] = {}
    if conditions := list(conditions):
        status["conditions"] = conditions
    if certificate:
        status["certificate"] = base64.b64encode(certificate).decode()
    content = request_pem(NODE, NODES) if pem is None else pem
    return {
        "metadata": {"name": name, "creationTimestamp": format_time(NOW - age)},
        "spec": {
            "request": base64.b64encode(content).decode(),
            "signerName": signer,
            "usages": list(usages),
            "username": user,
            **spec,
        },
        "status": status,
    }
