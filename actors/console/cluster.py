"""Rows of the nodes by zone, and of the pods and rollouts over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
import orjson

from kcm.actors.console.states import with_instants
from kcm.actors.hollow.behaviour import SILENT
from kcm.protocols.nodes import NodeFacts
from kcm.protocols.objects import split_key
from kcm.protocols.resources import DAEMONSETS, DEPLOYMENTS, NODES, PODS, STATEFULSETS
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.entry import Entry
from kcm.runtime.tables.table import Table

MOST_NODES = 2000  # rows
MOST_ROLLOUTS = 200
POINTS_OF_ROW = 60  # samples of one row of points, of which only the newest row changes
MOST_POINT_ROWS = 30  # half an hour
PACE = 100  # a table is counted again after this multiple of the time that the count took, so at most 1 % of the time
SILENT_MARK = f'"{SILENT}":"true"'.encode()


class ZonesTopic:
    """Rows "zone/NAME" as GET /zones shows them, and "node/NAME"."""

    def __init__(self, zones: Callable[[], msgspec.Struct], tables: Mapping[str, Table], *, clock: Clock) -> None:
        """Create the topic. zones: returns the response to GET /zones."""
        self._zones, self._tables, self._clock = zones, tables, clock

    def sample(self) -> dict[str, Any]:
        rows: dict[str, Any] = {}
        for zone in msgspec.to_builtins(self._zones())["zones"]:
            if not zone["waiting"]:
                zone["nextInSeconds"] = None
            rows[f"zone/{zone['name']}"] = with_instants(zone, self._clock.now())
        table = self._tables.get(NODES.id)
        entries = table.entries() if table is not None else []
        for entry in sorted(entries, key=_node_order)[:MOST_NODES]:
            facts: NodeFacts = entry.facts
            rows[f"node/{entry.key}"] = {
                "name": entry.key,
                "zone": facts.zone,
                "ready": facts.ready or "Unknown",
                "since": facts.transitioned,
                "taints": sorted({*facts.no_schedule, *facts.no_execute}),
                "kubelet": facts.kubelet,
                "silent": is_silent(entry),
            }
        return rows


def is_silent(entry: Entry) -> bool:
    """Report whether the annotation for silence is set on a hollow node."""
    return SILENT_MARK in entry.raw


def _node_order(entry: Entry) -> tuple[bool, str, str]:
    facts: NodeFacts = entry.facts
    return facts.ready == "True", facts.zone, entry.key


class PodsTopic:
    """Rows "points/N" with samples, oldest first, and "rollout/KIND/NAMESPACE/NAME".

    A sample is [time, pods, ready, pending, deleting, failed, queued keys, reconciliations so far]. The samples begin
    with the first viewer, and end with the last one.
    """

    def __init__(self, tables: Mapping[str, Table], *, load: Callable[[], tuple[int, int]], clock: Clock) -> None:
        """Create the topic. load: returns the number of queued keys, and of reconciliations so far."""
        self._tables, self._load, self._clock = tables, load, clock
        self._points: dict[str, list[list[float]]] = {}  # by the row's id, oldest first
        self._number = 0
        self._counts: list[float] = [0, 0, 0, 0, 0]
        self._counted_version, self._next_count = -1, 0.0
        self._rollouts: dict[str, tuple[int, dict[str, Any]]] = {}  # version and row, by the row's id

    def sample(self) -> dict[str, Any]:
        now = self._clock.monotonic()
        pods = self._tables.get(PODS.id)
        if pods is not None and pods.version != self._counted_version and now >= self._next_count:
            self._counted_version = pods.version
            self._counts = pod_counts(pods.entries())
            self._next_count = self._clock.monotonic() + PACE * (self._clock.monotonic() - now)
        queued, reconciled = self._load()
        row_id = f"points/{self._number // POINTS_OF_ROW:09}"
        self._number += 1
        self._points.setdefault(row_id, []).append([round(self._clock.now(), 1), *self._counts, queued, reconciled])
        if len(self._points) > MOST_POINT_ROWS:
            del self._points[next(iter(self._points))]
        return self._points | self._rollout_rows()

    def _rollout_rows(self) -> dict[str, Any]:
        known, rows = self._rollouts, {}
        found: dict[str, tuple[int, dict[str, Any]]] = {}
        for resource, kind in ((DEPLOYMENTS, "Deployment"), (STATEFULSETS, "StatefulSet"), (DAEMONSETS, "DaemonSet")):
            table = self._tables.get(resource.id)
            for entry in table.entries() if table is not None else ():
                row_id = f"rollout/{kind}/{entry.key}"
                cached = known.get(row_id)
                if cached is None or cached[0] != entry.resource_version:
                    cached = entry.resource_version, rollout_row(kind, entry)
                found[row_id] = cached
        self._rollouts = found
        order = sorted(found, key=lambda row_id: (found[row_id][1]["done"], row_id))
        for row_id in order[:MOST_ROLLOUTS]:
            rows[row_id] = found[row_id][1]
        return rows


def pod_counts(entries: Iterable[Entry]) -> list[float]:
    """Return the numbers of pods: all, ready, pending, deleting, failed."""
    total = ready = pending = deleting = failed = 0
    for entry in entries:
        facts = entry.facts
        total += 1
        if facts.deleting:
            deleting += 1
        elif facts.ready:
            ready += 1
        elif facts.phase == "Pending":
            pending += 1
        elif facts.phase == "Failed":
            failed += 1
    return [total, ready, pending, deleting, failed]


def rollout_row(kind: str, entry: Entry) -> dict[str, Any]:
    """Return the progress of a workload, in the numbers of its status."""
    obj = orjson.loads(entry.raw)
    spec, status, meta = obj.get("spec") or {}, obj.get("status") or {}, obj.get("metadata") or {}
    if kind == "DaemonSet":
        wanted = status.get("desiredNumberScheduled", 0)
        updated, ready = status.get("updatedNumberScheduled", 0), status.get("numberReady", 0)
        available = status.get("numberAvailable", 0)
    else:
        replicas = spec.get("replicas")
        wanted = 1 if replicas is None else replicas
        updated, ready = status.get("updatedReplicas", 0), status.get("readyReplicas", 0)
        available = status.get("availableReplicas", 0)
    seen = status.get("observedGeneration", 0) >= meta.get("generation", 0)
    namespace, name = split_key(entry.key)
    return {
        "kind": kind,
        "namespace": namespace,
        "name": name,
        "wanted": wanted,
        "updated": updated,
        "ready": ready,
        "available": available,
        "done": bool(seen and updated >= wanted and available >= wanted),
    }
