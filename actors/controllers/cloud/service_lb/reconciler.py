"""Service load balancer controller: maintains load balancers in the cloud for Services of type LoadBalancer.

In: Services, nodes, the cloud. Out: calls of the cloud; the finalizer service.kubernetes.io/load-balancer-cleanup and
status.loadBalancer of Services, both by patches of their status; events. Key of the queue "service": "namespace/name".
The queue "node" has one key; its sync finds the load balancers whose targets are outdated.

Source: kubernetes v1.36 staging/src/k8s.io/cloud-provider/controllers/service/controller.go. Differences:
- All calls for a Service are made by the sync of its key, one after the other: an update of hosts cannot overtake an
  older one.
- When the load balancer is deleted, finalizer and status are removed by one patch: a crash cannot leave the address.
- A finalizer that another client removed is added again. If the Service is deleted without it, its load balancer is
  deleted too.
- A Service that lost its address because its type was changed for a moment is given the address again.
- A load balancer that is missing when its hosts are updated is created again. If the cloud returned a time to retry
  after, it is not called before. No load balancer is created for a terminating Service without the finalizer.
- While a call is throttled, equal events about the Service are recorded once a minute. Upstream records two at each
  retry, and its recorder then drops the Service's other events for minutes.
- A cloud without load balancers is detected by the first call, before a finalizer is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, NoReturn

import orjson

from kcm.actors.controllers.cloud.service_lb.load_balancers import (
    FINALIZER,
    Targets,
    desired_state,
    has_finalizer,
    is_target,
    loggable,
    needs_cleanup,
    needs_update,
    targets_of,
    wants_load_balancer,
)
from kcm.actors.reconciliation import Change, Enqueue, Reconciliation, Retry, Step, patch, perform, record
from kcm.actors.reconciliation.element_order import in_element_order
from kcm.protocols.late_methods import dataclass
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


def services_concerned(change: Change, _tables: Tables) -> Iterable[Key]:
    """Enqueue a Service whose change affects its load balancer, but not after this controller's own writes.

    Own writes must not shorten the backoff of a failed Service.
    """
    return (change.key,) if _is_concerned(change.old, change.new, gone=change.deleted) else ()


def _is_concerned(old: Object | None, new: Object, *, gone: bool) -> bool:
    if gone:
        return wants_load_balancer(new)
    if old is None:
        return wants_load_balancer(new) or needs_cleanup(new)
    unguarded = wants_load_balancer(new) and has_finalizer(old) and not has_finalizer(new)
    lost = wants_load_balancer(new) and ingress_of(old) is not None and ingress_of(new) is None
    return unguarded or lost or needs_update(old, new) or needs_cleanup(new)


def all_nodes(_change: Change, _tables: Tables) -> Iterable[str]:
    return (ALL_NODES,)


@dataclass(slots=True)
class _Balancer:
    """Record of a load balancer."""

    service: Object  # as it was last synced
    ensured: Any = None  # its desired_state, once the load balancer has been ensured
    published: bool = False  # the addresses have been written to the Service
    targets: Targets = field(default_factory=dict)  # as last sent to the cloud, even if the call failed


@dataclass(slots=True)
class _Pass:
    """Update of the targets of all load balancers, after a change of nodes."""

    began: float  # monotonic
    waiting: set[Key]  # Services whose load balancer is not updated yet


class ServiceMetrics:
    """The metrics that the controller writes, see spec.py."""

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
    """Reconciler of Services by "namespace/name", and of the targets of all load balancers."""

    def __init__(
        self, *, tables: Tables, clock: Clock, log: FilteringBoundLogger, cluster: str, metrics: ServiceMetrics
    ) -> None:
        self._services, self._nodes = tables[SERVICES], tables[NODES]
        self._clock, self._log, self._cluster, self._metrics = clock, log, cluster, metrics
        self._balancers: dict[Key, _Balancer] = {}
        self._passes: list[_Pass] = []
        self._supported: bool | None = None  # None before the first call of the cloud
        # By Service whose calls are throttled: reason and message of events, and when each was last recorded.
        self._recorded: dict[Key, dict[tuple[str, str], float]] = {}

    # The queue of nodes.

    def reconcile_nodes(self, _key: str) -> Reconciliation:
        """Enqueue the Services whose load balancer has outdated targets."""
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
        """Record that a Service has been synced, and end the passes that wait for no other Service."""
        for node_pass in list(self._passes):
            if key is not None:
                node_pass.waiting.discard(key)
            if not node_pass.waiting:
                self._passes.remove(node_pass)
                self._metrics.observe_pass(self._clock.monotonic() - node_pass.began)

    # The queue of Services.

    def reconcile(self, key: Key) -> Reconciliation:
        """Ensure or delete the load balancer of a Service. Source: syncService."""
        if self._supported is False:
            self._record_synced(key)
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
        """Ensure the load balancer of the Service, or update its targets."""
        guarded = has_finalizer(service)
        if is_deleting(service) and not guarded:  # no finalizer can be added any more
            if known is not None:
                yield from self._delete_load_balancer(key, service)
            return
        if not guarded and self._supported is None and not (yield from self._is_supported(service)):
            return
        if known is None:
            known = self._balancers[key] = _Balancer(service)
        known.service = service
        lost = known.published and ingress_of(service) is None  # the server clears the status when the type changes
        if guarded and not lost and known.ensured == desired_state(service):
            if (yield from self._update_hosts(service, known)):
                return
        known.ensured = None
        yield from self._ensure(service, known)
        known.ensured = desired_state(service)

    def _is_supported(self, service: Object) -> Step[bool]:
        outcome = yield from perform(GetLoadBalancer(self._cluster, encode_object(service)))
        if isinstance(outcome, Invalid) and outcome.code == NOT_SUPPORTED:
            self._supported = False
            self._log.error("services of type LoadBalancer will fail", error=outcome.message)
            return False
        if isinstance(outcome, Done):
            self._supported = True
        return True

    def _ensure(self, service: Object, known: _Balancer) -> Step[None]:
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
        if is_elsewhere(outcome):
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
            yield from self._write(service, patched, "failed to update load balancer status", but_gone=True)
        known.published = ingress is not None

    def _update_hosts(self, service: Object, known: _Balancer) -> Step[bool]:
        """Update the targets of the load balancer. Returns False if it must be ensured instead."""
        nodes = self._targets()
        targets = targets_of(nodes)
        if targets == known.targets:
            return True
        known.targets = targets
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
        if is_elsewhere(outcome):
            return True
        known.ensured = None
        if isinstance(outcome, Refused):
            raise CommandError(call, outcome)
        existing = yield from perform(GetLoadBalancer(self._cluster, encode_object(service)))
        if isinstance(existing, Done) and orjson.loads(existing.body) is None:
            return False
        self._metrics.failed()
        message = (
            f"Error updating load balancer with new hosts {loggable([node.key for node in nodes])} "
            f"[node names limited, total number of nodes: {len(nodes)}], error: {outcome.message}"
        )
        yield from self._record(service, "Warning", "UpdateLoadBalancerFailed", message)
        if isinstance(outcome, Throttled):
            raise_for(call, outcome)
        return False

    def _delete_load_balancer(self, key: Key, service: Object) -> Step[None]:
        """Delete the load balancer of a Service that is terminating, or no longer needs it."""
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
            if not (isinstance(outcome, Done) or is_elsewhere(outcome)):
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
            yield from self._write(service, body, what, but_gone=True)
        yield self._event(service, "Normal", "DeletedLoadBalancer", "Deleted load balancer")
        self._balancers.pop(key, None)

    def _delete_for_deleted_service(self, key: Key, service: Object) -> Step[None]:
        """Delete the load balancer of a deleted Service whose finalizer another client had removed."""
        if wants_load_balancer(service):
            yield from self._record(service, "Normal", "DeletingLoadBalancer", "Deleting load balancer")
            call = DeleteLoadBalancer(self._cluster, encode_object(service))
            outcome = yield from perform(call)
            if not (isinstance(outcome, Done) or is_elsewhere(outcome)):
                message = f"Error deleting load balancer: {outcome.message}"
                if not isinstance(outcome, Refused):
                    yield from self._record(service, "Warning", "DeleteLoadBalancerFailed", message)
                raise_for(call, outcome)
            yield self._event(service, "Normal", "DeletedLoadBalancer", "Deleted load balancer")
            self._log.info("load balancer of a deleted service deleted", key=key)
        self._balancers.pop(key, None)

    # Shared.

    def _targets(self) -> list[Entry]:
        nodes = [node for node in self._nodes.entries() if is_target(node.facts)]
        return sorted(nodes, key=lambda node: node.key)

    def _write(self, service: Object, body: Object, what: str, *, but_gone: bool = False) -> Step[Done]:
        """Patch the Service. but_gone: a deleted Service is not an error."""
        command = patch(SERVICES, key_of(service), body, patch_type=PatchType.STRATEGIC, subresource="status")
        outcome = yield from perform(command)
        if isinstance(outcome, Done):
            return outcome
        if isinstance(outcome, NotFound) and but_gone:
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
        """Record an event, unless an equal one was recorded within EQUAL_EVENTS while calls are throttled."""
        recorded, now = self._recorded.setdefault(key_of(service), {}), self._clock.monotonic()
        if now < recorded.get((reason, message), -EQUAL_EVENTS) + EQUAL_EVENTS:
            return
        recorded[reason, message] = now
        yield self._event(service, type, reason, message)

    def _event(self, service: Object, type: RecordType, reason: str, message: str) -> Record:
        return record(SERVICES, service, type, reason, message)


def raise_for(call: CloudCall, outcome: Failure) -> NoReturn:
    """Raise the error of a failed call: retried after the cloud's retry_after if it has one, otherwise with backoff."""
    if isinstance(outcome, Throttled) and outcome.retry_after:
        raise Retry(outcome.message, after=outcome.retry_after)
    raise CommandError(call, outcome)


def is_elsewhere(outcome: Outcome) -> bool:
    """Report whether another controller is responsible for the load balancer (upstream: ImplementedElsewhere)."""
    return isinstance(outcome, Invalid) and outcome.code == ELSEWHERE


def encode_nodes(nodes: Iterable[Entry]) -> bytes:
    return b"[" + b",".join(node.raw for node in nodes) + b"]"


def ingress_of(service: Object) -> Any:
    """Return status.loadBalancer.ingress; None if it is empty."""
    return ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or None
