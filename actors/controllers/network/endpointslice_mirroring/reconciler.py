"""Reconciler of the mirroring controller: EndpointSlices for the Endpoints of Services without a selector.

Input: Endpoints, Services, and the slices of this controller. Output: EndpointSlices, and events about the Endpoints.
Key of the main queue: "namespace/name" of the Endpoints and their Service.

Source: kubernetes v1.36 pkg/controller/endpointslicemirroring/{endpointslicemirroring_controller,events}.go.
Differences: there is no tracker of slices, because the lister includes the writes of this controller; names of slices
are generated here; updates have the resourceVersion that was read as precondition.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kcm.actors.controllers.network.endpointslice_mirroring.metrics import MirrorMetrics
from kcm.actors.controllers.network.endpointslice_mirroring.mirrors import (
    MANAGER,
    desired_slices,
    is_mirrored,
    plan_mirrors,
)
from kcm.actors.controllers.network.shared.slice_writes import SliceWrites
from kcm.actors.controllers.network.shared.slices import SERVICE, SliceChange, managed_value
from kcm.actors.reconciliation import Change, Enqueue, Reconciliation, Step, own, record
from kcm.protocols.objects import Key, Object, is_deleting, metadata
from kcm.protocols.resources import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from kcm.protocols.services import service_facts
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

QUEUE = "endpoint_slice_mirroring"
INVALID, TOO_MANY = "InvalidIPAddress", "TooManyAddressesToMirror"


def endpoints_without_selector(change: Change, tables: Tables) -> Iterable[Key]:
    """Return the key of Endpoints, unless their Service has a selector, which most have."""
    service = tables[SERVICES].entry(change.key)
    return () if service is not None and service.facts.selects else (change.key,)


def services_without_selector(change: Change, _tables: Tables) -> Iterable[Key]:
    """Return the key of a Service that has no selector, or had none before the change."""
    both = (change.new, change.old)
    return (change.key,) if any(service is not None and not service_facts(service).selects for service in both) else ()


class MirroringReconciler:
    """Mirrors Endpoints, and keeps its own writes to recognize them in watch events."""

    def __init__(
        self,
        *,
        tables: Tables,
        clock: Clock,
        metrics: MirrorMetrics,
        log: FilteringBoundLogger,
        most: int,
        batch_period: float = 0.0,
    ) -> None:
        """Initialize from the tables.

        most: maximum number of addresses from a subset.
        batch_period: seconds for which changes of slices are batched.
        """
        self._services, self._endpoints = tables[SERVICES], tables[ENDPOINTS]
        self._slices = tables[ENDPOINT_SLICES]
        self._clock, self._metrics, self._log = clock, metrics, log
        self._most, self._batch_period = most, batch_period
        self._writes = SliceWrites(self._slices, changed=metrics.changed)

    def reconcile_slice(self, change: SliceChange) -> Reconciliation:
        """Enqueue the Services of a slice that another client has changed."""
        if self._writes.is_foreign(change, MANAGER):
            for service in change.services:
                yield Enqueue(QUEUE, service, after=max(0.0, self._batch_period))
        return None

    def reconcile(self, key: Key) -> Reconciliation:
        """Mirror Endpoints, or delete their slices. Source: syncEndpoints."""
        began = self._clock.monotonic()
        try:
            yield from self._sync(key)
        finally:
            self._metrics.took(self._clock.monotonic() - began)
        return None

    def _sync(self, key: Key) -> Step[None]:
        self._services.require(key)
        service, endpoints = self._services.entry(key), self._endpoints.get(key)
        slices = self._slices.indexed(SERVICE, managed_value(key, MANAGER))
        if endpoints is None or not is_mirrored(endpoints) or service is None or service.facts.selects:
            self._metrics.forget(key)
            self._writes.forget(key)
            yield from self._writes.delete(slices)
            return
        desired = desired_slices(endpoints, most=self._most)
        if desired.invalid:
            text = f"Skipped {desired.invalid} invalid IP addresses when mirroring to EndpointSlices"
            yield record(ENDPOINTS, endpoints, "Warning", INVALID, text)
        if desired.skipped > desired.invalid:
            text = (
                f"A max of {self._most} addresses can be mirrored to EndpointSlices per Endpoints subset. "
                f"{desired.skipped} addresses were skipped"
            )
            yield record(ENDPOINTS, endpoints, "Warning", TOO_MANY, text)
        plan = plan_mirrors(endpoints, desired, slices)
        self._metrics.planned(key, plan, skipped=desired.skipped)
        update = [self._owned(slice_, endpoints) for slice_ in plan.update]
        create = [] if is_deleting(endpoints) else plan.create
        written = yield from self._writes.write(
            key, endpoints, ENDPOINTS, create=create, update=update, delete=plan.delete
        )
        if written and (create or update or plan.delete):
            self._log.info(
                "slices written", key=key, created=len(create), updated=len(update), deleted=len(plan.delete)
            )

    @staticmethod
    def _owned(slice_: Object, endpoints: Object) -> Object:
        """Return the slice with these Endpoints as its only owner."""
        meta = {name: value for name, value in metadata(slice_).items() if name != "ownerReferences"}
        return own({**slice_, "metadata": meta}, by=endpoints, of=ENDPOINTS)
