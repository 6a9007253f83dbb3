"""Writes that planned faults make to a cluster. They bypass the faulty transport, as other clients of the server do.

Nodes become silent by an annotation that hollow kubelets obey; a lease is stolen by writing its holder.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from kcm.actors.hollow.behaviour import SILENT
from kcm.protocols.objects import Object, encode_object, labels_of, name_of
from kcm.protocols.resources import LEASES, NODES, resource_path
from kcm.protocols.times import format_micro_time
from kcm.runtime.client.api import Request
from kcm.runtime.faults.vocabulary import Fault, FaultKind

ZONE = "topology.kubernetes.io/zone"
THIEF = "somebody-else"
SHORTEST_FLAP = 0.1  # seconds
TIMEOUT = 10.0  # seconds


def concerns(fault: Fault, node: Object) -> bool:
    what = labels_of(node).get(ZONE, "") if fault.kind is FaultKind.ZONE_SILENT else name_of(node)
    return fnmatchcase(what, fault.object)


def silence(node: str, *, silent: bool) -> Request:
    """Return the request that sets or removes a node's annotation for silence. node: its name."""
    annotations = {SILENT: "true" if silent else None}
    return _merge(resource_path(NODES.id, "", node), {"metadata": {"annotations": annotations}})


def theft(fault: Fault, lease: tuple[str, str], *, now: float) -> Request:
    """Return the request that gives a Lease to another holder. lease: namespace and name. now: Unix seconds."""
    spec = {
        "holderIdentity": THIEF,
        "leaseDurationSeconds": max(1, int(fault.seconds)),
        "renewTime": format_micro_time(now),
    }
    return _merge(resource_path(LEASES.id, *lease), {"spec": spec})


def _merge(path: str, body: Object) -> Request:
    content_type = "application/merge-patch+json"
    return Request(method="PATCH", path=path, body=encode_object(body), content_type=content_type, timeout=TIMEOUT)
