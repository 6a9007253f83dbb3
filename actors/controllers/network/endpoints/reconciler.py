"""Reconciler of the endpoints controller: writes the addresses of the pods of a Service to its Endpoints.

Input: Services with a selector, pods, deletions of Endpoints. Output: Endpoints and events about them. Key of the main
queue: "namespace/name" of the Service and its Endpoints.

Source: kubernetes v1.36 pkg/controller/endpoint/endpoints_controller.go. Differences:
- Upstream's tracker of stale Endpoints is not needed: the lister includes the writes of this controller.
- Truncated Endpoints, and those of Services with reserved labels, are not written again at every sync.
- The event about Endpoints that could not be created is in their namespace, upstream in "default".
- The address of a pod without a node has no nodeName, upstream an empty one, which the server rejects.
- Endpoints of a deleted Service are deleted with the uid from the table as precondition, if they exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kcm.actors.controllers.network.endpoints.capacity import CAPACITY, NOT_READY, READY, TRUNCATED, truncated
from kcm.actors.controllers.network.endpoints.large_services import Contribution, LargeService
from kcm.actors.controllers.network.shared.addresses import IPV4, addresses_of, read_address
from kcm.actors.controllers.network.shared.ports import EndpointPort, PodPorts
from kcm.actors.controllers.network.shared.selected_pods import hostname_of, selected_pods
from kcm.actors.controllers.network.shared.subsets import endpoint_port, repacked, unversioned
from kcm.actors.controllers.network.shared.trigger_times import TriggerTimes
from kcm.actors.controllers.shared.pod_control import is_namespace_terminating
from kcm.actors.reconciliation import (
    Because,
    Enqueue,
    Reconciliation,
    Step,
    create,
    delete,
    get_live,
    must,
    record,
    update,
)
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import AlreadyExists, Done, NotFound, Refused
from kcm.protocols.objects import Key, Object, annotations_of, labels_of, metadata, resource_version_of, split_key
from kcm.protocols.pods import is_terminal
from kcm.protocols.resources import ENDPOINTS, PODS, SERVICES
from kcm.protocols.services import HEADLESS, LEADER, NO_CLUSTER_IP, OVER_CAPACITY, TRIGGER_TIME, has_cluster_ip
from kcm.protocols.versions import parse_version
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

QUEUE = "endpoint"
MANAGED_BY = "endpoints.kubernetes.io/managed-by"
MANAGER = "endpoint-controller"


class EndpointsReconciler:
    """Reconciler of the Endpoints of Services. Key: "namespace/name" of a Service and its Endpoints.

    For each Service it caches the ports of its pods, and the times of the changes seen at the last sync.
    """

    def __init__(self, *, tables: Tables, log: FilteringBoundLogger) -> None:
        self._services, self._pods, self._endpoints = tables[SERVICES], tables[PODS], tables[ENDPOINTS]
        self._log = log
        self._trigger_times = TriggerTimes()
        self._ports: dict[Key, PodPorts] = {}
        self._large: dict[Key, LargeService] = {}

    def sweep(self) -> Reconciliation:
        """Enqueue Endpoints whose Service does not exist, so that they are deleted. Runs once at the start.

        Endpoints that serve as the lock of a leader election are kept. Source: checkLeftoverEndpoints.
        """
        for entry in self._endpoints.entries():
            if self._services.entry(entry.key) is None and LEADER not in annotations_of(
                self._endpoints.object_of(entry)
            ):
                yield Enqueue(QUEUE, entry.key)
        return None

    def reconcile(self, key: Key) -> Reconciliation:
        """Write the Endpoints of a Service, or delete them if the Service does not exist. Source: syncService."""
        service = self._services.get(key)
        if service is None:
            self._trigger_times.forget(key)
            self._ports.pop(key, None)
            self._large.pop(key, None)
            yield from self._delete(key)
            return None
        spec = service.get("spec") or {}
        if spec.get("type") == "ExternalName" or spec.get("selector") is None:
            yield Because("the Service has no selector or is an ExternalName: its Endpoints are left alone")
            return None
        namespace, _ = split_key(key)
        pods = selected_pods(self._pods, namespace, tuple(spec["selector"].items()))
        trigger_time = self._trigger_times.next_time(key, service, pods)
        subsets = self._truncated_subsets(key, service, pods)
        if subsets is not None:
            yield from self._write(key, service, subsets, trigger_time, over_capacity=True)
            return None
        subsets = repacked(self._subsets(key, spec, pods))
        fitting = truncated(subsets)
        if fitting is not None:
            subsets = fitting
        yield from self._write(key, service, subsets, trigger_time, over_capacity=fitting is not None)
        return None

    def _truncated_subsets(self, key: Key, service: Object, pods: Sequence[Entry]) -> list[Object] | None:
        """Return the subsets of a Service whose pods have the same ports and more addresses than Endpoints may contain.

        Returns None for all other Services.
        """
        spec = service["spec"]
        ports = self._ports_of(key, spec)
        if len(pods) <= CAPACITY or not ports.by_number or not ports.common_ports:
            self._large.pop(key, None)
            return None
        version = parse_version(resource_version_of(service)) or 0
        large = self._large.get(key)
        if large is None or large.version != version:
            large = self._large[key] = LargeService(version)

        def contribution_of(pod: Entry) -> Contribution | None:
            address, ready = self._address(key, spec, pod), self._readiness(spec, pod)
            return None if address is None or ready is None else (address, ready)

        large.update(pods, contribution_of)
        return large.subsets(_objects(ports.common_ports)) if large.is_over_capacity else None

    def _delete(self, key: Key) -> Step[None]:
        self._services.require(key)
        entry = self._endpoints.entry(key)
        if entry is not None:
            yield Because("its Service does not exist: deletes the Endpoints")
            yield from must(delete(ENDPOINTS, entry), but=(NotFound,))
            self._log.info("endpoints deleted", key=key)

    def _subsets(self, key: Key, spec: Mapping[str, Any], pods: Iterable[Entry]) -> Iterable[Object]:
        """Yield a subset of the Endpoints for each pod that has an endpoint, with its address and ports.

        key, spec: of the Service.
        pods: the pods that the Service selects.
        """
        known = self._ports_of(key, spec)
        without_ports = not known.service_ports
        if without_ports and spec.get("clusterIP") != NO_CLUSTER_IP:
            return
        pods = list(pods)
        known.retain(pods)
        ports_of: dict[int, list[Object]] = {}
        for pod in pods:
            ready = self._readiness(spec, pod)
            if ready is None:
                continue
            address = self._address(key, spec, pod)
            ports = known.ports_of_pod(self._pods, pod)
            if address is None or (not ports and not without_ports):
                continue
            field = READY if ready else NOT_READY
            objects = ports_of.get(id(ports))
            if objects is None:
                objects = ports_of[id(ports)] = _objects(ports)
            yield {field: [address], "ports": objects}

    def _ports_of(self, key: Key, spec: Mapping[str, Any]) -> PodPorts:
        known = self._ports.get(key)
        if known is None or known.service_ports != (spec.get("ports") or ()):
            known = self._ports[key] = PodPorts(spec)
        return known

    def _readiness(self, spec: Mapping[str, Any], pod: Entry) -> bool | None:
        """Report whether the address of a pod is ready; None if Endpoints do not contain it. spec: of the Service."""
        facts, all_ready = pod.facts, bool(spec.get("publishNotReadyAddresses"))
        if not facts.ips or is_terminal(facts) or (facts.deleting and not all_ready):
            return None
        return all_ready or bool(facts.ready)

    def _address(self, key: Key, spec: Mapping[str, Any], pod: Entry) -> Object | None:
        """Return a pod as an address for Endpoints; None if the pod has no IP of the Service's first IP family.

        key, spec: of the Service.
        """
        facts = pod.facts
        found = addresses_of(facts.ips, _family(spec, facts.ips))
        if not found:
            self._log.debug("pod has no address of the family", key=key, pod=pod.key)
            return None
        namespace, name = split_key(pod.key)
        address: Object = {
            "ip": found[0],
            "targetRef": {"kind": "Pod", "namespace": namespace, "name": name, "uid": pod.uid},
        }
        if facts.node:
            address["nodeName"] = facts.node
        hostname = hostname_of(self._pods, pod, key)
        if hostname:
            address["hostname"] = hostname
        return address

    def _write(
        self, key: Key, service: Object, subsets: list[Object], trigger_time: str, *, over_capacity: bool
    ) -> Step[None]:
        """Create or update the Endpoints of a Service if their labels, subsets or over-capacity annotation differ."""
        self._endpoints.require(key)
        current = self._endpoints.get(key)
        labels = {**labels_of(service), MANAGED_BY: MANAGER}
        labels.pop(HEADLESS, None)
        if not has_cluster_ip(service["spec"]):
            labels[HEADLESS] = ""
        before = {} if current is None else annotations_of(current)
        capacity = TRUNCATED if over_capacity else None
        if (
            current is not None
            and labels_of(current) == labels
            and before.get(OVER_CAPACITY) == capacity
            and unversioned(repacked(current.get("subsets") or ())) == subsets
        ):
            return
        yield Because(_reason(subsets, over_capacity=over_capacity))
        wanted_annotations = {TRIGGER_TIME: trigger_time or None, OVER_CAPACITY: capacity}
        annotations = {name: value for name, value in {**before, **wanted_annotations}.items() if value is not None}
        namespace, name = split_key(key)
        meta = {"name": name, "namespace": namespace} if current is None else metadata(current)
        wanted: Object = {
            **(current or {}),
            "metadata": {**meta, "labels": labels, "annotations": annotations},
            "subsets": subsets,
        }
        yield from self._send(key, wanted, is_new=current is None)

    def _send(self, key: Key, wanted: Object, *, is_new: bool) -> Step[None]:
        """Send a creation or update of Endpoints. Raises CommandError if it failed, usually after an event."""
        command = create(ENDPOINTS, wanted) if is_new else update(ENDPOINTS, wanted)
        outcome = yield command
        if isinstance(outcome, Done):
            addresses = sum(len(subset.get("addresses") or ()) for subset in wanted["subsets"])
            self._log.info("endpoints written", key=key, ready=addresses)
            return
        if is_new and is_namespace_terminating(outcome):
            return
        if isinstance(outcome, AlreadyExists):  # by an earlier request with unknown outcome, or another client
            yield from must(get_live(ENDPOINTS, key), but=(NotFound,))
        elif not isinstance(outcome, Refused):
            reason = "FailedToCreateEndpoint" if is_new else "FailedToUpdateEndpoint"
            text = "Failed to create endpoint for service" if is_new else "Failed to update endpoint"
            yield record(ENDPOINTS, wanted, "Warning", reason, f"{text} {key}: {outcome.message}")
        raise CommandError(command, outcome)


def _reason(subsets: Sequence[Object], *, over_capacity: bool) -> str:
    ready = sum(len(subset.get("addresses") or ()) for subset in subsets)
    others = sum(len(subset.get("notReadyAddresses") or ()) for subset in subsets)
    cut = ", truncated to 1000 addresses" if over_capacity else ""
    return f"the pods or the Service have changed: writes {ready} ready and {others} not ready addresses{cut}"


def _objects(ports: Iterable[EndpointPort]) -> list[Object]:
    return [endpoint_port(port) for port in ports]


def _family(spec: Mapping[str, Any], ips: str) -> str:
    """Return the first IP family of a Service: IPV4 or IPV6.

    A Service that was stored by an old API server has no ipFamilies. Its family is that of its clusterIP or, if it is
    headless, that of the pod.

    ips: addresses of the pod, as in PodFacts.ips.
    """
    families = spec.get("ipFamilies")
    if families:
        return str(families[0])
    address = read_address(spec["clusterIP"] if has_cluster_ip(spec) else ips.partition(",")[0])
    return IPV4 if address is None else address.family
