"""Topology aware hints: the endpoints of a Service are allocated to zones in proportion to the CPUs of their nodes.

They are enabled by the annotation service.kubernetes.io/topology-mode: Auto.

Source: kubernetes v1.36 staging/src/k8s.io/endpointslice/topologycache/{topologycache,sliceinfo,utils,event}.go.
Differences: where upstream takes a random zone (the first of a Go map), the first zone by name is used; slices whose
hints do not change are not written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from kcm.actors.controllers.network.endpointslice.slice_plan import SlicePlan
from kcm.actors.controllers.network.endpointslice.traffic_distribution import (
    hinted,
    is_ready,
    move_to_update,
    remove_hints,
)
from kcm.actors.controllers.network.shared.slices import Endpoint
from kcm.protocols.messages.events import RecordType
from kcm.protocols.objects import Key, Object
from kcm.protocols.quantities import parse_quantity
from kcm.runtime.tables.lister import Lister

OVERLOAD = 0.2  # fraction by which the traffic of an endpoint may exceed its share
ZONE_LABEL = "topology.kubernetes.io/zone"
NOT_COUNTED = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
MODE, OLDER_MODE = "service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints"

ENABLED, DISABLED = "TopologyAwareHintsEnabled", "TopologyAwareHintsDisabled"
HAS_BEEN_ENABLED = "Topology Aware Hints has been enabled"
HAS_BEEN_DISABLED = "Topology Aware Hints has been disabled"
NO_ZONE = "One or more endpoints do not have a zone specified"
NONE_ALLOCATED = "No hints allocated for zones"
NODES_UNKNOWN = "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
TOO_FEW = "Insufficient number of endpoints"
NOT_IN_PROPORTION = "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold"

ByZone = dict[str, int]


class Notice(NamedTuple):
    """Event about the hints of a Service, which the reconciler records."""

    type: RecordType
    reason: str
    message: str


class ZoneAllocation(NamedTuple):
    """Minimum, maximum and desired number of endpoints that the hints of a Service may allocate to a zone."""

    minimum: int  # with fewer endpoints the zone would be overloaded
    maximum: int  # with more endpoints another zone could not have its minimum
    desired: float  # in proportion to the zone's CPUs


def is_auto(annotations: Mapping[str, str]) -> bool:
    """Report whether the annotations of a Service request topology aware hints.

    The annotation topology-aware-hints takes precedence over the newer topology-mode.
    """
    return annotations.get(OLDER_MODE, annotations.get(MODE, "")) in ("Auto", "auto")


class NodeShare(NamedTuple):
    """Allocatable CPUs of a node, and the zone that they count for."""

    counts: bool  # the node is ready and does not belong to the control plane
    zone: str  # "" if unknown
    cpu: Decimal  # allocatable CPUs; 0 if unknown


def share_of(node: Object) -> NodeShare:
    """Return the contribution of a node to the CPUs of its zone. Raises ValueError for an invalid CPU quantity."""
    labels = node["metadata"].get("labels") or {}
    status = node.get("status") or {}
    ready = next(
        (condition.get("status") for condition in status.get("conditions") or () if condition.get("type") == "Ready"),
        None,
    )
    counts = ready == "True" and not any(label in labels for label in NOT_COUNTED)
    cpu = (status.get("allocatable") or {}).get("cpu") or "0"
    return NodeShare(counts, labels.get(ZONE_LABEL) or "", parse_quantity(cpu))


def zone_ratios(shares: Iterable[NodeShare]) -> Mapping[str, float]:
    """Return the fraction of the cluster's CPUs in each zone.

    The result is empty, so that no hints are allocated, if there is only one zone, or if the zone or the CPUs of a node
    are unknown.
    """
    cpus: dict[str, Decimal] = {}
    for share in shares:
        if not share.counts:
            continue
        if not share.zone or not share.cpu:
            return {}
        cpus[share.zone] = cpus.get(share.zone, Decimal(0)) + share.cpu
    total = sum(cpus.values())
    if len(cpus) < 2 or not total:
        return {}
    return {zone: float(cpu / total) for zone, cpu in sorted(cpus.items())}


def allocations(ratios: Mapping[str, float], endpoints: int) -> dict[str, ZoneAllocation] | str:
    """Return the numbers of endpoints that hints may allocate to each zone. Source: getAllocations.

    If no allocation is possible, the result is the reason, as the text of an event.

    ratios: fraction of the CPUs in each zone.
    endpoints: number of ready endpoints.
    """
    if not ratios:
        return NODES_UNKNOWN
    counts = f" ({endpoints} endpoints, {len(ratios)} zones)"
    if len(ratios) > endpoints:
        return TOO_FEW + counts
    least = {zone: math.ceil(ratio * endpoints * (1 / (1 + OVERLOAD))) for zone, ratio in ratios.items()}
    spare = endpoints - sum(least.values())
    if spare < 0:
        return NOT_IN_PROPORTION + counts
    return {
        zone: ZoneAllocation(least[zone], least[zone] + spare, max(ratio * endpoints, float(least[zone])))
        for zone, ratio in ratios.items()
    }


def is_overloaded(allocated: Mapping[str, int], ratios: Mapping[str, float]) -> bool:
    """Report whether the hints allocate too few endpoints to one of the zones, compared with its CPUs.

    allocated: number of endpoints by zone.
    ratios: fraction of the CPUs in each zone.
    """
    if not allocated:
        return False
    if not ratios:
        return True
    total = sum(allocated.values())
    return any(
        zone not in allocated or allocated[zone] < math.ceil(total * ratio * (1 / (1 + OVERLOAD)))
        for zone, ratio in ratios.items()
    )


def exchanges(zones: Mapping[str, ZoneAllocation], allocated: Mapping[str, int]) -> tuple[ByZone, ByZone]:
    """Return how many endpoints each zone gives to other zones, and how many each zone receives.

    The exchange moves the number of endpoints of each zone towards its desired number.

    allocated: number of endpoints by zone before the exchange.

    Source: getGivingAndReceivingZones.
    """
    surplus = {zone: allocated.get(zone, 0) - allocation.desired for zone, allocation in zones.items()}
    giving = {zone: more for zone, more in surplus.items() if more > 0}
    receiving = {zone: -more for zone, more in surplus.items() if more < 0}
    given: ByZone = {}
    received: ByZone = {}
    while giving and receiving:
        giver, taker = _most(giving), _most(receiving)
        gives, takes = giving[giver], receiving[taker]
        if (gives < 1.0 and takes < 1.0) or gives < 0.5 or takes < 0.5:
            break
        given[giver] = given.get(giver, 0) + 1
        received[taker] = received.get(taker, 0) + 1
        giving[giver] -= 1
        receiving[taker] -= 1
    return given, received


def _most(zones: Mapping[str, float]) -> str:
    return max(sorted(zones), key=lambda zone: zones[zone])


class Topology:
    """Cache for topology aware hints: each zone's share of the cluster's CPUs, and the endpoints allocated to zones.

    Source: TopologyCache.
    """

    def __init__(self, nodes: Lister) -> None:
        self._nodes = nodes
        self._shares: dict[Key, tuple[int, NodeShare]] = {}
        self._ratios: Mapping[str, float] | None = None
        self._allocated: dict[Key, dict[str, ByZone]] = {}  # endpoints by zone, for each Service and address type
        self._hinting: set[Key] = set()

    def nodes_changed(self) -> list[Key]:
        """Recompute each zone's share of the cluster's CPUs, after a change of nodes.

        Returns the keys of the Services whose hints must be recomputed, because they leave a zone overloaded.
        """
        self._ratios = None
        if not self._allocated:
            return []
        ratios = self.ratios
        return [
            key
            for key, types in self._allocated.items()
            if any(is_overloaded(by_zone, ratios) for by_zone in types.values())
        ]

    @property
    def ratios(self) -> Mapping[str, float]:
        if self._ratios is None:
            before, self._shares = self._shares, {}
            for entry in self._nodes.entries():
                known = before.get(entry.key)
                if known is None or known[0] != entry.resource_version:
                    known = entry.resource_version, share_of(self._nodes.object_of(entry))
                self._shares[entry.key] = known
            self._ratios = zone_ratios(share for _, share in self._shares.values())
        return self._ratios

    def is_hinting(self, service: Key) -> bool:
        return service in self._hinting

    def forget(self, service: Key, address_type: str | None = None) -> None:
        """Remove a Service from the cache of allocated hints. address_type: None for all address types."""
        self._hinting.discard(service)
        types = self._allocated.get(service)
        if types is not None:
            types.pop(address_type, None) if address_type is not None else types.clear()
            if not types:
                del self._allocated[service]

    def add_hints(self, plan: SlicePlan, service: Key, address_type: str) -> list[Notice]:
        """Set the zone hints of all ready endpoints in the plan. Source: AddHints.

        If the endpoints cannot be allocated in proportion to the zones' CPUs, all hints are removed instead.
        Returns the events to record about the Service.
        """
        ready = sum(is_ready(endpoint) for slice_ in _all_slices(plan) for endpoint in slice_.get("endpoints") or ())
        zones = allocations(self.ratios, ready)
        if isinstance(zones, str):
            return self._disable(plan, service, address_type, zones)
        allocated, invalid = _check_hints(plan, zones)
        # This check precedes the moves to plan.update: a slice without hints may remain unchanged.
        for slice_ in (*plan.create, *plan.update, *invalid):
            for endpoint in slice_.get("endpoints") or ():
                if is_ready(endpoint):
                    if not endpoint.get("zone"):
                        return self._disable(plan, service, address_type, NO_ZONE)
                    allocated[endpoint["zone"]] = allocated.get(endpoint["zone"], 0) + 1
        move_to_update(plan, lambda slice_: any(slice_ is candidate for candidate in invalid))
        moved = plan.update[len(plan.update) - len(invalid) :]
        written = (*plan.create, *plan.update)
        given, received = exchanges(zones, allocated)
        for slice_ in written:
            slice_["endpoints"] = [
                hinted(endpoint, _for_zone(_hint_zone(endpoint["zone"], given, received, allocated)))
                if is_ready(endpoint)
                else endpoint
                for endpoint in slice_["endpoints"]
            ]
        if not allocated:
            return self._disable(plan, service, address_type, NONE_ALLOCATED)
        _keep_unchanged(plan, invalid, moved)
        self._allocated.setdefault(service, {})[address_type] = allocated
        if service in self._hinting:
            return []
        self._hinting.add(service)
        return [_notice("Normal", ENABLED, HAS_BEEN_ENABLED, address_type)]

    def remove_hints(self, service: Key, address_type: str) -> list[Notice]:
        """Remove a Service that does not request topology aware hints from the cache of allocated hints.

        Returns an event if the Service had such hints before.
        """
        notices = []
        if service in self._hinting:
            notices.append(_notice("Warning", DISABLED, HAS_BEEN_DISABLED, address_type))
        self.forget(service, address_type)
        return notices

    def _disable(self, plan: SlicePlan, service: Key, address_type: str, why: str) -> list[Notice]:
        self.forget(service, address_type)
        remove_hints(plan)
        return [_notice("Warning", DISABLED, why, address_type)]


def _keep_unchanged(plan: SlicePlan, before: Sequence[Object], moved: Sequence[Object]) -> None:
    """Move EndpointSlices whose hints have not changed from plan.update back to plan.unchanged.

    before: slices of the table; `moved` contains their copies in plan.update, in the same order.
    """
    for slice_, update in zip(before, moved, strict=True):
        if update["endpoints"] == (slice_.get("endpoints") or []):
            plan.update = [slice_ for slice_ in plan.update if slice_ is not update]
            plan.unchanged.append(slice_)


def _notice(type: RecordType, reason: str, message: str, address_type: str) -> Notice:
    return Notice(type, reason, f"{message}, addressType: {address_type}")


def _all_slices(plan: SlicePlan) -> Sequence[Object]:
    return (*plan.create, *plan.update, *plan.unchanged)


def _for_zone(zone: str) -> dict[str, Any]:
    return {"forZones": [{"name": zone}]}


def _hint_zone(zone: str, given: ByZone, received: ByZone, allocated: ByZone) -> str:
    """Return the zone that the hint of an endpoint should name.

    This is the endpoint's own zone, unless the zone must still give endpoints to other zones.

    zone: zone of the endpoint.
    given, received: numbers of endpoints that zones must still give and receive, see exchanges. They are updated.
    allocated: number of endpoints by zone, which is updated.
    """
    if not given.get(zone):
        return zone
    to = next((other for other in sorted(received) if received[other]), None)
    if to is None:
        return zone
    given[zone] -= 1
    received[to] -= 1
    allocated[zone] -= 1
    allocated[to] = allocated.get(to, 0) + 1
    return to


def _check_hints(plan: SlicePlan, zones: Mapping[str, ZoneAllocation]) -> tuple[ByZone, list[Object]]:
    """Check the hints of the EndpointSlices in plan.unchanged.

    Returns the number of endpoints by zone that their hints allocate, and the slices whose hints must be replaced: a
    ready endpoint has no hint, or the hints name an unknown zone or exceed the maximum of a zone.
    """
    allocated: ByZone = {}
    invalid: list[Object] = []
    for slice_ in plan.unchanged:
        counts = _hints_of(slice_.get("endpoints") or ())
        if counts is None or any(
            zone not in zones or number + allocated.get(zone, 0) > zones[zone].maximum
            for zone, number in counts.items()
        ):
            invalid.append(slice_)
            continue
        for zone, number in counts.items():
            allocated[zone] = allocated.get(zone, 0) + number
    return allocated, invalid


def _hints_of(endpoints: Iterable[Endpoint]) -> ByZone | None:
    """Return the number of ready endpoints with a hint for each zone; None if a ready endpoint has no hint."""
    counts: ByZone = {}
    for endpoint in endpoints:
        if not is_ready(endpoint):
            continue
        zones = (endpoint.get("hints") or {}).get("forZones") or ()
        if not zones:
            return None
        for zone in zones:
            counts[zone["name"]] = counts.get(zone["name"], 0) + 1
    return counts
