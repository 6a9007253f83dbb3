"""Mutants of the service CIDR controller."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from kcm.actors.controllers.network import service_cidr
from kcm.actors.controllers.network.service_cidr import ServiceCidrs
from kcm.actors.simulation.campaign.domain_settings import SERVICE_RANGES_SETTING
from kcm.protocols.objects import Object
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from tests.faults.mutants.mutant import Mutant


def late_addresses(seed: int, *, seconds: float, process: str, actors: Sequence[str]) -> tuple[Fault, ...]:
    """Draw a watch of IPAddresses that lags for longer than the grace period."""
    late = (15.0, 20.0, 30.0)[seed % 3]
    kind, resource = FaultKind.WATCH_LAGGING, "ipaddresses"
    return (Fault(kind=kind, start=1.0, until=seconds, seconds=late, process=process, resource=resource),)


def part_of_another_range_suffices() -> Any:
    """A ServiceCIDR that overlaps a smaller one counts as contained in it."""

    def lax(found: Mapping[str, Any], service_cidrs: Sequence[Mapping[str, Any]]) -> bool:
        return len(service_cidr.overlapping(found, service_cidrs)) > 1

    return patch.object(service_cidr, "has_parents", lax)


def no_grace_period() -> Any:
    return patch.object(service_cidr, "GRACE_PERIOD", 0.0)


def tables_decide() -> Any:
    """The addresses in the table decide, although its watch may be late; nothing is listed before the release."""

    def listed(self: ServiceCidrs, found: Object, cidrs: Iterable[Object], addresses: Iterable[Object]) -> str:
        del addresses
        known = [found for family in ("IPv4", "IPv6") for found in self._addresses.indexed("allocated", family)]
        return blocking(self, found, cidrs, known)

    blocking = ServiceCidrs._blocking_address
    return patch.object(ServiceCidrs, "_blocking_address", listed)


def released_ranges_count() -> Any:
    """Two ServiceCIDRs with the same addresses count for each other while both lose their finalizers."""
    return patch.object(service_cidr, "lasting", lambda _found, service_cidrs: list(service_cidrs))


SERVICE_RANGES = (
    Mutant(
        name="a service range is contained in a smaller one",
        source="kubernetes v1.36 servicecidrs_controller.go, canDeleteCIDR: overlapping CIDRs were parents",
        mutation=part_of_another_range_suffices,
        setting=SERVICE_RANGES_SETTING,
    ),
    Mutant(
        name="a service range is released at once",
        source="kubernetes v1.36 servicecidrs_controller.go: no time for API servers to observe the deletion",
        mutation=no_grace_period,
        setting=SERVICE_RANGES_SETTING,
    ),
    Mutant(
        name="the table decides whether a service range is in use",
        source="kubernetes v1.36 servicecidrs_controller.go: a cache that is staler than the grace period",
        mutation=tables_decide,
        setting=replace(SERVICE_RANGES_SETTING, draw=late_addresses),
    ),
    Mutant(
        name="a service range that another finalizer holds counts",
        source="kubernetes v1.36 servicecidrs_controller.go: the deletion of the other ServiceCIDR is ignored",
        mutation=released_ranges_count,
        setting=SERVICE_RANGES_SETTING,
    ),
)
