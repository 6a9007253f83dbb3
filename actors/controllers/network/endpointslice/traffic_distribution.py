"""Hints that follow from a Service's trafficDistribution: each endpoint for its own zone, or its own node.

Source: kubernetes v1.36 staging/src/k8s.io/endpointslice/trafficdist/trafficdist.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kcm.actors.controllers.network.endpointslice.packing import Plan
from kcm.actors.controllers.network.shared.slices import Endpoint
from kcm.protocols.objects import Object

SAME_NODE = "PreferSameNode"
KNOWN = ("PreferClose", "PreferSameZone", SAME_NODE)

Hints = dict[str, Any]


def is_ready(endpoint: Endpoint) -> bool:
    return (endpoint.get("conditions") or {}).get("ready") is True


def hint_at_what_is_near(plan: Plan, distribution: str) -> None:
    """Give each ready endpoint the hints that this distribution asks for. Slices that lack them become updates."""

    def wanted(endpoint: Endpoint) -> Hints:
        hints: Hints = {}
        if endpoint.get("zone") is not None:
            hints["forZones"] = [{"name": endpoint["zone"]}]
        if distribution == SAME_NODE and endpoint.get("nodeName") is not None:
            hints["forNodes"] = [{"name": endpoint["nodeName"]}]
        return hints

    def differs(slice_: Object) -> bool:
        endpoints = slice_.get("endpoints") or ()
        return any(is_ready(one) and _parts(one.get("hints")) != wanted(one) for one in endpoints)

    move_to_update(plan, differs)
    for slice_ in (*plan.create, *plan.update):
        slice_["endpoints"] = [
            hinted(one, wanted(one) or None) if is_ready(one) else one for one in slice_["endpoints"]
        ]


def remove_hints(plan: Plan) -> None:
    """Slices that have some become updates."""
    move_to_update(plan, lambda slice_: any(one.get("hints") is not None for one in slice_.get("endpoints") or ()))
    for slice_ in (*plan.create, *plan.update):
        slice_["endpoints"] = [hinted(one, None) for one in slice_["endpoints"]]


def move_to_update(plan: Plan, differs: Callable[[Object], bool]) -> None:
    """Those of the unchanged slices of which this is true are to be written; copies of them."""
    moved = [slice_ for slice_ in plan.unchanged if differs(slice_)]
    if moved:
        plan.unchanged = [slice_ for slice_ in plan.unchanged if all(slice_ is not one for one in moved)]
        plan.update += [{**slice_, "endpoints": list(slice_.get("endpoints") or ())} for slice_ in moved]


def hinted(endpoint: Endpoint, hints: Hints | None) -> Endpoint:
    """A copy with these hints, or none."""
    if endpoint.get("hints") == hints:
        return endpoint
    bare = {name: value for name, value in endpoint.items() if name != "hints"}
    return bare if hints is None else {**bare, "hints": hints}


def _parts(hints: Hints | None) -> Hints:
    return {name: value for name, value in (hints or {}).items() if value}
