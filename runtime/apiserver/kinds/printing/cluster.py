"""Nodes, namespaces, events, leases, and the small things that pods are given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from protocols.objects import Object, labels_of
from runtime.apiserver.kinds.printing.columns import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    Column,
    Printer,
    age_cell,
    condition,
    first_of,
    items,
    name_cell,
    part,
    since,
    wide,
)

_ROLE_PREFIX, _ROLE_LABEL = "node-role.kubernetes.io/", "kubernetes.io/role"


def node_cells(node: Object, now: float) -> list[Any]:
    status = part(node, "status")
    info = part(status, "nodeInfo")
    kernel = info.get("kernelVersion") or UNKNOWN
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        name_cell(node),
        _node_status(node),
        ",".join(_node_roles(labels_of(node))) or NONE,
        age_cell(node, now),
        info.get("kubeletVersion") or "",
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        kernel,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _node_status(node: Object) -> str:
    ready = condition(part(node, "status"), "Ready")
    words = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{words},SchedulingDisabled" if part(node, "spec").get("unschedulable") else words


def _node_roles(labels: Mapping[str, str]) -> list[str]:
    roles = {label.removeprefix(_ROLE_PREFIX) for label in labels if label.startswith(_ROLE_PREFIX)}
    roles.add(labels.get(_ROLE_LABEL, ""))
    return sorted(roles - {""})


def _address(status: Mapping[str, Any], type_: str) -> str:
    return first_of((one.get("address") for one in items(status, "addresses") if one.get("type") == type_), NONE)


def namespace_cells(namespace: Object, now: float) -> list[Any]:
    return [name_cell(namespace), part(namespace, "status").get("phase") or "", age_cell(namespace, now)]


def event_cells(event: Object, now: float) -> list[Any]:
    """An event of either API: events.k8s.io names the same fields otherwise."""
    first = since(_either(event, "firstTimestamp", "deprecatedFirstTimestamp") or event.get("eventTime"), now)
    last_seen = _either(event, "lastTimestamp", "deprecatedLastTimestamp")
    last = since(last_seen, now) if last_seen else first
    count, series = _either(event, "count", "deprecatedCount") or 1, event.get("series")
    if series is not None:
        last, count = since(series.get("lastObservedTime"), now), series.get("count") or 0
    involved = _either(event, "involvedObject", "regarding") or {}
    target = (involved.get("kind") or "").lower()
    if involved.get("name"):
        target += f"/{involved['name']}"
    return [
        last,
        event.get("type") or "",
        event.get("reason") or "",
        target,
        involved.get("fieldPath") or "",
        _event_source(event),
        (_either(event, "message", "note") or "").strip(),
        first,
        count,
        name_cell(event),
    ]


def _either(event: Object, name: str, other: str) -> Any:
    return event.get(name) or event.get(other)


def _event_source(event: Object) -> str:
    source = _either(event, "source", "deprecatedSource") or {}
    component = source.get("component") or _either(event, "reportingComponent", "reportingController") or ""
    instance = source.get("host") or event.get("reportingInstance")
    return f"{component}, {instance}" if instance else component


def lease_cells(lease: Object, now: float) -> list[Any]:
    return [name_cell(lease), part(lease, "spec").get("holderIdentity") or "", age_cell(lease, now)]


def lease_candidate_cells(candidate: Object, now: float) -> list[Any]:
    spec = part(candidate, "spec")
    words = [spec.get(what) or "" for what in ("leaseName", "binaryVersion", "emulationVersion")]
    return [name_cell(candidate), *words, age_cell(candidate, now)]


def config_map_cells(config_map: Object, now: float) -> list[Any]:
    count = len(config_map.get("data") or ()) + len(config_map.get("binaryData") or ())
    return [name_cell(config_map), count, age_cell(config_map, now)]


def secret_cells(secret: Object, now: float) -> list[Any]:
    return [name_cell(secret), secret.get("type") or "", len(secret.get("data") or ()), age_cell(secret, now)]


def component_status_cells(component: Object, now: float) -> list[Any]:  # noqa: ARG001
    healthy = condition(component, "Healthy")
    if healthy is None:
        return [name_cell(component), "Unknown", "", ""]
    words = "Healthy" if healthy.get("status") == "True" else "Unhealthy"
    return [name_cell(component), words, healthy.get("message") or "", healthy.get("error") or ""]


NODE = Printer(
    (
        NAME,
        Column("Status"),
        Column("Roles"),
        AGE,
        Column("Version"),
        wide("Internal-IP"),
        wide("External-IP"),
        wide("OS-Image"),
        wide("Kernel-Version"),
        wide("Container-Runtime"),
    ),
    node_cells,
)
NAMESPACE = Printer((NAME, Column("Status"), AGE), namespace_cells)
EVENT = Printer(
    (
        Column("Last Seen"),
        Column("Type"),
        Column("Reason"),
        Column("Object"),
        wide("Subobject"),
        wide("Source"),
        Column("Message"),
        wide("First Seen"),
        wide("Count"),
        Column("Name", format="name", priority=1),
    ),
    event_cells,
)
LEASE = Printer((NAME, Column("Holder"), AGE), lease_cells)
LEASE_CANDIDATE = Printer(
    (NAME, Column("LeaseName"), Column("BinaryVersion"), Column("EmulationVersion"), AGE), lease_candidate_cells
)
CONFIG_MAP = Printer((NAME, Column("Data"), AGE), config_map_cells)
SECRET = Printer((NAME, Column("Type"), Column("Data"), AGE), secret_cells)
COMPONENT_STATUS = Printer((NAME, Column("Status"), Column("Message"), Column("Error")), component_status_cells)
