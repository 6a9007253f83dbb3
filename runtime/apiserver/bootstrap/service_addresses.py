"""IPAddress objects of cluster IPs, created and deleted in the same commit as their Service.

Source: kubernetes pkg/registry/core/service/ipallocator/ipallocator.go (createIPAddress),
pkg/registry/core/service/storage/storage.go (v1.36). Differs: cluster IPs are allocated without reading IPAddresses
(kinds/core/service/allocation.py), so an IPAddress that a user creates does not reserve its address.
"""

from __future__ import annotations

from kcm.protocols.objects import Object, decode_object, labels_of
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.storage.store import DELETED, StoreChange
from kcm.runtime.apiserver.verbs.create import create_object

SERVICES, ADDRESSES = "services", "ipaddresses.networking.k8s.io"
MANAGED_BY, MANAGER = "ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io"
FAMILY = "ipaddress.kubernetes.io/ip-family"


class ServiceAddresses:
    """Creates missing IPAddresses of Services, and removes its own that no Service uses any more."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def react(self, change: StoreChange) -> None:
        if change.storage != SERVICES:
            return
        before = _addresses(decode_object(change.previous)) if change.previous else ()
        now = _addresses(decode_object(change.raw)) if change.type != DELETED else ()
        if before == now:
            return
        for address in before:
            if address not in now:
                self._release(address)
        for address in now:
            self._allocate(address, change.key)

    def undo(self, change: StoreChange) -> None:
        """Do nothing: no state is derived from changes."""

    def reconcile(self) -> None:
        state = self._cluster.state
        wanted = {
            address: key
            for key, record in state.collection(SERVICES).records.items()
            for address in _addresses(decode_object(record.raw))
        }
        for address in list(state.collection(ADDRESSES).records):
            if address not in wanted:
                self._release(address)
        for address, key in wanted.items():
            self._allocate(address, key)

    def _allocate(self, address: str, key: str) -> None:
        definition = self._cluster.registry.of_storage(ADDRESSES)
        if definition is None or self._cluster.state.get(ADDRESSES, address) is not None:
            return
        namespace, _, name = key.partition("/")
        labels = {FAMILY: "IPv6" if ":" in address else "IPv4", MANAGED_BY: MANAGER}
        parent = {"resource": SERVICES, "namespace": namespace, "name": name}
        head = {"kind": definition.kind, "apiVersion": definition.api_version}
        new = {**head, "metadata": {"name": address, "labels": labels}, "spec": {"parentRef": parent}}
        create_object(self._cluster, definition, new)

    def _release(self, address: str) -> None:
        record = self._cluster.state.get(ADDRESSES, address)
        if record is None:
            return
        stored = decode_object(record.raw)
        if labels_of(stored).get(MANAGED_BY) == MANAGER:
            self._cluster.state.remove(ADDRESSES, address, stored)


def _addresses(service: Object) -> list[str]:
    spec = service.get("spec") or {}
    given = spec.get("clusterIPs") or [spec.get("clusterIP") or ""]
    return [address for address in given if address not in ("", "None")]
