"""Reconciler of the EndpointSlice controller: writes the endpoints of a Service to its EndpointSlices.

Input: Services with a selector, pods, nodes (zones, CPUs), and the slices of this controller. Output: EndpointSlices,
and events about the Service. Key of the main queue: "namespace/name" of a Service.

Source: kubernetes v1.36 pkg/controller/endpointslice/endpointslice_controller.go and
staging/src/k8s.io/endpointslice/{reconciler,utils}.go. Differences:
- Upstream's tracker of slices is not needed: the lister includes the writes of this controller. So a sync never sees
  slices older than its own writes, and never has the result "stale".
- Names of slices are generated here (actors/controllers/shared/generated_names.py), so that a retried creation does not
  create a second slice.
- Every update has the resourceVersion that was read as precondition, also if a slice to delete is reused for a new one.
- Creations are sent concurrently, and so are deletions.
- The next sync of a Service starts at least 0.1 s after the writes of the previous one, so that changes of pods are
  batched. Upstream starts it at once, fails until the watch has reported those writes, and retries after a second.
- Every change of a slice by another client is reverted, including labels, and also after a restart. A slice whose
  managed-by label was changed is replaced; upstream then writes no slice of the Service, because its tracker waits for
  that slice.
- Missing endpoints and ports are sent as empty lists, upstream as null: managedFields contain them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kcm.actors.controllers.network.endpointslice.metrics import SliceMetrics
from kcm.actors.controllers.network.endpointslice.settled_services import SettledServices
from kcm.actors.controllers.network.endpointslice.slice_plan import (
    Endpoints,
    SlicePlan,
    is_owned_by,
    labels_for,
    plan_slices,
)
from kcm.actors.controllers.network.endpointslice.topology import Notice, Topology, is_auto
from kcm.actors.controllers.network.endpointslice.traffic_distribution import KNOWN, add_proximity_hints, remove_hints
from kcm.actors.controllers.network.shared.addresses import IPV4, IPV6, addresses_of, read_address
from kcm.actors.controllers.network.shared.ports import PodPorts, Ports
from kcm.actors.controllers.network.shared.selected_pods import hostname_of, selected_pods
from kcm.actors.controllers.network.shared.slice_writes import SliceWrites
from kcm.actors.controllers.network.shared.slices import SERVICE, SliceChange, identity_of, managed_value
from kcm.actors.controllers.network.shared.trigger_times import TriggerTimes
from kcm.actors.reconciliation import Because, Enqueue, Reconciliation, Step, record
from kcm.protocols.errors import aggregate
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Create, Delete, Update
from kcm.protocols.messages.outcomes import Refused
from kcm.protocols.objects import (
    Key,
    Object,
    annotations_of,
    is_deleting,
    metadata,
    resource_version_of,
    split_key,
    uid_of,
)
from kcm.protocols.pods import is_terminal
from kcm.protocols.resources import ENDPOINT_SLICES, NODES, PODS, SERVICES
from kcm.protocols.services import TRIGGER_TIME, has_cluster_ip
from kcm.protocols.versions import parse_version
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

MANAGER = "endpointslice-controller.k8s.io"
QUEUE = "endpoint_slice"
SETTLE = 1.0  # seconds from a change by another client to the sync: more changes may follow
MIN_INTERVAL = 0.1  # seconds from the writes of a sync to the next sync of the Service


class MissingNodeError(ValueError):
    """Raised after a sync that left out a pod because its node does not exist. All other endpoints were written."""


class EndpointSliceReconciler:
    """Reconciler of the EndpointSlices of Services. Key: "namespace/name" of a Service.

    For each Service it caches the ports of its pods, the times of the changes seen at the last sync, the number of
    hints for each zone, and the time before which it must not be synced again. For a large Service it also caches what
    need not be compared again.
    """

    def __init__(
        self,
        *,
        tables: Tables,
        clock: Clock,
        metrics: SliceMetrics,
        log: FilteringBoundLogger,
        max_endpoints: int,
        batch_period: float = 0.0,
    ) -> None:
        """Create the reconciler.

        max_endpoints: maximum number of endpoints in an EndpointSlice.
        batch_period: seconds for which changes of slices are collected before a sync.
        """
        self._services, self._pods, self._nodes = tables[SERVICES], tables[PODS], tables[NODES]
        self._slices = tables[ENDPOINT_SLICES]
        self._clock, self._metrics, self._log = clock, metrics, log
        self._max_endpoints, self._batch_period = max_endpoints, batch_period
        self._trigger_times = TriggerTimes()
        self._topology = Topology(self._nodes)
        self._writes = SliceWrites(self._slices, changed=metrics.changed)
        self._ports: dict[Key, PodPorts] = {}
        self._next: dict[Key, float] = {}  # monotonic time of the earliest next sync
        self._settled = SettledServices(self._slices, self._writes, manager=MANAGER, max_endpoints=max_endpoints)

    # Queues for changes of slices and nodes.

    def reconcile_slice(self, change: SliceChange) -> Reconciliation:
        """Enqueue the Services of an EndpointSlice that another client has changed."""
        if self._writes.is_foreign(change, MANAGER):
            for service in change.services:
                yield Enqueue(QUEUE, service, after=max(SETTLE, self._batch_period))
        return None

    def reconcile_topology(self, _key: str) -> Reconciliation:
        """Enqueue the Services whose hints must be recomputed because the CPUs of the zones have changed."""
        for service in self._topology.nodes_changed():
            yield Enqueue(QUEUE, service)
        return None

    # Main queue, of Services.

    def reconcile(self, key: Key) -> Reconciliation:
        """Write the EndpointSlices of a Service. Within 0.1 s of the previous writes, the Service is requeued instead.

        Source: syncService.
        """
        service = self._services.get(key)
        if service is None:
            self._forget(key)
            self._metrics.synced("success")
            return None
        spec = service.get("spec") or {}
        if spec.get("type") == "ExternalName" or spec.get("selector") is None:
            self._metrics.synced("success")
            yield Because("has no selector or is an ExternalName: its EndpointSlices are left alone")
            return None
        delay = self._next.get(key, 0.0) - self._clock.monotonic()
        if delay > 0:
            yield Because(f"was written less than {MIN_INTERVAL} s ago: collects further changes")
            yield Enqueue(QUEUE, key, after=delay)
            return None
        errors: list[str] = []
        try:
            yield from self._sync(key, service, spec, errors)
        except (CommandError, MissingNodeError) as err:
            self._metrics.synced("error")
            if not (isinstance(err, CommandError) and isinstance(err.failure, Refused)):
                text = f"Error updating Endpoint Slices for Service {key}: {aggregate(errors)}"
                yield record(SERVICES, service, "Warning", "FailedToUpdateEndpointSlices", text)
            raise
        self._metrics.synced("success")
        return None

    def _forget(self, key: Key) -> None:
        self._next.pop(key, None)
        self._settled.forget(key)
        self._trigger_times.forget(key)
        self._topology.forget(key)
        self._metrics.forget(key)
        self._writes.forget(key)
        self._ports.pop(key, None)

    def _sync(self, key: Key, service: Object, spec: Mapping[str, Any], errors: list[str]) -> Step[None]:
        """Plan and write the EndpointSlices of a Service, for each of its address types.

        If a write fails, the other address types are still written. Then the first CommandError is raised, or
        MissingNodeError if only pods were left out.

        errors: list to which the messages of all errors are appended, in upstream's wording.
        """
        namespace, _ = split_key(key)
        pods = selected_pods(self._pods, namespace, tuple(spec["selector"].items()))
        entries = self._slices.indexed_entries(SERVICE, managed_value(key, MANAGER))
        version = parse_version(resource_version_of(service)) or 0
        part = self._settled.changed_part(key, version, pods, entries)
        slices = [
            slice_
            for slice_ in map(self._slices.object_of, entries if part is None else part.slices)
            if not is_deleting(slice_)
        ]
        if part is None:
            trigger_time = self._trigger_times.next_time(key, service, pods)
        else:
            trigger_time = self._trigger_times.next_time(key, service, part.changed, gone=part.gone)
        types = address_types(spec)
        failure: CommandError | None = None
        is_complete = is_written = True
        for address_type in types:
            missing: list[str] = []
            present = [slice_ for slice_ in slices if slice_.get("addressType") == address_type]
            desired = self._desired(key, service, pods if part is None else part.pods, address_type, missing)
            plan = self._plan(
                service, present, desired, address_type, has_others=part is not None and part.others.slices > 0
            )
            if part is not None:
                plan.groups = part.all_groups(plan.groups)
            self._metrics.planned(key, plan.groups, added=plan.added, removed=plan.removed)
            is_complete = is_complete and not missing
            errors += missing
            notices = self._add_hints(key, service, plan, address_type)
            try:
                is_written = (yield from self._write(key, service, plan, trigger_time)) and is_written
            except CommandError as err:
                failure = failure or err
                errors.append(_failed(err, key))
            for notice in notices:
                yield record(SERVICES, service, notice.type, notice.reason, notice.message)
        others = [slice_ for slice_ in slices if slice_.get("addressType") not in types]
        for slice_ in others:
            self._topology.forget(key, slice_.get("addressType") or "")
        try:
            yield from self._writes.delete(others)
        except CommandError as err:
            failure = failure or err
            errors.append(_failed(err, key).replace("failed to delete", "error deleting", 1))
        if failure is not None:
            raise failure
        if not is_complete:
            yield Because(f"leaves out pods whose node is not known yet: {errors[0]}")
            raise MissingNodeError(aggregate(errors))
        distribution = spec.get("trafficDistribution")
        has_hints = is_auto(annotations_of(service)) or distribution in KNOWN
        if is_written and len(types) == 1 and not others and not has_hints and self._ports[key].by_number:
            self._settled.settle(key, version, pods, plan, part)

    def _desired(
        self, key: Key, service: Object, pods: Sequence[Entry], address_type: str, missing: list[str]
    ) -> dict[Ports, Endpoints]:
        """Return the desired endpoints of a Service for one address type, by their ports.

        pods: the pods that the Service selects.
        missing: list to which a message is appended for each pod that is left out because its node does not exist.
        """
        spec = service["spec"]
        all_ready = bool(spec.get("publishNotReadyAddresses"))
        ports = self._ports_of(key, spec)
        found: dict[Ports, Endpoints] = {}
        zones: dict[str, str | None] = {}
        for pod in pods:
            facts = pod.facts
            if not facts.ips or is_terminal(facts):
                continue
            group = found.setdefault(ports.ports_of_pod(self._pods, pod), {})
            if facts.node not in zones:
                node = self._nodes.entry(facts.node) if facts.node else None
                zones[facts.node] = None if node is None else node.facts.topology_zone
            zone = zones[facts.node]
            if zone is None and not all_ready:
                name = split_key(pod.key)[1]
                missing.append(f"skipping Pod {name} for Service {key}: Node {facts.node} Not Found")
                continue
            addresses = addresses_of(facts.ips, address_type)
            if addresses:
                endpoint = self._endpoint(key, pod, addresses, zone, all_ready=all_ready)
                group[identity_of(endpoint)] = endpoint
        if not ports.by_number:  # then `pods` are all pods of the Service
            ports.retain(pods)
        return found

    def _ports_of(self, key: Key, spec: Mapping[str, Any]) -> PodPorts:
        known = self._ports.get(key)
        if known is None or known.service_ports != (spec.get("ports") or ()):
            known = self._ports[key] = PodPorts(spec)
        return known

    def _endpoint(
        self, service: Key, pod: Entry, addresses: Sequence[str], zone: str | None, *, all_ready: bool
    ) -> dict[str, Any]:
        facts = pod.facts
        namespace, name = split_key(pod.key)
        endpoint: dict[str, Any] = {
            "addresses": list(addresses),
            "conditions": {
                "ready": all_ready or (facts.ready and not facts.deleting),
                "serving": facts.ready,
                "terminating": facts.deleting,
            },
            "targetRef": {"kind": "Pod", "namespace": namespace, "name": name, "uid": pod.uid},
        }
        if facts.node:
            endpoint["nodeName"] = facts.node
        if zone:
            endpoint["zone"] = zone
        hostname = hostname_of(self._pods, pod, service)
        if hostname:
            endpoint["hostname"] = hostname
        return endpoint

    def _plan(
        self,
        service: Object,
        present: Iterable[Object],
        desired: dict[Ports, Endpoints],
        address_type: str,
        *,
        has_others: bool,
    ) -> SlicePlan:
        labels = labels_for(service, manager=MANAGER, headless=not has_cluster_ip(service["spec"]))
        return plan_slices(
            present,
            desired,
            labels=labels,
            owner_uid=uid_of(service),
            address_type=address_type,
            max_endpoints=self._max_endpoints,
            has_others=has_others,
        )

    def _add_hints(self, key: Key, service: Object, plan: SlicePlan, address_type: str) -> list[Notice]:
        """Set or remove the hints of the planned endpoints, as the Service requires. Returns the events to record."""
        distribution = service["spec"].get("trafficDistribution") or ""
        if is_auto(annotations_of(service)):
            self._metrics.distribute(key, "")
            return self._topology.add_hints(plan, key, address_type)
        notices = self._topology.remove_hints(key, address_type)
        if distribution in KNOWN:
            self._metrics.distribute(key, distribution)
            add_proximity_hints(plan, distribution)
        else:
            self._metrics.distribute(key, "")
            remove_hints(plan)
        return notices

    def _write(self, key: Key, service: Object, plan: SlicePlan, trigger_time: str) -> Step[bool]:
        """Write the planned EndpointSlices of a Service, and set the time before which it must not be synced again.

        Returns False if the namespace is terminating.
        """
        create, update, removed = recycled(plan, owner_uid=uid_of(service))
        if is_deleting(service):
            create = []  # the garbage collector will delete the slices of the Service
        for slice_ in (*create, *update):
            set_trigger_time(slice_, trigger_time)
        if create or update or removed:
            yield Because(
                f"its endpoints or labels have changed: creates {len(create)}, updates {len(update)} and deletes "
                f"{len(removed)} EndpointSlices"
            )
        done = yield from self._writes.write(key, service, SERVICES, create=create, update=update, delete=removed)
        if not done:
            return False
        auto = is_auto(annotations_of(service))
        distribution = service["spec"].get("trafficDistribution") or ""
        written = len(create) + len(update) + len(removed)
        self._metrics.written(
            written, auto=auto, distribution="" if auto or distribution not in KNOWN else distribution
        )
        if written:
            self._next[key] = self._clock.monotonic() + MIN_INTERVAL
            self._log.info("slices written", key=key, created=len(create), updated=len(update), deleted=len(removed))
        return True


def _failed(err: CommandError, service: Key) -> str:
    match err.command:
        case Create():
            what = "create"
        case Update(key=slice_):
            what = f"update {split_key(slice_)[1]}"
        case Delete(key=slice_):
            what = f"delete {split_key(slice_)[1]}"
        case _:
            return str(err)
    return f"failed to {what} EndpointSlice for Service {service}: {err.failure.message}"


def address_types(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the address types of the EndpointSlices that a Service needs. Source: getAddressTypesForService.

    These are its ipFamilies. A Service that was stored by an old API server has no ipFamilies; then the family of its
    clusterIP is used or, if it is headless, both families.
    """
    families = tuple(dict.fromkeys(family for family in spec.get("ipFamilies") or () if family in (IPV4, IPV6)))
    if families:
        return families
    if has_cluster_ip(spec):
        address = read_address(spec["clusterIP"])
        return (IPV4,) if address is None else (address.family,)
    return (IPV4, IPV6)


def recycled(plan: SlicePlan, *, owner_uid: str) -> tuple[list[Object], list[Object], list[Object]]:
    """Return the EndpointSlices to create, to update and to delete.

    Where a slice would be deleted and another one of the same address type created, the first is updated with the
    content of the second instead. Source: finalize.
    """
    create, update, removed = list(plan.create), list(plan.update), []
    for slice_ in plan.delete:
        if create and create[-1].get("addressType") == slice_.get("addressType") and is_owned_by(slice_, owner_uid):
            new = create.pop()
            update.append({**slice_, **new, "metadata": {**metadata(slice_), **new["metadata"]}})
        else:
            removed.append(slice_)
    return create, update, removed


def set_trigger_time(slice_: Object, time: str) -> None:
    """Set the annotation endpoints.kubernetes.io/last-change-trigger-time of an EndpointSlice.

    time: RFC 3339 timestamp; "" removes the annotation.
    """
    annotations = {**annotations_of(slice_)}
    annotations.pop(TRIGGER_TIME, None)
    if time:
        annotations[TRIGGER_TIME] = time
    slice_["metadata"] = {**metadata(slice_), "annotations": annotations}
