"""Endpoint hints for a Service with spec.trafficDistribution: clients prefer endpoints in their own zone or node.

Source: kubernetes v1.36 staging/src/k8s.io/endpointslice/trafficdist/trafficdist.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kcm.actors.controllers.network.endpointslice.slice_plan import SlicePlan
from kcm.actors.controllers.network.shared.slices import Endpoint
from kcm.protocols.objects import Object

SAME_NODE = "PreferSameNode"
KNOWN = ("PreferClose", "PreferSameZone", SAME_NODE)

Hints = dict[str, Any]


def is_ready(endpoint: Endpoint) -> bool:
    return (endpoint.get("conditions") or {}).get("ready") is True


def add_proximity_hints(plan: SlicePlan, distribution: str) -> None:
    """Set the hints of all ready endpoints to the endpoint's own zone and, for PreferSameNode, its own node.

    Slices whose hints change are moved from plan.unchanged to plan.update.
    """

    def wanted(endpoint: Endpoint) -> Hints:
        hints: Hints = {}
        if endpoint.get("zone") is not None:
            hints["forZones"] = [{"name": endpoint["zone"]}]
        if distribution == SAME_NODE and endpoint.get("nodeName") is not None:
            hints["forNodes"] = [{"name": endpoint["nodeName"]}]
        return hints

    def differs(slice_: Object) -> bool:
        endpoints = slice_.get("endpoints") or ()
        return any(is_ready(endpoint) and _parts(endpoint.get("hints")) != wanted(endpoint) for endpoint in endpoints)

    move_to_update(plan, differs)
    for slice_ in (*plan.create, *plan.update):
        slice_["endpoints"] = [
            hinted(endpoint, wanted(endpoint) or None) if is_ready(endpoint) else endpoint
            for endpoint in slice_["endpoints"]
        ]


def remove_hints(plan: SlicePlan) -> None:
    """Remove the hints of all endpoints in the plan. Slices that have hints are moved from unchanged to update."""
    move_to_update(
        plan, lambda slice_: any(endpoint.get("hints") is not None for endpoint in slice_.get("endpoints") or ())
    )
    for slice_ in (*plan.create, *plan.update):
        slice_["endpoints"] = [hinted(endpoint, None) for endpoint in slice_["endpoints"]]


def move_to_update(plan: SlicePlan, differs: Callable[[Object], bool]) -> None:
    """Move EndpointSlices from plan.unchanged to plan.update, as copies that may be modified.

    differs: function that returns True for the slices to move.
    """
    moved = [slice_ for slice_ in plan.unchanged if differs(slice_)]
    if moved:
        plan.unchanged = [slice_ for slice_ in plan.unchanged if all(slice_ is not candidate for candidate in moved)]
        plan.update += [{**slice_, "endpoints": list(slice_.get("endpoints") or ())} for slice_ in moved]


def hinted(endpoint: Endpoint, hints: Hints | None) -> Endpoint:
    """Return a copy of the endpoint with these hints; None removes its hints. An equal endpoint is not copied."""
    if endpoint.get("hints") == hints:
        return endpoint
    bare = {name: value for name, value in endpoint.items() if name != "hints"}
    return bare if hints is None else {**bare, "hints": hints}


def _parts(hints: Hints | None) -> Hints:
    return {name: value for name, value in (hints or {}).items() if value}
