"""Invariants of ServiceCIDRs and of the addresses that are allocated from them."""

from __future__ import annotations

from collections.abc import Iterator

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.observer import Committed, Fail, Handled, Observation, decoded, only
from kcm.protocols.objects import Key, Object, finalizers_of, is_deleting, metadata, name_of
from kcm.protocols.service_cidrs import contains_address, is_allocated, networks_of, parse_address
from kcm.protocols.times import parse_time
from kcm.runtime.apiserver.storage.store import DELETED, StoreChange

CLIENT = "service-cidrs-controller"
CIDRS, ADDRESSES, SERVICES = "servicecidrs.networking.k8s.io", "ipaddresses.networking.k8s.io", "services"
FINALIZER = "networking.k8s.io/service-cidr-finalizer"
GRACE_PERIOD = 9.0  # seconds; deletionTimestamps have whole seconds


class AddressesKeepTheirRange:
    """Invariant: the controller deletes no ServiceCIDR that is the only one with an address of a Service.

    Another ServiceCIDR that is being deleted without the controller's finalizer does not count.

    It removes its finalizer ten seconds after the deletion at the earliest, keeps those of others, and writes nothing
    but finalizers and statuses of ServiceCIDRs.
    """

    name = "addresses keep their ServiceCIDR"
    observes = (only(Committed, CIDRS, ADDRESSES), only(Handled, CLIENT))

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._cidrs: dict[Key, Object] = {}
        self._addresses: dict[Key, Object] = {}
        self._jumped = False  # whether a clock of the controller was wrong, which may shorten the grace period

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Committed(changes):
                for change in changes:
                    self._note(change)
            case Handled(process=process, client=client, changes=changes) if client == CLIENT:
                self._jumped = self._jumped or self._cluster.processes[process].process.clock.skew != 0
                for change in changes:
                    self._check(change, fail)

    def _note(self, change: StoreChange) -> None:
        known = {CIDRS: self._cidrs, ADDRESSES: self._addresses}.get(change.storage)
        if known is None:
            return
        if change.type == DELETED:
            known.pop(change.key, None)
        else:
            known[change.key] = decoded(change.raw)

    def _check(self, change: StoreChange, fail: Fail) -> None:
        if change.storage == "events":
            return
        if change.storage != CIDRS or not change.previous:
            fail(f"{change.type} {change.storage} {change.key}")
            return
        before, after = decoded(change.previous), decoded(change.raw)
        for field in ("labels", "annotations", "ownerReferences"):
            if metadata(before).get(field) != metadata(after).get(field):
                fail(f"{field} of {change.key} changed")
        if before["spec"] != after["spec"]:
            fail(f"spec of {change.key} changed")
        gone = set(finalizers_of(before)) - set(finalizers_of(after))
        if gone - {FINALIZER}:
            fail(f"{change.key} loses finalizers of others: {gone}")
        if FINALIZER in gone:
            self._check_release(before, fail)

    def _check_release(self, before: Object, fail: Fail) -> None:
        name = name_of(before)
        if not is_deleting(before):
            fail(f"{name} is not being deleted, and loses its finalizer")
            return
        age = self._cluster.clock.now() - parse_time(metadata(before)["deletionTimestamp"])
        if age < GRACE_PERIOD and not self._jumped:
            fail(f"{name} loses its finalizer {age:.1f} s after its deletion")
        for address in self._only_in(before):
            fail(f"{name} loses its finalizer, but no other ServiceCIDR contains {address}")

    def _only_in(self, before: Object) -> Iterator[str]:
        name = name_of(before)
        others = [
            network
            for found in self._cidrs.values()
            if name_of(found) != name and (FINALIZER in finalizers_of(found) or not is_deleting(found))
            for network in networks_of(found)
        ]
        for ip_address in self._addresses.values():
            address = parse_address(name_of(ip_address))
            if address is None or not is_allocated(ip_address):
                continue
            if any(contains_address(network, address) for network in networks_of(before)) and not any(
                contains_address(network, address) for network in others
            ):
                yield name_of(ip_address)


class ClusterIpsAreReserved:
    """Invariant: no two Services have the same cluster IP. The IPAddress of each cluster IP refers to its Service."""

    name = "cluster IPs are reserved"
    observes = (only(Committed, SERVICES, ADDRESSES),)

    def __init__(self) -> None:
        self._services: dict[Key, tuple[str, ...]] = {}
        self._addresses: dict[Key, Key] = {}

    def observe(self, observation: Observation, fail: Fail) -> None:
        if not isinstance(observation, Committed):
            return
        changed = set[Key]()
        for change in observation.changes:
            if change.storage == SERVICES:
                self._services.pop(change.key, None)
                changed.add(change.key)
                if change.type != DELETED:
                    given = decoded(change.raw)["spec"].get("clusterIPs") or ()
                    self._services[change.key] = tuple(address for address in given if address != "None")
            elif change.storage == ADDRESSES:
                self._addresses.pop(change.key, None)
                if change.type != DELETED and is_allocated(decoded(change.raw)):
                    self._addresses[change.key] = _parent(decoded(change.raw))
        for key in changed:
            for address in self._services.get(key, ()):
                if self._addresses.get(address) != key:
                    fail(f"{address} of {key} is reserved for {self._addresses.get(address)}")


def _parent(ip_address: Object) -> Key:
    parent = ip_address["spec"].get("parentRef") or {}
    return f"{parent.get('namespace')}/{parent.get('name')}"
