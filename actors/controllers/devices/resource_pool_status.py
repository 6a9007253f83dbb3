"""Resource pool status controller: writes the status of a driver's pools of devices into requests for it.

A ResourcePoolStatusRequest names a driver and optionally a pool. The controller writes the number of devices of each
pool, and how many of them are allocated, once. It deletes requests an hour after their status was written, and
requests without a status after a day.

Input: ResourcePoolStatusRequests, ResourceSlices, ResourceClaims. Output: the status of requests, and deletions of
requests. Key: the name of a request. It runs only with the feature gate DRAResourcePoolStatus.

Source: kubernetes v1.36 pkg/controller/resourcepoolstatusrequest. Differences: a malformed claim counts no devices;
a request whose pools are incomplete or whose status was refused is tried until it expires, with a backoff that grows,
not five times in 0.2 s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kcm.actors.controllers.devices.device_taint_eviction.evictions import PoolSlice, newest
from kcm.actors.reconciliation import Because, Reconciliation, Step, delete, update
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Facts, Pass, Queue
from kcm.actors.reconciliation.watches import Change, Watch
from kcm.protocols.device_taints import allocated_devices, slice_facts
from kcm.protocols.integers import counted
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import Done, NotFound
from kcm.protocols.objects import Key, Object, key_of, name_of
from kcm.protocols.resources import RESOURCE_CLAIMS, RESOURCE_POOL_STATUS_REQUESTS, RESOURCE_SLICES
from kcm.protocols.times import format_time, parse_time
from kcm.runtime.metrics.registry import Family, Metrics
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

NAME, GATE = "resourcepoolstatusrequest-controller", "DRAResourcePoolStatus"
CLEANUP_PERIOD = 600.0  # seconds
FINISHED_TTL, PENDING_TTL = 3600.0, 24 * 3600.0  # seconds
DEFAULT_LIMIT = 100  # pools in a status
LONGEST_ERROR = 256  # bytes

PROCESSED = Family(
    name="resourcepoolstatusrequest_controller_requests_processed_total",
    kind="counter",
    labels=("driver_name",),
    help="Total number of ResourcePoolStatusRequests processed",
)
ERRORS = Family(
    name="resourcepoolstatusrequest_controller_request_processing_errors_total",
    kind="counter",
    labels=("driver_name",),
    help="Total number of errors encountered while processing ResourcePoolStatusRequests",
)
DURATION = Family(
    name="resourcepoolstatusrequest_controller_request_processing_duration_seconds",
    kind="histogram",
    labels=("driver_name",),
    help="Time taken to process a ResourcePoolStatusRequest",
    buckets=tuple(0.001 * 2**power for power in range(15)),
)


class IncompletePoolError(Exception):
    """Raised while fewer slices of a pool exist than the driver declares; the driver may publish the others."""


def pool_statuses(
    slices: Iterable[PoolSlice], allocated: Mapping[tuple[str, str], int], driver: str, pool: str | None
) -> list[Object]:
    """Return the status of each pool of a driver, ordered by name. pool: name of a pool; None or "" for all pools."""
    pools: dict[str, list[PoolSlice]] = {}
    for slice_ in slices:
        if slice_.facts.driver == driver and (not pool or slice_.facts.pool == pool):
            pools.setdefault(slice_.facts.pool, []).append(slice_)
    return [_pool_status(driver, name, newest(pools[name]), allocated) for name in sorted(pools)]


def _pool_status(driver: str, pool: str, slices: list[PoolSlice], allocated: Mapping[tuple[str, str], int]) -> Object:
    facts = [slice_.facts for slice_ in slices]
    status: Object = {"driver": driver, "poolName": pool, "generation": facts[0].generation}
    nodes = {fact.node for fact in facts}
    if len(nodes) == 1 and "" not in nodes:
        status["nodeName"] = facts[0].node
    expected = facts[0].expected_slices
    if len(facts) < expected:
        text = f"pool {driver}/{pool} is incomplete: observed {len(facts)}/{expected} slices"
        text += f" at generation {facts[0].generation}"
        return {**status, "validationError": text.encode()[:LONGEST_ERROR].decode(errors="ignore")}
    total, used = sum(len(fact.devices) for fact in facts), allocated.get((driver, pool), 0)
    return {
        **status,
        "resourceSliceCount": len(facts),
        "totalDevices": total,
        "allocatedDevices": used,
        "availableDevices": max(0, total - used),
        "unavailableDevices": 0,
    }


def request_status(pools: list[Object], limit: int, now: float) -> Object:
    """Return the status of a request: the first `limit` pools, and the number of all pools. now: Unix seconds."""
    shown = pools[:limit]
    condition = {
        "type": "Complete",
        "status": "True",
        "lastTransitionTime": format_time(now),
        "reason": "CalculationComplete",
        "message": f"Calculated status for {len(shown)} pools",
    }
    return {"poolCount": len(pools), **({"pools": shown} if shown else {}), "conditions": [condition]}


def is_expired(request: Object, now: float) -> bool:
    """Report whether the status of a request is older than an hour, or a request has had no status for a day."""
    status, created = request.get("status"), (request.get("metadata") or {}).get("creationTimestamp")
    if status is None:
        return _is_older(created, PENDING_TTL, now)
    for condition in status.get("conditions") or ():
        if condition.get("type") in ("Complete", "Failed"):
            return _is_older(condition.get("lastTransitionTime"), FINISHED_TTL, now)
    return _is_older(created, FINISHED_TTL, now)


def _is_older(text: Any, seconds: float, now: float) -> bool:
    try:
        return bool(text) and now - parse_time(text) > seconds
    except (TypeError, ValueError):
        return False


class ResourcePoolStatusReconciler:
    """Reconciler of ResourcePoolStatusRequests. Key: the name of a request."""

    def __init__(self, *, tables: Tables, clock: Clock, log: FilteringBoundLogger, metrics: Metrics) -> None:
        self._requests = tables[RESOURCE_POOL_STATUS_REQUESTS]
        self._slices, self._claims = tables[RESOURCE_SLICES], tables[RESOURCE_CLAIMS]
        self._clock, self._log, self._metrics = clock, log, metrics

    def reconcile(self, key: Key) -> Reconciliation:
        """Write the status of a request. Source: syncRequest."""
        began = self._clock.monotonic()
        self._requests.require(key)
        request = self._requests.get(key)
        if request is None or request.get("status") is not None:
            return None
        spec = request.get("spec") or {}
        driver = spec.get("driver") or ""
        self._log.info("Processing ResourcePoolStatusRequest", v=2, request=key, driver=driver)
        slices = (PoolSlice(entry.key, entry.facts) for entry in self._slices.entries())
        pools = pool_statuses(slices, self._allocated(), driver, spec.get("poolName"))
        limit = spec.get("limit")
        limit = DEFAULT_LIMIT if limit is None else limit
        if any("validationError" in pool for pool in pools[:limit]):
            yield Because(f"waits until the driver {driver} has published all slices of its pools")
            raise IncompletePoolError("incomplete pools detected, requeueing")
        yield Because(f"counts the devices of {counted(len(pools), 'pool')} of driver {driver}")
        status = request_status(pools, limit, self._clock.now())
        command = update(RESOURCE_POOL_STATUS_REQUESTS, {**request, "status": status}, subresource="status")
        outcome = yield command
        self._metrics.counter(PROCESSED, driver).inc()
        self._metrics.histogram(DURATION, driver).observe(self._clock.monotonic() - began)
        if not isinstance(outcome, Done):
            self._metrics.counter(ERRORS, driver).inc()
            raise CommandError(command, outcome)
        self._log.info("Successfully processed ResourcePoolStatusRequest", v=2, request=key, poolCount=len(pools))
        return None

    def _allocated(self) -> Counter[tuple[str, str]]:
        """Return the number of allocated devices by driver and pool."""
        counts: Counter[tuple[str, str]] = Counter()
        for claim in self._claims.objects():
            try:
                counts.update((device.driver, device.pool) for device in allocated_devices(claim))
            except ValueError as err:
                self._log.warning("allocation of a claim is malformed", key=key_of(claim), error=str(err))
        return counts

    def clean_up(self) -> Reconciliation:
        """Delete expired requests. Source: cleanupExpiredRequests."""
        deleted = 0
        for request in self._requests.objects():
            if is_expired(request, self._clock.now()):
                deleted += yield from self._delete(request)
        if deleted:
            yield Because(f"deleted {counted(deleted, 'expired request')}")
            self._log.info("Cleanup completed", deletedCount=deleted)
        return None

    def _delete(self, request: Object) -> Step[bool]:
        outcome = yield delete(RESOURCE_POOL_STATUS_REQUESTS, request)
        if isinstance(outcome, Done):
            self._log.info("Deleted expired ResourcePoolStatusRequest", v=2, request=name_of(request))
        elif not isinstance(outcome, NotFound):
            self._log.error(
                "Failed to delete expired ResourcePoolStatusRequest", request=name_of(request), error=str(outcome)
            )
        return isinstance(outcome, Done)


def _without_status(change: Change, _tables: Tables) -> Iterable[Key]:
    return () if change.deleted or change.new.get("status") is not None else (change.key,)


def _build(context: ControllerContext) -> ResourcePoolStatusReconciler:
    return ResourcePoolStatusReconciler(
        tables=context.tables, clock=context.clock, log=context.log, metrics=context.metrics
    )


SPEC = ControllerSpec(
    name=NAME,
    never_blocks=True,
    queues=(
        Queue(
            "resourcepoolstatusrequest",
            watches=(Watch(RESOURCE_POOL_STATUS_REQUESTS, to=_without_status),),
            concurrency=1,
            terminal=(),
        ),
    ),
    passes=(Pass("cleanup", every=CLEANUP_PERIOD, run=ResourcePoolStatusReconciler.clean_up),),
    reads=(RESOURCE_SLICES, RESOURCE_CLAIMS),
    facts=(Facts(RESOURCE_SLICES, slice_facts),),
    build=_build,
    enabled_if=lambda options: options.feature_gates[GATE],
    needs=f"--feature-gates={GATE}=true",
)
