"""Service CIDR controller: reports when ServiceCIDRs are ready, and protects those whose addresses are in use.

Input: ServiceCIDRs, and the IPAddresses that the API server allocates to Services. Output: the finalizer
networking.k8s.io/service-cidr-finalizer and the condition Ready of ServiceCIDRs. Key: the name of a ServiceCIDR.

The finalizer of a ServiceCIDR that is being deleted is removed once no address depends on it: every allocated address
is in another ServiceCIDR too, or each of its CIDRs is part of another ServiceCIDR. It is kept for ten seconds after the
deletion, because API servers may still allocate from a ServiceCIDR whose deletion they have not observed yet.

Source: kubernetes v1.36 pkg/controller/servicecidrs/servicecidrs_controller.go. Differences:
- Before the finalizer is removed, ServiceCIDRs and IPAddresses are listed from the API server, because a table may be
  staler than ten seconds.
- A ServiceCIDR that is being deleted without the finalizer, or whose finalizer is being removed, does not count for
  others, because it may be deleted at any moment. Upstream's workers may remove the finalizers of two ServiceCIDRs that
  contain each other's addresses at the same time.
- The ten seconds also end ten seconds after the deletion was observed, whatever the wall clock shows.
- A ServiceCIDR that was deleted before its status could be written causes no event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from kcm.actors.reconciliation import (
    Because,
    Change,
    CommandError,
    Done,
    Interest,
    Reconciliation,
    RequeueAfter,
    Step,
    Unknown,
    Watch,
    apply,
    list_live,
    must,
    must_object,
    patch,
    record,
)
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Index, Queue
from kcm.protocols.conditions import find_condition
from kcm.protocols.field_types import MAP, check
from kcm.protocols.messages.commands import Patch, PatchType
from kcm.protocols.messages.outcomes import NotFound
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, Object, finalizers_of, is_deleting, labels_of, metadata, name_of, uid_of
from kcm.protocols.resources import IP_ADDRESSES, SERVICE_CIDRS
from kcm.protocols.service_cidrs import (
    ALLOCATOR,
    IP_FAMILY,
    IPV4,
    IPV6,
    MANAGED_BY,
    READY,
    Address,
    contains_address,
    contains_network,
    family_of,
    is_allocated,
    networks_of,
    parse_address,
)
from kcm.protocols.times import format_time, parse_time
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

NAME = "service-cidr-controller"
GATE = "MultiCIDRServiceAllocator"
FIELDS = {"status": {"conditions": [MAP]}}  # types that a sync requires
FINALIZER = "networking.k8s.io/service-cidr-finalizer"
GRACE_PERIOD = 10.0  # seconds after the deletion for which the finalizer is kept
RETRIES = 15
ALLOCATED = "allocated"  # index of IPAddresses that are allocated to Services, by the family in their label


class ReadyCondition(Struct, frozen=True):
    status: str
    reason: str
    message: str


IS_READY = ReadyCondition("True", "", "Kubernetes Service CIDR is ready")
IS_TERMINATING = ReadyCondition(
    "False",
    "Terminating",
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
)


def containing(address: Address, service_cidrs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of the ServiceCIDRs that contain an address. Source: ContainsAddress."""
    return [
        name_of(service_cidr)
        for service_cidr in service_cidrs
        if any(contains_address(network, address) for network in networks_of(service_cidr))
    ]


