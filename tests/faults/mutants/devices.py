"""Mutants of the hollow scheduler: allocation of devices, and preemption."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from unittest.mock import patch

from kcm.actors.hollow.scheduler.demand import Demand
from kcm.actors.hollow.scheduler.devices.reservations import Reservations
from kcm.actors.hollow.scheduler.placements import Placements
from kcm.actors.simulation.campaign.domain_settings import DEVICES_SETTING
from kcm.protocols.objects import Key
from tests.faults.mutants.mutant import Mutant


@contextmanager
def allocations_in_flight_are_not_seen() -> Iterator[None]:
    """A device is free until a table shows its allocation."""
    with patch.object(Reservations, "has_dedicated", lambda _self, _device: False):
        yield


@contextmanager
def pods_of_equal_priority_are_victims() -> Iterator[None]:
    original = Placements.below

    def below(self: Placements, priority: int, nodes: Collection[str]) -> dict[str, list[tuple[Key, Demand]]]:
        return original(self, priority + 1, nodes)

    with patch.object(Placements, "below", below):
        yield


DEVICES = (
    Mutant(
        name="allocations in flight are not seen",
        source="the pending allocations of the plugin DynamicResources",
        mutation=allocations_in_flight_are_not_seen,
        setting=DEVICES_SETTING,
    ),
    Mutant(
        name="pods of equal priority are preempted",
        source="the comparison of priorities in isPreemptionAllowed",
        mutation=pods_of_equal_priority_are_victims,
        setting=DEVICES_SETTING,
    ),
)
