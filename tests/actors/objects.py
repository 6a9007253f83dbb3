"""Pods, and refusals of the server, for tests that run reconcilers by hand (actors/simulation/driving.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actors.simulation.driving import NOW
from protocols.messages.outcomes import Forbidden
from protocols.objects import Object, encode_object
from protocols.times import format_time

QUOTA_EXCEEDED = Forbidden('pods "web-" is forbidden: exceeded quota: small')
NAMESPACE_TERMINATING = Forbidden(
    'pods "web-" is forbidden: unable to create new content in namespace default because it is being terminated',
    encode_object(
        {"kind": "Status", "status": "Failure", "details": {"causes": [{"reason": "NamespaceTerminating"}]}},
    ),
)


def pod(
    name: str,
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    owner: Object | None = None,
    phase: str = "Running",
    node: str = "n1",
    ready: bool = True,
    ready_since: float | None = NOW - 3600,
    created: float | None = NOW - 7200,
    **meta: Any,
) -> Object:
    """A pod; ready ones have been so for an hour. owner: an ownerReference. meta: further metadata."""
    condition: Object = {"type": "Ready", "status": "True" if ready else "False"}
    if ready_since is not None:
        condition["lastTransitionTime"] = format_time(ready_since)
    metadata: Object = {"name": name, "namespace": namespace, **meta}
    if labels is not None:
        metadata["labels"] = dict(labels)
    if created is not None:
        metadata["creationTimestamp"] = format_time(created)
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    return {
        "metadata": metadata,
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": phase, "conditions": [condition]},
    }