def overlapping(service_cidr: Mapping[str, Any], service_cidrs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of the ServiceCIDRs that overlap this ServiceCIDR. Source: OverlapsPrefix."""
    own = list(networks_of(service_cidr))
    return [
        name_of(other)
        for other in service_cidrs
        if any(
            network.version == theirs.version and network.overlaps(theirs)
            for network in own
            for theirs in networks_of(other)
        )
    ]


def has_parents(service_cidr: Mapping[str, Any], service_cidrs: Sequence[Mapping[str, Any]]) -> bool:
    """Report whether each CIDR of a ServiceCIDR is part of another ServiceCIDR, or equal to it."""
    name = name_of(service_cidr)
    others = [network for other in service_cidrs if name_of(other) != name for network in networks_of(other)]
    return all(any(contains_network(other, network) for other in others) for network in networks_of(service_cidr))


def lasting(found: Mapping[str, Any], service_cidrs: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the ServiceCIDRs that decide about the deletion of `found`: itself, and those that cannot vanish now.

    A ServiceCIDR that is being deleted without the finalizer may vanish at any moment.
    """
    return [
        service_cidr
        for service_cidr in service_cidrs
        if name_of(service_cidr) == name_of(found)
        or not is_deleting(service_cidr)
        or FINALIZER in finalizers_of(service_cidr)
    ]


def blocking_address(
    service_cidr: Mapping[str, Any], service_cidrs: Sequence[Mapping[str, Any]], addresses: Iterable[Mapping[str, Any]]
) -> str:
    """Return an allocated address that no other ServiceCIDR contains, and that therefore blocks the deletion; or "".

    service_cidrs: the ServiceCIDRs that decide about the deletion (see lasting), including this ServiceCIDR.
    addresses: IPAddresses; only those that are allocated to Services count.

    Source: canDeleteCIDR.
    """
    if has_parents(service_cidr, service_cidrs):
        return ""
    families = {family_of(network) for network in networks_of(service_cidr)}
    for ip_address in addresses:
        if not is_allocated(ip_address) or labels_of(ip_address).get(IP_FAMILY) not in families:
            continue
        address = parse_address(name_of(ip_address))
        if address is not None and containing(address, service_cidrs) == [name_of(service_cidr)]:
            return name_of(ip_address)
    return ""


def allocated(ip_address: Object) -> Iterable[str]:
    """Return the values of an IPAddress in the index ALLOCATED: its family if it is allocated to a Service."""
    return (labels_of(ip_address).get(IP_FAMILY, ""),) if is_allocated(ip_address) else ()


def with_overlapping(change: Change, tables: Tables) -> Iterator[Key]:
    """Enqueue a ServiceCIDR. A new one may allow or prevent the deletion of ServiceCIDRs that overlap it."""
    yield change.key
    if change.type == EventType.ADDED:
        yield from overlapping(change.new, tables[SERVICE_CIDRS].objects())


def containing_change(change: Change, tables: Tables) -> Iterable[Key]:
    """Enqueue the ServiceCIDRs that contain an address, which may allow or prevent their deletion."""
    address = parse_address(change.key)
    return () if address is None else containing(address, tables[SERVICE_CIDRS].objects())


class ServiceCidrs:
    """Reconciler of the finalizer and the condition Ready. Key: the name of the ServiceCIDR."""

    def __init__(self, *, tables: Tables, clock: Clock, log: FilteringBoundLogger) -> None:
        self._cidrs, self._addresses = tables[SERVICE_CIDRS], tables[IP_ADDRESSES]
        self._clock, self._log = clock, log
        self._releasing: dict[Key, str] = {}  # uids of ServiceCIDRs whose finalizer may have been removed
        # Uids of ServiceCIDRs, and the monotonic times at which their deletion was observed.
        self._deleted_at: dict[Key, tuple[str, float]] = {}

    def reconcile(self, key: Key) -> Reconciliation:
        """Maintain finalizer and condition; remove the finalizer once the ServiceCIDR can be deleted. Source: sync."""
        self._cidrs.require(key)
        found = self._cidrs.get(key)
        if found is None:
            self._releasing.pop(key, None)
            self._deleted_at.pop(key, None)
            self._log.debug("ServiceCIDR no longer exist", key=key)
            return None
        check(found, FIELDS)
        if is_deleting(found):
            return (yield from self._finish(key, found))
        if FINALIZER not in finalizers_of(found):
            yield Because(f"lacks the finalizer {FINALIZER}: adds it")
            body = {"metadata": {"finalizers": [FINALIZER]}}
            yield from must(patch(SERVICE_CIDRS, key, body, patch_type=PatchType.STRATEGIC), but=(NotFound,))
            self._log.info("Added protection finalizer to ServiceCIDR", v=4, key=key)
        try:
            yield from self._set_condition(found, IS_READY)
        except CommandError as err:
            self._log.info("error updating default ServiceCIDR status", key=key, error=str(err))
            message = "The ServiceCIDR Status can not be set to Ready=True"
            yield record(SERVICE_CIDRS, found, "Warning", "KubernetesServiceCIDRError", message)
            raise
        return None

    def _finish(self, key: Key, found: Object) -> Step[RequeueAfter | None]:
        """Remove the finalizer of a ServiceCIDR that is being deleted, unless addresses depend on it."""
        self._seconds_deleted(key, found)  # records the time of the first observation
        addresses = [found for family in (IPV4, IPV6) for found in self._addresses.indexed(ALLOCATED, family)]
        if address := self._blocking_address(found, self._cidrs.objects(), addresses):
            yield Because(f"is being deleted: keeps its finalizer, as no other ServiceCIDR contains {address}")
            yield from self._set_condition(found, IS_TERMINATING)
            return None
        left = GRACE_PERIOD - self._seconds_deleted(key, found)
        if left > 0:
            yield Because(
                f"is being deleted: keeps its finalizer for {left:.0f} s, for API servers that still allocate"
            )
            return RequeueAfter(left)
        if FINALIZER not in finalizers_of(found):
            return None
        of_allocator = f"{MANAGED_BY}={ALLOCATOR}"
        # The addresses first: one that is allocated after that is in a ServiceCIDR that the second list contains.
        addresses = (yield from must_object(list_live(IP_ADDRESSES, label_selector=of_allocator))).get("items") or []
        service_cidrs = (yield from must_object(list_live(SERVICE_CIDRS))).get("items") or []
        if address := self._blocking_address(found, service_cidrs, addresses):
            yield Because(f"is being deleted: keeps its finalizer, as no other ServiceCIDR contains {address}")
            yield from self._set_condition(found, IS_TERMINATING)
            return None
        yield Because("is being deleted, and no address depends on it: removes its finalizer")
        yield from self._release(key, found)
        return None

    def _seconds_deleted(self, key: Key, found: Object) -> float:
        """Return the seconds since deletionTimestamp, or since the deletion was first observed, whichever is more."""
        now, uid = self._clock.monotonic(), uid_of(found)
        known, since = self._deleted_at.get(key, ("", now))
        if known != uid:
            since = now
            self._deleted_at[key] = uid, since
        return max(now - since, self._clock.now() - parse_time(metadata(found)["deletionTimestamp"]))

    def _blocking_address(self, found: Object, service_cidrs: Iterable[Object], addresses: Iterable[Object]) -> str:
        """Return an address that depends on the ServiceCIDR, or ""."""
        name = name_of(found)
        present = [
            service_cidr
            for service_cidr in lasting(found, service_cidrs)
            if name_of(service_cidr) == name or self._releasing.get(name_of(service_cidr)) != uid_of(service_cidr)
        ]
        if has_parents(found, present):
            self._log.info("Deleting ServiceCIDR contained in other ServiceCIDR", key=name)
            return ""
        address = blocking_address(found, present, addresses)
        if address:
            self._log.info("Deleting ServiceCIDR blocked by IP address", key=name, address=address)
        else:
            self._log.info("Deleting ServiceCIDR no longer have orphan IPs", key=name)
        return address

    def _release(self, key: Key, found: Object) -> Step[None]:
        self._releasing[key] = uid_of(found)
        body = {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
        outcome = yield (command := patch(SERVICE_CIDRS, key, body, patch_type=PatchType.STRATEGIC))
        if not isinstance(outcome, Done | NotFound):
            if not isinstance(outcome, Unknown):
                del self._releasing[key]
            raise CommandError(command, outcome)
        self._log.info("Removed protection finalizer from ServiceCIDRs", v=4, key=key)

    def _set_condition(self, found: Object, ready: ReadyCondition) -> Step[None]:
        """Apply the condition Ready if its status, reason or message differ. Source: updateConditionIfNeeded."""
        current = find_condition((found.get("status") or {}).get("conditions"), READY)
        if current is not None and all(
            (current.get(field) or "") == getattr(ready, field) for field in ready.__struct_fields__
        ):
            return
        yield Because(f"sets the condition Ready to {ready.status}")
        self._log.info(
            "Updating ServiceCIDR condition", v=2, key=name_of(found), status=ready.status, reason=ready.reason
        )
        yield from must(condition_patch(name_of(found), ready, now=self._clock.now()), but=(NotFound,))


def condition_patch(name: str, ready: ReadyCondition, *, now: float) -> Patch:
    """Return the server-side apply of the condition Ready. now: Unix seconds, for lastTransitionTime."""
    condition = {
        "type": READY,
        "status": ready.status,
        "reason": ready.reason,
        "message": ready.message,
        "lastTransitionTime": format_time(now),
    }
    body = {"metadata": {"name": name}, "status": {"conditions": [condition]}}
    return apply(SERVICE_CIDRS, body, force=True, manager=NAME, subresource="status")


def _build(context: ControllerContext) -> ServiceCidrs:
    return ServiceCidrs(tables=context.tables, clock=context.clock, log=context.log)


SPEC = ControllerSpec(
    name=NAME,
    never_blocks=True,
    client="service-cidrs-controller",
    component=NAME,
    enabled_if=lambda options: options.feature_gates[GATE],
    needs=f"--feature-gates={GATE}=true",
    queues=(
        Queue(
            "ipaddresses",
            watches=(
                Watch(SERVICE_CIDRS, to=with_overlapping),
                Watch(
                    IP_ADDRESSES,
                    to=containing_change,
                    interest=Interest(
                        types=(EventType.ADDED, EventType.DELETED), indexed=((ALLOCATED, IPV4), (ALLOCATED, IPV6))
                    ),
                ),
            ),
            concurrency=5,
            max_retries=RETRIES,
            terminal=(),
        ),
    ),
    indexes=(Index(IP_ADDRESSES, ALLOCATED, allocated),),
    build=_build,
)
