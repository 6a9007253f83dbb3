"""IPAddress objects of cluster IPs: allocated and released in the same commit as their Service, and repaired.

The repair recreates missing IPAddresses and those with a wrong reference or wrong labels. It deletes IPAddresses of the
allocator whose Service does not exist or does not have the address, after the time for which upstream waits for the
rest of a request. Changed IPAddresses are checked at once, and all of them every three minutes.

Source: kubernetes pkg/registry/core/service/ipallocator/ipallocator.go (createIPAddress),
pkg/registry/core/service/storage/storage.go, pkg/registry/core/service/ipallocator/controller/repairip.go (v1.36).
Differs: an IPAddress that is missing when the server starts is created without an event, because earlier versions of
this server did not write any.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from kcm.protocols.objects import Key, Object, decode_object, key_of, labels_of, make_key, metadata, name_of
from kcm.protocols.service_cidrs import (
    ALLOCATOR,
    IP_FAMILY,
    MANAGED_BY,
    contains_address,
    family_of,
    is_allocated,
    networks_of,
    parse_address,
)
from kcm.protocols.times import parse_time
from kcm.runtime.apiserver.bootstrap.events import ServerEvent, record_warning
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.core.removal import DeleteOptions, delete_object
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.storage.store import DELETED, StoreChange
from kcm.runtime.apiserver.verbs.create import create_object

SERVICES, ADDRESSES = "services", "ipaddresses.networking.k8s.io"
SERVICE_CIDRS = "servicecidrs.networking.k8s.io"
COMPONENT = "ipallocator-repair-controller"
EVERY = 180.0  # seconds between two repairs of everything
# Seconds for which a new IPAddress is kept: without its Service or for an ExternalName Service, and for a Service that
# has another address.
WITHOUT_SERVICE, OF_OTHER_SERVICE = 60.0, 5.0


class ServiceAddresses:
    """Creates, deletes and repairs the IPAddresses of Services."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._next = 0.0
        self._checks: dict[Key, float] = {}  # by IPAddress: Unix time at which it is checked

    def react(self, change: StoreChange) -> None:
        if change.storage == ADDRESSES and change.type != DELETED:
            self._checks.setdefault(change.key, 0.0)
        if change.storage != SERVICES:
            return
        before = cluster_ips(decode_object(change.previous)) if change.previous else []
        now = cluster_ips(decode_object(change.raw)) if change.type != DELETED else []
        if before == now:
            return
        for address in before:
            if address not in now:
                self._delete(address)
        for address in now:
            if address not in before:
                self._create_missing(address, change.key)

    def undo(self, change: StoreChange) -> None:
        """Do nothing: a check of an unchanged IPAddress has no effect."""

    def is_due(self, now: float) -> bool:
        """Report whether a check is due. now: Unix time in seconds."""
        return now >= self._next or any(at <= now for at in self._checks.values())

    def tick(self, now: float) -> None:
        """Repair what is due: changed IPAddresses, and every three minutes all Services and IPAddresses."""
        due = [address for address, at in self._checks.items() if at <= now]
        if now >= self._next:
            self._next = now + EVERY
            for service in list(self._cluster.objects(SERVICES)):
                self._repair_service(service)
            due = list(self._cluster.state.collection(ADDRESSES).records)
        for address in due:
            self._checks.pop(address, None)
            self._repair_address(address, now)

    def reconcile(self) -> None:
        """Create the IPAddresses that are missing when the server starts."""
        for service in list(self._cluster.objects(SERVICES)):
            for address in cluster_ips(service):
                self._create_missing(address, key_of(service))
        self._next = 0.0

    def _repair_service(self, service: Object) -> None:
        """Source: syncService."""
        key = key_of(service)
        for text in cluster_ips(service):
            address = parse_address(text)
            if address is None:
                continue
            shown, multiple = f"[{family_of(address)}]: {text}", f"[{family_of(address)}]:{text}"
            if not any(
                contains_address(network, address)
                for service_cidr in self._cluster.objects(SERVICE_CIDRS)
                for network in networks_of(service_cidr)
            ):
                message = f"Cluster IP {shown} is not within any configured Service CIDR; please recreate service"
                self._warn(service, "ClusterIPOutOfRange", message)
                continue
            ip_address = self._stored(text)
            if ip_address is None:
                self._warn(service, "ClusterIPNotAllocated", f"Cluster IP {shown} is not allocated; repairing")
                self._create_missing(text, key)
            elif not self._is_of_another(ip_address, key):
                if parent_key(ip_address) != key:
                    message = f"the ClusterIP {shown} for Service {key} has a wrong reference; repairing"
                    self._warn(service, "ClusterIPNotAllocated", message)
                elif has_labels(ip_address):
                    continue
                self._delete(text)
                self._create_missing(text, key)
            else:
                message = f"Cluster IP {multiple} was assigned to multiple services; please recreate service"
                self._warn(service, "ClusterIPAlreadyAllocated", message)

    def _is_of_another(self, ip_address: Object, key: Key) -> bool:
        """Report whether the IPAddress belongs to another Service, which has the address as well."""
        parent = parent_key(ip_address)
        if parent in ("", key):
            return False
        record = self._cluster.state.get(SERVICES, parent)
        return record is not None and name_of(ip_address) in cluster_ips(decode_object(record.raw))

    def _repair_address(self, name: Key, now: float) -> None:
        """Source: syncIPAddress."""
        ip_address = self._stored(name)
        if ip_address is None or not is_allocated(ip_address):
            return
        parent, age = parent_key(ip_address), now - parse_time(metadata(ip_address)["creationTimestamp"])
        if not parent:
            self._clean_up(
                ip_address,
                "IPAddressNotAllocated",
                f"IPAddress {name} appears to have been modified, not referencing a Service "
                f"{_go_reference(ip_address)}: cleaning up",
            )
            return
        record = self._cluster.state.get(SERVICES, parent)
        service = None if record is None else decode_object(record.raw)
        if service is not None and name in cluster_ips(service):
            return
        grace = OF_OTHER_SERVICE
        if service is None or service["spec"].get("type") == "ExternalName":
            grace = WITHOUT_SERVICE
        elif metadata(ip_address)["creationTimestamp"] <= metadata(service)["creationTimestamp"]:
            grace = 0.0
        if age < grace:
            self._checks[name] = now + grace - age
        elif service is None:
            message = f"IPAddress: {name} for Service {parent} appears to have leaked: cleaning up"
            self._clean_up(ip_address, "IPAddressNotAllocated", message)
        else:
            message = f"IPAddress: {name} for Service {parent} has a wrong reference; cleaning up"
            self._clean_up(ip_address, "IPAddressWrongReference", message)

    def _clean_up(self, ip_address: Object, reason: str, message: str) -> None:
        self._warn(ip_address, reason, message, action="IPAddressAllocation")
        self._delete(name_of(ip_address))

    def _warn(self, about: Object, reason: str, message: str, *, action: str = "ClusterIPAllocation") -> None:
        event = ServerEvent(component=COMPONENT, reason=reason, message=message, action=action)
        record_warning(self._cluster, about, event)

    def _create_missing(self, address: str, key: Key) -> None:
        definition = self._cluster.registry.of_storage(ADDRESSES)
        parsed = parse_address(address)
        if definition is None or parsed is None or self._cluster.has(ADDRESSES, address):
            return
        namespace, _, name = key.partition("/")
        labels = {IP_FAMILY: family_of(parsed), MANAGED_BY: ALLOCATOR}
        parent = {"resource": SERVICES, "namespace": namespace, "name": name}
        head = {"kind": definition.kind, "apiVersion": definition.api_version}
        new = {**head, "metadata": {"name": address, "labels": labels}, "spec": {"parentRef": parent}}
        create_object(self._cluster, definition, new)

    def _delete(self, address: str) -> None:
        """Delete an IPAddress. One with finalizers stays, and so does its address, until they are removed."""
        definition = self._cluster.registry.of_storage(ADDRESSES)
        if definition is not None and self._cluster.has(ADDRESSES, address):
            with suppress(StatusError):
                delete_object(self._cluster, definition, address, DeleteOptions())

    def _stored(self, address: str) -> Object | None:
        record = self._cluster.state.get(ADDRESSES, address)
        return None if record is None else decode_object(record.raw)


