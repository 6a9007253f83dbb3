"""Service load balancer controller: maintains load balancers in the cloud for Services of type LoadBalancer.

In: Services, nodes, the cloud. Out: calls to the cloud; the finalizer service.kubernetes.io/load-balancer-cleanup and
status.loadBalancer of Services, both by patches of their status; events.

Work queues: "service" with the key "namespace/name" of a Service; "node" with a single key, whose sync finds the load
balancers whose target nodes (hosts) have changed.

Source: kubernetes v1.36 staging/src/k8s.io/cloud-provider/controllers/service/controller.go. Differences:
- All calls for a Service are made by the sync of its key, one after the other, so that two updates of its hosts cannot
  be reordered.
- When the load balancer is deleted, the finalizer and the status are removed by one patch, so that a crash in between
  cannot leave the address in the status.
- A finalizer that another client removed is added again. If the Service is deleted without the finalizer, its load
  balancer is deleted too.
- If the type of a Service is changed and changed back, the API server clears its address, and the controller writes it
  again.
- A load balancer that is missing when its hosts are updated is created again. If the cloud responds with a time after
  which to retry, it is not called earlier. No load balancer is created for a terminating Service without the finalizer.
- While the calls for a Service are throttled, equal events about it are recorded at most once a minute. Upstream
  records two events at each retry, and its recorder then drops other events of the Service for minutes.
- The first call, made before a finalizer is written, detects that a cloud does not support load balancers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import orjson
from msgspec import Struct, field

from kcm.actors.controllers.cloud.service_lb.load_balancers import (
    FINALIZER,
    Targets,
    desired_state,
    format_node_names,
    has_finalizer,
    is_target,
    needs_cleanup,
    needs_update,
    targets_of,
    wants_load_balancer,
)
from kcm.actors.reconciliation import Because, Change, Enqueue, Reconciliation, Retry, Step, patch, perform, record
from kcm.actors.reconciliation.element_order import in_element_order
from kcm.protocols.integers import counted
from kcm.protocols.messages.cloud import (
    ELSEWHERE,
    NOT_SUPPORTED,
    CloudCall,
    DeleteLoadBalancer,
    EnsureLoadBalancer,
    GetLoadBalancer,
    UpdateLoadBalancer,
)
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import PatchType
from kcm.protocols.messages.events import Record, RecordType
from kcm.protocols.messages.outcomes import Done, Failure, Invalid, NotFound, Outcome, Refused, Throttled
from kcm.protocols.objects import Key, Object, decode_object, encode_object, is_deleting, key_of, metadata, uid_of
from kcm.protocols.resources import NODES, SERVICES
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

QUEUE = "service"
ALL_NODES = "nodes"
EQUAL_EVENTS = 60.0  # seconds between two equal events about a Service whose calls are throttled


def services_to_sync(change: Change, _tables: Tables) -> Iterable[Key]:
    """Enqueue a Service if the change affects its load balancer.

    The controller's own writes of finalizer and status do not enqueue it, because this would shorten the backoff of a
    Service whose sync has failed.
    """
    return (change.key,) if _must_sync(change.old, change.new, deleted=change.deleted) else ()


def _must_sync(old: Object | None, new: Object, *, deleted: bool) -> bool:
    if deleted:
        return wants_load_balancer(new)
    if old is None:
        return wants_load_balancer(new) or needs_cleanup(new)
    lost_finalizer = wants_load_balancer(new) and has_finalizer(old) and not has_finalizer(new)
    lost_address = wants_load_balancer(new) and ingress_of(old) is not None and ingress_of(new) is None
    return lost_finalizer or lost_address or needs_update(old, new) or needs_cleanup(new)


def all_nodes(_change: Change, _tables: Tables) -> Iterable[str]:
    return (ALL_NODES,)


class _Balancer(Struct):
    """State of the load balancer of one Service, as this controller last requested it from the cloud."""

    service: Object  # as it was last synced
    ensured: Any = None  # its desired_state, once the load balancer has been ensured
    published: bool = False  # the addresses have been written to the Service
    targets: Targets = field(default_factory=dict)  # as last sent to the cloud, even if the call failed


class _Pass(Struct):
    """Update of the target nodes of all load balancers after a change of nodes, to measure its duration."""

    began: float  # monotonic
    waiting: set[Key]  # Services whose load balancer is not updated yet


class ServiceMetrics:
    """Callbacks that update the metrics of service-lb-controller.

    synced: counts an update of hosts.
    failed: counts a failed update of hosts.
    observe_pass: records for how many seconds the update of all load balancers lasted after a change of nodes.
    observe_update: records the duration in seconds of the update of one load balancer.
    """

    def __init__(
        self,
        *,
        synced: Callable[[], None],
        failed: Callable[[], None],
        observe_pass: Callable[[float], None],
        observe_update: Callable[[float], None],
    ) -> None:
        self.synced, self.failed, self.observe_pass, self.observe_update = synced, failed, observe_pass, observe_update


class ServiceLoadBalancerReconciler:
    """Reconciler of the load balancers of Services, with a record of each load balancer.

    Keys: "namespace/name" of a Service; a single key for changes of nodes, which may affect all load balancers.
    """

    def __init__(
        self, *, tables: Tables, clock: Clock, log: FilteringBoundLogger, cluster: str, metrics: ServiceMetrics
    ) -> None:
        self._services, self._nodes = tables[SERVICES], tables[NODES]
        self._clock, self._log, self._cluster, self._metrics = clock, log, cluster, metrics
        self._balancers: dict[Key, _Balancer] = {}
        self._passes: list[_Pass] = []
        self._supported: bool | None = None  # whether the cloud has load balancers; None before the first call
        # By Service whose calls are throttled: reason and message of events, and when each was last recorded.
        self._recorded: dict[Key, dict[tuple[str, str], float]] = {}

    # The queue of nodes.

    def reconcile_nodes(self, _key: str) -> Reconciliation:
        """Enqueue the Services whose load balancer must be updated after a change of its target nodes."""
        targets = targets_of(self._nodes.entries())
        due = [
            key
            for key, balancer in self._balancers.items()
            if balancer.targets != targets and wants_load_balancer(balancer.service)
        ]
        self._passes.append(_Pass(self._clock.monotonic(), set(due)))
        yield from self._enqueue_services(due)
        self._record_synced(None)
        return None

    def _enqueue_services(self, due: Sequence[Key]) -> Step[None]:
        for key in due:
            yield Enqueue(QUEUE, key)

    def _record_synced(self, key: Key | None) -> None:
        """Record that a Service has been synced, for the metric of updates after a change of nodes.

        When the last Service affected by a change of nodes has been synced, the duration is recorded. key: None if the
        change did not affect any Service.
        """
        for node_pass in list(self._passes):
            if key is not None:
                node_pass.waiting.discard(key)
            if not node_pass.waiting:
                self._passes.remove(node_pass)
                self._metrics.observe_pass(self._clock.monotonic() - node_pass.began)

    # The queue of Services.

    def reconcile(self, key: Key) -> Reconciliation:
        """Create, update or delete the load balancer of a Service, as its current version requires.

        Source: syncService.
        """
        if self._supported is False:
            self._record_synced(key)
            yield Because("the cloud has no load balancers")
            return None
        service, known, throttled = self._services.get(key), self._balancers.get(key), False
        try:
            if known is not None and (service is None or uid_of(service) != uid_of(known.service)):
                yield from self._delete_for_deleted_service(key, known.service)
                known = None
            if service is None:
                return None
            if wants_load_balancer(service) and not needs_cleanup(service):
                yield from self._sync_load_balancer(key, service, known)
            elif known is not None or needs_cleanup(service):
                yield from self._delete_load_balancer(key, service)
        except Retry:
            throttled = True
            raise
        finally:
            if not throttled:
                self._recorded.pop(key, None)
            self._record_synced(key)
        return None

    def _sync_load_balancer(self, key: Key, service: Object, known: _Balancer | None) -> Step[None]:
        """Create or update the load balancer of a Service, or update only its targets if nothing else has changed.

        known: record of the load balancer; None before the first sync.
        """
        has_own_finalizer = has_finalizer(service)
        if is_deleting(service) and not has_own_finalizer:  # no finalizer can be added any more
            if known is not None:
                yield from self._delete_load_balancer(key, service)
            return
        if not has_own_finalizer and self._supported is None and not (yield from self._is_supported(service)):
            return
        if known is None:
            known = self._balancers[key] = _Balancer(service)
        known.service = service
        # The API server clears the status when the type of a Service is changed, also if it is changed back.
        lost_address = known.published and ingress_of(service) is None
        if has_own_finalizer and not lost_address and known.ensured == desired_state(service):
            if (yield from self._update_hosts(service, known)):
                return
        known.ensured = None
        yield Because("ensures its load balancer: it is new, or its spec, address or finalizer has changed")
        yield from self._ensure(service, known)
        known.ensured = desired_state(service)

    def _is_supported(self, service: Object) -> Step[bool]:
        """Report whether the cloud supports load balancers, by a call for this Service. True if the call fails."""
        outcome = yield from perform(GetLoadBalancer(self._cluster, encode_object(service)))
        if isinstance(outcome, Invalid) and outcome.code == NOT_SUPPORTED:
            self._supported = False
            self._log.error("services of type LoadBalancer will fail", error=outcome.message)
            return False
        if isinstance(outcome, Done):
            self._supported = True
        return True

    def _ensure(self, service: Object, known: _Balancer) -> Step[None]:
        """Add the finalizer, create or update the load balancer in the cloud, and write its address to the Service."""
        key = key_of(service)
        yield from self._record(service, "Normal", "EnsuringLoadBalancer", "Ensuring load balancer")
        if not has_finalizer(service):
            added = in_element_order(metadata(service), {"finalizers": [FINALIZER]})
            body = {"metadata": {"uid": uid_of(service), **added}}
            done = yield from self._write(service, body, "failed to add load balancer cleanup finalizer")
            service = decode_object(done.body)
        nodes = self._targets()
        if not nodes:
            yield self._unavailable(service)
        known.targets = targets_of(nodes)
        call = EnsureLoadBalancer(self._cluster, encode_object(service), encode_nodes(nodes))
        outcome = yield from perform(call)
        if is_implemented_elsewhere(outcome):
            return
        if not isinstance(outcome, Done):
            yield from self._report(service, "failed to ensure load balancer", outcome)
            raise_for(call, outcome)
        status = orjson.loads(outcome.body)
        if status is None:
            message = "service status returned by EnsureLoadBalancer is nil"
            yield self._event(service, "Warning", "SyncLoadBalancerFailed", f"Error syncing load balancer: {message}")
            raise ValueError(message)
        yield self._event(service, "Normal", "EnsuredLoadBalancer", "Ensured load balancer")
        self._log.info("load balancer ensured", key=key, nodes=len(nodes))
        ingress = status.get("ingress") or None
        if ingress != ingress_of(service):
            patched = {"metadata": {"uid": uid_of(service)}, "status": {"loadBalancer": {"ingress": ingress}}}
            yield from self._write(service, patched, "failed to update load balancer status", ignore_missing=True)
        known.published = ingress is not None

    def _update_hosts(self, service: Object, known: _Balancer) -> Step[bool]:
        """Update the target nodes of a load balancer. Returns False if it must be created or updated as a whole."""
        nodes = self._targets()
        targets = targets_of(nodes)
        if targets == known.targets:
            return True
        known.targets = targets
        yield Because(f"the target nodes of its load balancer have changed: sends {counted(len(targets), 'node')}")
        self._metrics.synced()
        began = self._clock.monotonic()
        call = UpdateLoadBalancer(self._cluster, encode_object(service), encode_nodes(nodes))
        outcome = yield from perform(call)
        self._metrics.observe_update(self._clock.monotonic() - began)
        if isinstance(outcome, Done):
            if nodes:
                yield self._event(service, "Normal", "UpdatedLoadBalancer", "Updated load balancer with new hosts")
            else:
                yield self._unavailable(service)
            self._log.info("load balancer updated", key=key_of(service), nodes=len(nodes))
            return True
        if is_implemented_elsewhere(outcome):
            return True
        known.ensured = None
        if isinstance(outcome, Refused):
            raise CommandError(call, outcome)
        existing = yield from perform(GetLoadBalancer(self._cluster, encode_object(service)))
        if isinstance(existing, Done) and orjson.loads(existing.body) is None:
            return False
        self._metrics.failed()
        message = (
            f"Error updating load balancer with new hosts {format_node_names([node.key for node in nodes])} "
            f"[node names limited, total number of nodes: {len(nodes)}], error: {outcome.message}"
        )
        yield from self._record(service, "Warning", "UpdateLoadBalancerFailed", message)
        if isinstance(outcome, Throttled):
            raise_for(call, outcome)
        return False

    def _delete_load_balancer(self, key: Key, service: Object) -> Step[None]:
        """Delete the load balancer of a Service that is terminating or does not need it any more.

        Afterwards the finalizer and the address are removed from the Service.
        """
        yield Because("needs no load balancer any more: deletes it")
        call: CloudCall = GetLoadBalancer(self._cluster, encode_object(service))
        outcome = yield from perform(call)
        if not isinstance(outcome, Done):
            what = "failed to check if load balancer exists before cleanup"
            yield from self._report(service, what, outcome)
            raise_for(call, outcome)
        elif orjson.loads(outcome.body) is not None:
            yield from self._record(service, "Normal", "DeletingLoadBalancer", "Deleting load balancer")
            call = DeleteLoadBalancer(self._cluster, encode_object(service))
            outcome = yield from perform(call)
            if not (isinstance(outcome, Done) or is_implemented_elsewhere(outcome)):
                yield from self._report(service, "failed to delete load balancer", outcome)
                raise_for(call, outcome)
            self._log.info("load balancer deleted", key=key)
        body: dict[str, Any] = {"metadata": {"uid": uid_of(service)}}
        if has_finalizer(service):
            body["metadata"]["$deleteFromPrimitiveList/finalizers"] = [FINALIZER]
        if ingress_of(service) is not None:
            body["status"] = {"loadBalancer": {"ingress": None}}
        if len(body["metadata"]) > 1 or "status" in body:
            what = "failed to remove load balancer cleanup finalizer"
            yield from self._write(service, body, what, ignore_missing=True)
        yield self._event(service, "Normal", "DeletedLoadBalancer", "Deleted load balancer")
        self._balancers.pop(key, None)

    def _delete_for_deleted_service(self, key: Key, service: Object) -> Step[None]:
        """Delete the load balancer of a Service that has been deleted without this controller's cleanup.

        This happens if another client removes the finalizer. service: the version that was last synced.
        """
        if wants_load_balancer(service):
            yield Because("was deleted without cleanup: deletes its load balancer")
            yield from self._record(service, "Normal", "DeletingLoadBalancer", "Deleting load balancer")
            call = DeleteLoadBalancer(self._cluster, encode_object(service))
            outcome = yield from perform(call)
            if not (isinstance(outcome, Done) or is_implemented_elsewhere(outcome)):
                message = f"Error deleting load balancer: {outcome.message}"
                if not isinstance(outcome, Refused):
                    yield from self._record(service, "Warning", "DeleteLoadBalancerFailed", message)
                raise_for(call, outcome)
            yield self._event(service, "Normal", "DeletedLoadBalancer", "Deleted load balancer")
            self._log.info("deleted the load balancer of a deleted service", key=key)
        self._balancers.pop(key, None)

    # Helpers of both kinds of sync.

    def _targets(self) -> list[Entry]:
        nodes = [node for node in self._nodes.entries() if is_target(node.facts)]
        return sorted(nodes, key=lambda node: node.key)

    def _write(self, service: Object, body: Object, what: str, *, ignore_missing: bool = False) -> Step[Done]:
        """Patch the Service through its status subresource. Raises CommandError after an event if the patch failed.

        what: the purpose of the patch, for the event.
        ignore_missing: whether to return normally if the Service has been deleted.
        """
        command = patch(SERVICES, key_of(service), body, patch_type=PatchType.STRATEGIC, subresource="status")
        outcome = yield from perform(command)
        if isinstance(outcome, Done):
            return outcome
        if isinstance(outcome, NotFound) and ignore_missing:
            return Done(b"")
        yield from self._report(service, what, outcome)
        raise CommandError(command, outcome)

    def _report(self, service: Object, what: str, outcome: Failure) -> Step[None]:
        if not isinstance(outcome, Refused):
            message = f"Error syncing load balancer: {what}: {outcome.message}"
            yield from self._record(service, "Warning", "SyncLoadBalancerFailed", message)

    def _unavailable(self, service: Object) -> Record:
        message = "There are no available nodes for LoadBalancer"
        return self._event(service, "Warning", "UnAvailableLoadBalancer", message)

    def _record(self, service: Object, type: RecordType, reason: str, message: str) -> Step[None]:
        """Record an event about a Service. While the cloud throttles its calls, equal events are dropped for 60 s."""
        recorded, now = self._recorded.setdefault(key_of(service), {}), self._clock.monotonic()
        if now < recorded.get((reason, message), -EQUAL_EVENTS) + EQUAL_EVENTS:
            return
        recorded[reason, message] = now
        yield self._event(service, type, reason, message)

    def _event(self, service: Object, type: RecordType, reason: str, message: str) -> Record:
        return record(SERVICES, service, type, reason, message)


def raise_for(call: CloudCall, outcome: Failure) -> NoReturn:
    """Raise the error for a failed call to the cloud, so that the Service is retried.

    If the cloud returned a time after which to retry, this is Retry with that delay. Otherwise it is CommandError,
    which is retried with backoff.
    """
    if isinstance(outcome, Throttled) and outcome.retry_after:
        raise Retry(outcome.message, after=outcome.retry_after)
    raise CommandError(call, outcome)


def is_implemented_elsewhere(outcome: Outcome) -> bool:
    """Report whether another controller is responsible for the load balancer (upstream: ImplementedElsewhere)."""
    return isinstance(outcome, Invalid) and outcome.code == ELSEWHERE


def encode_nodes(nodes: Iterable[Entry]) -> bytes:
    return b"[" + b",".join(node.raw for node in nodes) + b"]"


def ingress_of(service: Object) -> Any:
    """Return status.loadBalancer.ingress; None if it is empty."""
    return ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or None
