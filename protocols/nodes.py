"""Facts about nodes and their leases, the taints that kcm manages, and zones.

An informer's table derives NodeFacts and LeaseFacts once per version of an object (`entry.facts`), so that a pass over
thousands of nodes decodes no object.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from msgspec import Struct

from kcm.protocols.bounded_cache import bounded_cache
from kcm.protocols.objects import Object, shared_json
from kcm.protocols.times import parse_time

LEASE_NAMESPACE = "kube-node-lease"

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "NoExecute"

# (condition type, status) → key of the NoSchedule taint that a node gets for it.
# Source: kubernetes v1.36 node_lifecycle_controller.go, nodeConditionToTaintKeyStatusMap.
CONDITION_TAINTS: Mapping[tuple[str, str], str] = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
NO_SCHEDULE_KEYS = frozenset(CONDITION_TAINTS.values()) | {UNSCHEDULABLE}
NO_EXECUTE_KEYS = frozenset({NOT_READY, UNREACHABLE})
EXCLUDE_DISRUPTION = "node.kubernetes.io/exclude-disruption"  # a label: the node is not counted in its zone's state
EXCLUDE_BALANCERS = "node.kubernetes.io/exclude-from-external-load-balancers"  # a label
LEAVING = "ToBeDeletedByClusterAutoscaler"  # a taint, of any effect
OUT_OF_SERVICE_TAINT = "node.kubernetes.io/out-of-service"  # a taint, of any effect
CONTROLLER_ATTACHES = "volumes.kubernetes.io/controller-managed-attach-detach"  # an annotation, with any value
_FALSE = ("0", "f", "F", "false", "FALSE", "False")  # Go's strconv.ParseBool; an invalid value counts as true

_ZONE_LABELS = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_REGION_LABELS = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")


class NodeFacts(Struct, frozen=True, kw_only=True):
    """Facts of one version of a node.

    zone: see zone_of.
    excluded: the node is not counted in its zone's state.
    ready: the status of its condition Ready, None without that condition.
    heartbeat, transitioned: lastHeartbeatTime and lastTransitionTime of the condition Ready, as text.
    no_schedule, no_execute: keys of its taints of that effect, among those that kcm manages.
    wanted_no_schedule: keys of the NoSchedule taints that its conditions require.
    no_execute_taints: all NoExecute taints as JSON, for comparison.
    kubelet: the kubelet's version, "v1.36.0".
    topology_zone: the label topology.kubernetes.io/zone alone.
    provider_id: spec.providerID.
    balancer_excluded: a label excludes the node from load balancers.
    balancer_leaving: the node is being deleted, or will be soon by the cluster autoscaler.
    placement: name, labels and taints as JSON, for comparison: everything that can permanently exclude pods from the
        node.
    attaches_for: the attach/detach controller attaches the volumes of its pods, not its kubelet.
    out_of_service: it has the taint out-of-service, of any effect.
    volumes_in_use: unique names of the volumes that its kubelet has mounted or may mount.
    volumes_attached: unique names of the volumes that are reported as attached.
    """

    uid: str
    zone: str
    excluded: bool
    ready: str | None
    heartbeat: str | None
    transitioned: str | None
    no_schedule: frozenset[str]
    wanted_no_schedule: frozenset[str]
    no_execute: frozenset[str]
    no_execute_taints: bytes
    kubelet: str
    topology_zone: str = ""
    provider_id: str = ""
    balancer_excluded: bool = False
    balancer_leaving: bool = False
    placement: bytes = b""
    attaches_for: bool = False
    out_of_service: bool = False
    volumes_in_use: tuple[str, ...] = ()
    volumes_attached: tuple[str, ...] = ()


class LeaseFacts(Struct, frozen=True):
    """Facts of one version of a node's lease.

    renewed: spec.renewTime, Unix seconds by the holder's clock; None if it was never renewed.
    """

    renewed: float | None


def node_facts(node: Object) -> NodeFacts:
    """Derive the facts of one version. A missing field has its zero value.

    Raises ValueError that names the field whose type is wrong.
    """
    meta, spec, status = (_map(node.get(part), part) for part in ("metadata", "spec", "status"))
    labels = _map(meta.get("labels"), "metadata.labels")
    conditions = _maps(status.get("conditions"), "status.conditions")
    ready: Mapping[str, Any] | None = None
    wanted = []
    for condition in conditions:
        type, value = condition.get("type"), condition.get("status")
        if type == "Ready" and ready is None:
            ready = condition
        if isinstance(type, str) and isinstance(value, str) and (type, value) in CONDITION_TAINTS:
            wanted.append(CONDITION_TAINTS[type, value])
    if spec.get("unschedulable"):
        wanted.append(UNSCHEDULABLE)
    taints = _maps(spec.get("taints"), "spec.taints")
    node_info = _map(status.get("nodeInfo"), "status.nodeInfo")
    in_use, attached = status.get("volumesInUse"), status.get("volumesAttached")
    return NodeFacts(
        uid=meta.get("uid") or "",
        zone=sys.intern(zone_of(labels)),
        excluded=EXCLUDE_DISRUPTION in labels,
        ready=None if ready is None else sys.intern(_text(ready.get("status"), "status.conditions[Ready].status")),
        heartbeat=None if ready is None else ready.get("lastHeartbeatTime"),
        transitioned=None if ready is None else ready.get("lastTransitionTime"),
        no_schedule=_shared(taint_keys(taints, NO_SCHEDULE) & NO_SCHEDULE_KEYS),
        wanted_no_schedule=_shared(frozenset(wanted)),
        no_execute=_shared(taint_keys(taints, NO_EXECUTE) & NO_EXECUTE_KEYS),
        no_execute_taints=shared_json([taint for taint in taints if taint.get("effect") == NO_EXECUTE] or None),
        kubelet=sys.intern(_text(node_info.get("kubeletVersion"), "status.nodeInfo.kubeletVersion")),
        topology_zone=sys.intern(_text(labels.get(_ZONE_LABELS[1]), f"label {_ZONE_LABELS[1]}")),
        provider_id=_text(spec.get("providerID"), "spec.providerID"),
        balancer_excluded=labels.get(EXCLUDE_BALANCERS, "false") not in _FALSE,
        balancer_leaving=bool(meta.get("deletionTimestamp")) or any(taint.get("key") == LEAVING for taint in taints),
        placement=orjson.dumps([meta.get("name") or "", labels, taints]),
        attaches_for=CONTROLLER_ATTACHES in _map(meta.get("annotations"), "metadata.annotations"),
        out_of_service=any(taint.get("key") == OUT_OF_SERVICE_TAINT for taint in taints),
        volumes_in_use=_texts(in_use, "status.volumesInUse") if in_use else (),
        volumes_attached=_names(attached, "status.volumesAttached") if attached else (),
    )


def has_out_of_service_taint(node: Mapping[str, Any]) -> bool:
    """Report whether a Node has the taint out-of-service, of any effect."""
    taints = (node.get("spec") or {}).get("taints") or ()
    return any(taint.get("key") == OUT_OF_SERVICE_TAINT for taint in taints)


def lease_facts(lease: Object) -> LeaseFacts:
    """Derive the facts of one version. Raises ValueError if renewTime is not a time."""
    renewed = _map(lease.get("spec"), "spec").get("renewTime")
    return LeaseFacts(None if renewed is None else parse_time(renewed))


def zone_of(labels: Mapping[str, Any]) -> str:
    """Return the zone of a node with these labels, "region:zone", or "" without either label.

    The older label takes precedence over the newer one, even if it is empty. Source: component-helpers/node/topology,
    GetZoneKey; but without the NUL byte that upstream puts between colons, and so into labels of metrics.
    """
    region, zone = _first(labels, _REGION_LABELS), _first(labels, _ZONE_LABELS)
    return f"{region}:{zone}" if region or zone else ""


def taint_keys(taints: Iterable[Mapping[str, Any]], effect: str) -> frozenset[str]:
    """Return the keys of the taints of this effect."""
    return frozenset(taint.get("key") or "" for taint in taints if taint.get("effect") == effect)


@bounded_cache(256, longest=64)
def _shared(keys: frozenset[str]) -> frozenset[str]:
    """Share one set between all nodes whose keys are equal."""
    return keys


def _first(labels: Mapping[str, Any], names: Iterable[str]) -> str:
    for name in names:
        if name in labels:
            return _text(labels[name], f"label {name}")
    return ""


def _text(value: Any, what: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{what} is a string, got {value!r}")
    return value


def _map(value: Any, field: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{field} is a map, got {value!r}")
    return value


def _texts(value: Any, field: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"{field} is a list of strings, got {value!r}")
    return tuple(_text(text, field) for text in value)


def _names(value: Any, field: str) -> tuple[str, ...]:
    return tuple(_text(entry.get("name"), field) for entry in _maps(value, field))


def _maps(value: Any, field: str) -> list[Mapping[str, Any]]:
    if not value:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise ValueError(f"{field} is a list of maps, got {value!r}")
    return value