def cluster_ips(service: Object) -> list[str]:
    """Return the cluster IPs of a Service in canonical form, which is the name of their IPAddresses."""
    spec = service.get("spec") or {}
    given: Sequence[str] = spec.get("clusterIPs") or [spec.get("clusterIP") or ""]
    return list(_canonical(given)) if spec.get("type") != "ExternalName" else []


def _canonical(addresses: Sequence[str]) -> Iterator[str]:
    for text in addresses:
        if text not in ("", "None"):
            parsed = parse_address(text)
            yield text if parsed is None else str(parsed)


def parent_key(ip_address: Object) -> Key:
    """Return the key of the Service to which an IPAddress refers; "" if it refers to something else."""
    parent = (ip_address.get("spec") or {}).get("parentRef") or {}
    if parent.get("group") or parent.get("resource") != SERVICES:
        return ""
    return make_key(parent.get("namespace") or "", parent.get("name") or "")


def has_labels(ip_address: Object) -> bool:
    """Report whether an IPAddress has the labels of the allocator."""
    parsed = parse_address(name_of(ip_address))
    return parsed is not None and labels_of(ip_address).get(IP_FAMILY) == family_of(parsed) and is_allocated(ip_address)


def _go_reference(ip_address: Object) -> str:
    """Return the reference of an IPAddress as Go prints a pointer to it."""
    parent = (ip_address.get("spec") or {}).get("parentRef") or {}
    return "&{" + " ".join(parent.get(field) or "" for field in ("group", "resource", "namespace", "name")) + "}"
