"""Allocations that are being written: their devices are in use before any table shows it.

A write whose outcome is unknown may still be applied. Its devices stay reserved until the claim shows the outcome, or
until the write can no longer have an effect.

Source: kubernetes v1.36 pkg/scheduler/framework/plugins/dynamicresources/dra_manager.go. Difference: upstream releases
the devices when a write fails, also if the server may have applied it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kcm.actors.hollow.scheduler.devices.claim_facts import devices_of
from kcm.actors.hollow.scheduler.devices.inventory import DeviceId
from kcm.protocols.objects import Key, Object, uid_of
from kcm.protocols.resource_claims import allocation_of
from kcm.runtime.tables.lister import Lister

LATEST_WRITE = 60.0  # seconds after which the server does not apply a write any more


class Reservation(Struct, frozen=True):
    """Allocation that is being written.

    claim: key of the claim; "" for a claim that does not exist yet.
    pod: uid of the pod for which the claim is allocated.
    expires: monotonic time from which on the write cannot have an effect; infinite while it is in progress.
    """

    claim: Key
    pod: str
    node: str
    allocation: Object
    expires: float = math.inf


class Reservations:
    """Reservations by uid of the claim. releases: number of times that a reservation ended."""

    def __init__(self) -> None:
        self.releases = 0
        self._known: dict[str, Reservation] = {}
        self._devices: Counter[DeviceId] = Counter()  # dedicated devices

    def get(self, claim: str) -> Reservation | None:
        return self._known.get(claim)

    def put(self, claim: str, reservation: Reservation) -> None:
        self.remove(claim)
        self._known[claim] = reservation
        self._devices.update(_dedicated(reservation))

    def remove(self, claim: str) -> None:
        known = self._known.pop(claim, None)
        if known is not None:
            self._devices.subtract(_dedicated(known))
            self.releases += 1

    def suspend(self, claim: str, *, now: float) -> None:
        """Let the reservation, if it still exists, expire. Call when the outcome of its write remains unknown."""
        known = self._known.get(claim)
        if known is not None:
            self._known[claim] = replace(known, expires=now + LATEST_WRITE)

    def release(self, claims: Lister, *, now: float) -> None:
        """Release the reservations of deleted and of allocated claims, and expired ones."""
        for uid, reservation in list(self._known.items()):
            claim = claims.get(reservation.claim) if reservation.claim else None
            is_over = claim is None or uid_of(claim) != uid or bool(allocation_of(claim))
            if now >= reservation.expires or (is_over and reservation.claim):
                self.remove(uid)

    def has_dedicated(self, device: DeviceId) -> bool:
        return self._devices[device] > 0

    def results(self, device: DeviceId) -> Iterator[Mapping[str, Any]]:
        """Yield the results with this device."""
        for reservation in self._known.values():
            for allocated, result in devices_of(reservation.allocation):
                if allocated == device:
                    yield result


def _dedicated(reservation: Reservation) -> list[DeviceId]:
    return [device for device, result in devices_of(reservation.allocation) if not result.get("shareID")]
