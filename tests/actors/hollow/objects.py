"""Nodes and pods of a hollow cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kcm.actors.hollow.nodes.fleet import HollowNode, make_fleet
from kcm.actors.hollow.nodes.objects import new_node
from kcm.actors.hollow.scheduler.watches import PRIORITY_OF_UNASSIGNED
from kcm.actors.reconciliation.derived import PODS_BY_NODE
from kcm.actors.simulation.driver import NOW, Bench
from kcm.protocols.objects import Object
from kcm.protocols.resources import NODES, PODS
from tests.support.objects import owned_by, pod

FLEET = make_fleet(nodes=3, zones=2)


def hollow_node(name: str = "hollow-node-0", *, fleet: Mapping[str, HollowNode] = FLEET, **changes: Any) -> Object:
    """Build a node as it registers itself. changes: annotations and labels to add; spec and allocatable to replace."""
    made = new_node(fleet[name], now=NOW - 3600)
    made["metadata"]["annotations"].update(changes.get("annotations", {}))
    made["metadata"]["labels"].update(changes.get("labels", {}))
    made["spec"] = changes.get("spec", {})
    made["status"]["allocatable"] = {**made["status"]["allocatable"], **changes.get("allocatable", {})}
    return made


def nodes(fleet: Mapping[str, HollowNode] = FLEET) -> list[Object]:
    return [hollow_node(name, fleet=fleet) for name in fleet]


def unassigned(name: str = "web", *, requests: Mapping[str, str] | None = None, **spec: Any) -> Object:
    """Build a new pod with one container. spec: further fields; annotations and owner (a uid) are put into metadata."""
    owner = spec.pop("owner", None)
    container: Object = {"name": "web", "image": "nginx"}
    if requests is not None:
        container["resources"] = {"requests": dict(requests)}
    return pod(
        name,
        owner=None if owner is None else owned_by(owner),
        metadata={"annotations": spec.pop("annotations", {})},
        spec={"containers": [container], "restartPolicy": "Always", **spec},
        status={"phase": "Pending"},
    )


def bound(name: str = "web", *, to: str = "hollow-node-0", **spec: Any) -> Object:
    """Build a pod that was just bound to a node."""
    made = unassigned(name, **spec)
    made["spec"]["nodeName"] = to
    return made


def deleted(pod: Object, *, grace: int = 30, **metadata: Any) -> Object:
    """Return the pod after its deletion was requested."""
    stamps = {"deletionTimestamp": "2027-01-15T08:00:30Z", "deletionGracePeriodSeconds": grace, **metadata}
    return {**pod, "metadata": {**pod["metadata"], **stamps}}


def bench(*, pods: Iterable[Object] = (), nodes: Iterable[Object]) -> Bench:
    return Bench({PODS: pods, NODES: nodes}, indexes=(PODS_BY_NODE, PRIORITY_OF_UNASSIGNED))
