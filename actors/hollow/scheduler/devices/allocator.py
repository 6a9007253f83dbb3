"""Allocation of devices to the ResourceClaims of a pod on one node: the first solution of an exhaustive search.

Claims, requests and devices are tried in their order. All feature gates have their defaults, with which kube-scheduler
uses the allocator "incubating".

Source: kubernetes v1.36 staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/
allocator_incubating.go. Difference: counters are kept by driver and pool, where upstream mixes the pools
of different drivers with one name.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from typing import Any, Protocol

from kcm.actors.hollow.scheduler.devices.capacity import Consumed, consumptions, has_room
from kcm.actors.hollow.scheduler.devices.inventory import Device, DeviceId, Inventory, Pool
from kcm.actors.hollow.scheduler.devices.requests import (
    AllocationError,
    Candidate,
    Constraint,
    DeviceRequest,
    NodeAllocationError,
    constraints_of,
    selectors_of,
)
from kcm.actors.hollow.scheduler.devices.results import DeviceResult, allocation_of
from kcm.actors.hollow.scheduler.node_fit import NodeView
from kcm.protocols.objects import Object, key_of, uid_of
from kcm.protocols.quantities import Quantity

MOST_RESULTS = 32  # devices of one claim
_SHARES = uuid.UUID("5b0c2a62-9a0c-4a44-8f0e-6f0a3c8f4c11")  # namespace of share IDs
_ALL_DEVICES = "asks for all devices, but resource pool"  # upstream's words
_PREVENTING = ("NoSchedule", "NoExecute")


class Allocated(Protocol):
    """Devices that are allocated to claims."""

    def is_dedicated(self, device: DeviceId) -> bool:
        """Report whether the device is allocated to a claim that does not share it."""
        ...

    def is_used(self, device: DeviceId) -> bool:
        """Report whether the device, or a share of it, is allocated."""
        ...

    def consumed(self, device: DeviceId) -> Consumed | None:
        """Return the consumed capacity of a device with shares; None if it has none."""
        ...


class _Outcome(Enum):
    DONE = 1
    FAILED = 2
    TOO_MANY = 3  # the results would exceed MOST_RESULTS


class Allocator:
    """Allocator for one scheduling attempt.

    device_class: returns a DeviceClass by name, or None.
    """

    def __init__(
        self, inventory: Inventory, allocated: Allocated, device_class: Callable[[str], Object | None]
    ) -> None:
        self._inventory, self._allocated, self._device_class = inventory, allocated, device_class
        self._available: dict[str, dict[str, dict[str, Decimal]]] = {}

    def allocate(self, node: NodeView, claims: Sequence[Object]) -> list[Object] | None:
        """Return an AllocationResult for each claim, or None if there is no solution on this node.

        Raises AllocationError, NodeAllocationError.
        """
        return _Search(self, node, claims).run()

    def pools(self, node: NodeView) -> tuple[Pool, ...]:
        return self._inventory.pools(node)

    @property
    def allocated(self) -> Allocated:
        return self._allocated

    def class_named(self, name: str) -> Object | None:
        return self._device_class(name)

    def available(self, pool: Pool) -> Mapping[str, Mapping[str, Decimal]]:
        """Return what allocated devices leave of the counters of a pool; may be negative."""
        known = self._available.get(pool.id)
        if known is not None:
            return known
        left = {name: dict(amounts) for name, amounts in pool.counters.items()}
        for slice_ in (*pool.slices, *pool.elsewhere):
            for device in slice_.devices:
                if device.consumes and self._allocated.is_used(device.id):
                    for set_name, amounts in device.consumes.items():
                        for name, amount in amounts.items():
                            left[set_name][name] -= amount
        self._available[pool.id] = left
        return left


class _Search:
    def __init__(self, allocator: Allocator, node: NodeView, claims: Sequence[Object]) -> None:
        self._allocator, self._node, self._claims = allocator, node, claims
        self._allocated = allocator.allocated
        self._pools = allocator.pools(node)
        self._requests: list[list[list[DeviceRequest]]] = []  # by claim and request: the alternatives
        self._constraints: list[list[Constraint]] = []
        self._results: list[list[DeviceResult]] = [[] for _ in claims]
        self._devices: dict[DeviceId, set[int]] = {}  # devices being allocated, with the indexes of their claims
        self._capacity: dict[DeviceId, dict[str, Decimal]] = {}
        self._shared: dict[DeviceId, int] = {}  # shares of devices being allocated
        self._consumed: dict[str, dict[str, dict[str, Decimal]]] = {}  # counters of devices being allocated, by pool

    def run(self) -> list[Object] | None:
        for index, claim in enumerate(self._claims):
            self._prepare(index, claim)
        if self._allocate(0, 0, 0, 0, started=False, start=(0, 0, 0)) is not _Outcome.DONE:
            if any(pool.problem for pool in self._pools):
                raise NodeAllocationError("invalid resource pools were encountered")
            return None
        return [
            allocation_of(
                claim,
                [alternatives[alternatives[0].chosen] for alternatives in self._requests[index]],
                self._results[index],
                self._node.name,
            )
            for index, claim in enumerate(self._claims)
        ]

    def _prepare(self, index: int, claim: Object) -> None:
        devices = (claim.get("spec") or {}).get("devices") or {}
        requests: list[list[DeviceRequest]] = []
        least = 0
        self._requests.append(requests)
        for request in devices.get("requests") or ():
            alternatives = request.get("firstAvailable") or ()
            if alternatives:
                parent = request.get("name") or ""
                made = [self._request(index, claim, alternative, parent, alternative) for alternative in alternatives]
            else:
                made = [self._request(index, claim, request, "", request.get("exactly") or {})]
            requests.append(made)
            least += min(alternative.number for alternative in made)
        if least > MOST_RESULTS:
            raise AllocationError(
                f"claim {key_of(claim)}: number of requested devices {least} exceeds the claim limit of {MOST_RESULTS}"
            )
        self._constraints.append(list(constraints_of(claim, devices.get("constraints") or ())))

    def _request(
        self, index: int, claim: Object, named: Mapping[str, Any], parent: str, demand: Mapping[str, Any]
    ) -> DeviceRequest:
        name = named.get("name") or ""
        where = f"claim {key_of(claim)}, request {name}"
        for number, selector in enumerate(demand.get("selectors") or ()):
            if selector.get("cel") is None:
                raise AllocationError(f"{where}, selector #{number}: CEL expression empty (unsupported selector type?)")
        class_name = demand.get("deviceClassName") or ""
        if not class_name:
            raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
        device_class = self._allocator.class_named(class_name)
        if device_class is None:
            raise AllocationError(
                f'{where}: could not retrieve device class {class_name}: deviceclass.resource.k8s.io "{class_name}" '
                "not found"
            )
        selectors = [
            *selectors_of(f"class {class_name}", device_class.get("spec") or {}),
            *selectors_of(f"claim {key_of(claim)}", demand),
        ]
        request = DeviceRequest(index, name, parent, demand, device_class, selectors)
        mode = demand.get("allocationMode") or ""
        if mode == "ExactCount":
            request.number = int(demand.get("count") or 0)
        elif mode == "All":
            request.every = list(self._all_devices(request, where))
            request.number = len(request.every)
        else:
            raise AllocationError(f"{where}: unsupported count mode {mode}")
        return request

    def _all_devices(self, request: DeviceRequest, where: str) -> Iterator[Candidate]:
        for pool in self._pools:
            for state, is_in_it in (("being updated", pool.is_incomplete), ("invalid", bool(pool.problem))):
                if is_in_it:
                    raise AllocationError(f"{where}: {_ALL_DEVICES} {pool.id} is currently {state}")
            for slice_ in pool.slices:
                for device in slice_.devices:
                    if self._is_selectable(request, device) and self._has_room(request, device):
                        yield Candidate(device, pool)

    # The search: each call allocates one device, and calls itself for the next device.

    def _allocate(
        self, claim: int, request: int, alternative: int, number: int, *, started: bool, start: tuple[int, int, int]
    ) -> _Outcome:
        """Allocate the device with this number of a request, and everything after it.

        started: whether the alternative of the request is chosen.
        start: indexes of the pool, slice and device from which devices are tried. The order of the devices within a
            request is irrelevant, so that only combinations in the order of the inventory are tried.
        """
        if claim >= len(self._claims):
            return _Outcome.DONE
        if request >= len(self._requests[claim]):
            done = self._allocate(claim + 1, 0, 0, 0, started=False, start=(0, 0, 0))
            return _Outcome.FAILED if done is _Outcome.TOO_MANY else done
        alternatives = self._requests[claim][request]
        if not started and alternatives[0].parent:
            return self._try_alternatives(claim, request)
        wanted = alternatives[alternative]
        if wanted.every is not None and not wanted.every:
            return _Outcome.FAILED
        if number >= wanted.number:
            return self._allocate(claim, request + 1, 0, 0, started=False, start=(0, 0, 0))
        if len(self._results[claim]) + wanted.number - number > MOST_RESULTS:
            return _Outcome.TOO_MANY
        if wanted.every is not None:
            candidate = wanted.every[number]
            if not self._take(wanted, candidate, must=True):
                return _Outcome.FAILED
            done = self._allocate(claim, request, alternative, number + 1, started=started, start=(0, 0, 0))
            if done is not _Outcome.DONE:
                self._put_back(wanted, candidate)
            return done
        for candidate, after in self._candidates(wanted, start):
            if not self._take(wanted, candidate, must=False):
                continue
            done = self._allocate(claim, request, alternative, number + 1, started=started, start=after)
            if done is _Outcome.DONE:
                return done
            self._put_back(wanted, candidate)
            if done is _Outcome.TOO_MANY:
                return done
        return _Outcome.FAILED

    def _try_alternatives(self, claim: int, request: int) -> _Outcome:
        alternatives = self._requests[claim][request]
        only_too_many = True
        for index in range(len(alternatives)):
            done = self._allocate(claim, request, index, 0, started=True, start=(0, 0, 0))
            if done is _Outcome.DONE:
                alternatives[0].chosen = index
                return done
            only_too_many = only_too_many and done is _Outcome.TOO_MANY
        return _Outcome.TOO_MANY if only_too_many else _Outcome.FAILED

    def _candidates(
        self, request: DeviceRequest, start: tuple[int, int, int]
    ) -> Iterator[tuple[Candidate, tuple[int, int, int]]]:
        """Yield the devices that the request selects, each with the start for the next device of the request."""
        first_pool, first_slice, first_device = start
        for pool_index in range(first_pool, len(self._pools)):
            pool = self._pools[pool_index]
            if not pool.usable:
                continue
            at_pool = pool_index == first_pool
            for slice_index in range(first_slice if at_pool else 0, len(pool.slices)):
                devices = pool.slices[slice_index].devices
                at_slice = at_pool and slice_index == first_slice
                for device_index in range(first_device if at_slice else 0, len(devices)):
                    device = devices[device_index]
                    if self._is_taken(request, device.id):
                        continue
                    if self._is_selectable(request, device) and self._has_room(request, device):
                        yield Candidate(device, pool), (pool_index, slice_index, device_index + 1)

    def _is_taken(self, request: DeviceRequest, device: DeviceId) -> bool:
        allocating = self._devices.get(device)
        if request.is_admin:
            return bool(allocating) and request.claim in (allocating or ())
        return bool(allocating) or self._allocated.is_dedicated(device)

    def _is_selectable(self, request: DeviceRequest, device: Device) -> bool:
        known = request.selectable.get(device.id)
        if known is None:
            known = request.selectable[device.id] = request.selects(device) and device.nodes.include(self._node)
        return known

    def _has_room(self, request: DeviceRequest, device: Device) -> bool:
        capacity, requested = device.raw.get("capacity") or {}, request.capacities
        if not capacity and not requested:
            return True
        return has_room(
            capacity,
            requested,
            consumed=self._allocated.consumed(device.id) or {},
            allocating=self._capacity.get(device.id) or {},
        )

    def _take(self, request: DeviceRequest, candidate: Candidate, *, must: bool) -> bool:
        """Mark the device as allocated to the request, and report whether that is possible.

        must: raise AllocationError if a constraint of the claim prevents it.
        """
        device, claim = candidate.device, request.claim
        if self._is_taken(request, device.id) and not (device.multiple and request.is_admin):
            return False
        is_shared = device.multiple and (
            self._allocated.consumed(device.id) is not None or bool(self._shared.get(device.id))
        )
        if device.consumes and not is_shared and not self._consume(candidate):
            return False
        if any(taint.get("effect") in _PREVENTING and not request.tolerates(taint) for taint in device.taints):
            # As upstream, consumed counters are kept: the rest of the search has less of them.
            return False
        constraints = self._constraints[claim]
        for place, constraint in enumerate(constraints):
            if not constraint.add(request, device):
                if must:
                    where = f"claim {key_of(self._claims[claim])}, request {request.name}"
                    text = f"cannot add device {device.id} because a claim constraint would not be satisfied"
                    raise AllocationError(f"{where}: {text}")
                for earlier in constraints[:place]:
                    earlier.remove(request)
                return False
        allocating = self._devices.setdefault(device.id, set())
        consumed: dict[str, Quantity] = {}
        share = ""
        if not device.multiple:
            allocating.add(claim)
        if not self._has_room(request, device):
            return False
        if device.multiple:
            consumed = consumptions(device.raw.get("capacity") or {}, request.capacities)
            share = self._share_id(claim, request, device)
            self._shared[device.id] = self._shared.get(device.id, 0) + 1
            total = self._capacity.setdefault(device.id, {})
            for name, amount in consumed.items():
                total[name] = total.get(name, Decimal(0)) + amount.value
        self._results[claim].append(DeviceResult(request, device, share, consumed))
        return True

    def _share_id(self, claim: int, request: DeviceRequest, device: Device) -> str:
        number = len(self._results[claim])
        text = f"{uid_of(self._claims[claim])}/{request.full_name}/{device.id}/{number}"
        return str(uuid.uuid5(_SHARES, text))

    def _put_back(self, request: DeviceRequest, candidate: Candidate) -> None:
        device, claim = candidate.device, request.claim
        for constraint in self._constraints[claim]:
            constraint.remove(request)
        self._devices[device.id].discard(claim)
        result = self._results[claim].pop()
        if device.multiple:
            self._shared[device.id] -= 1
            total = self._capacity[device.id]
            for name, amount in result.consumed.items():
                total[name] -= amount.value
        elif device.consumes:
            self._count(candidate, -1)

    def _consume(self, candidate: Candidate) -> bool:
        """Consume the counters of a device, and report whether there are enough of them."""
        self._count(candidate, 1)
        available = self._allocator.available(candidate.pool)
        consumed = self._consumed[candidate.pool.id]
        for set_name, amounts in available.items():
            used = consumed.get(set_name) or {}
            if any(amount < used.get(name, Decimal(0)) for name, amount in amounts.items()):
                self._count(candidate, -1)
                return False
        return True

    def _count(self, candidate: Candidate, times: int) -> None:
        consumed = self._consumed.setdefault(candidate.pool.id, {})
        for set_name, amounts in candidate.device.consumes.items():
            used = consumed.setdefault(set_name, {})
            for name, amount in amounts.items():
                used[name] = used.get(name, Decimal(0)) + times * amount
