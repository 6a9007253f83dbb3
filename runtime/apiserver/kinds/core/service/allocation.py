"""Allocation of cluster IPs and node ports of Services.

Upstream chooses free ports at random. Here the uid of the Service determines the choice, so that a simulation with the
same seed has the same result. cluster_ips.py allocates the addresses.

Source: kubernetes pkg/registry/core/service/storage/{alloc,storage}.go, pkg/registry/core/service/strategy.go
(dropTypeDependentFields), pkg/registry/core/service/portallocator (v1.36).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping

from kcm.protocols.objects import Object
from kcm.protocols.service_cidrs import Network
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.kinds.core.service.cluster_ips import (
    FULL,
    ClusterIps,
    canonical_address,
    read_service_ranges,
)
from kcm.runtime.apiserver.kinds.core.service.fields import (
    EXTERNAL_NAME,
    LOAD_BALANCER,
    NODE_PORT,
    Spec,
    has_node_ports,
    is_external,
    is_headless,
    needs_health_check,
    node_ports,
)
from kcm.runtime.apiserver.kinds.core.service.ip_families import keeps_preferred_families, same, set_families
from kcm.runtime.apiserver.registry.strategy import Allocating

NODE_PORTS = range(30000, 32768)


def allocate(among: Allocating, service: Object) -> None:
    """Allocate IP families, cluster IPs and node ports of a new Service.

    Raises StatusError: 422 if a requested value is unavailable, 500 if no address or port is free.
    """
    spec = service["spec"]
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    allocator = _Allocator(among, service)
    set_families(service, None, list(allocator.ranges))
    if spec["type"] != EXTERNAL_NAME and not is_headless(spec):
        _allocate_addresses(allocator, spec, spec["ipFamilies"])
    if has_node_ports(spec):
        _allocate_node_ports(allocator, spec)
    if needs_health_check(spec):
        _allocate_health_check_port(allocator, spec)


def reallocate(among: Allocating, new: Object, old: Object) -> None:
    """Adapt the cluster IPs, node ports and dependent fields of a changed Service to its type.

    Allocated values that the client omitted are kept. Missing values that the type requires are allocated, and
    unchanged values that the type does not support are removed. Values that the client changed are left to validation.

    Raises StatusError like `allocate`.
    """
    now, then = {**new["spec"]}, old["spec"]
    if "ports" in now:
        now["ports"] = [{**port} for port in now["ports"]]
    new["spec"] = now
    _keep_allocated_values(now, then)
    _update_cluster_ips(now, then)
    allocator = _Allocator(among, new)
    set_families(new, then, list(allocator.ranges))
    _change_addresses(allocator, now, then)
    if has_node_ports(now):
        _change_node_ports(allocator, now, node_ports(then))
    if needs_health_check(now) and not needs_health_check(then):
        _allocate_health_check_port(allocator, now)
    _drop_unsupported_fields(now, then)
    if now["type"] != LOAD_BALANCER:
        new["status"] = {**(new.get("status") or {}), "loadBalancer": {}}


def _keep_allocated_values(now: Object, then: Spec) -> None:
    """Copy allocated values that the client omitted in the update from the old spec."""
    if EXTERNAL_NAME not in (now["type"], then["type"]):
        for field in ("clusterIP", "clusterIPs"):
            if not now.get(field) and then.get(field):
                now[field] = then[field]
    if _gets_node_ports(now) and _gets_node_ports(then):
        used = node_ports(now) & node_ports(then)
        by_name = {port.get("name") or "": port.get("nodePort") for port in then.get("ports") or ()}
        for port in now.get("ports") or ():
            known = by_name.get(port.get("name") or "")
            if not port.get("nodePort") and known and known not in used:
                port["nodePort"] = known
    if needs_health_check(now) and needs_health_check(then) and not now.get("healthCheckNodePort"):
        now["healthCheckNodePort"] = then.get("healthCheckNodePort")


def _gets_node_ports(spec: Spec) -> bool:
    """Report whether the server allocates a nodePort to each port without one."""
    return spec["type"] == NODE_PORT or (
        spec["type"] == LOAD_BALANCER and spec.get("allocateLoadBalancerNodePorts") is not False
    )


def _update_cluster_ips(now: Object, then: Spec) -> None:
    """Set clusterIPs from clusterIP if the client changed only clusterIP."""
    before, after = then.get("clusterIP") or "", now.get("clusterIP") or ""
    if then.get("clusterIPs") and not now.get("clusterIPs") and before == after:
        now["clusterIPs"] = then["clusterIPs"]
    if before != after and same(now, then, "clusterIPs"):
        if before and not after:
            now.pop("clusterIPs", None)
        else:
            now["clusterIPs"] = [after]


def _change_addresses(allocator: _Allocator, now: Object, then: Spec) -> None:
    if now["type"] == EXTERNAL_NAME or keeps_preferred_families(now, then):
        return
    if then["type"] == EXTERNAL_NAME:
        if not is_headless(now):
            _allocate_addresses(allocator, now, now["ipFamilies"])
    elif not is_headless(then) and len(then.get("ipFamilies") or ()) == 1 and len(now["ipFamilies"]) == 2:
        _allocate_addresses(allocator, now, now["ipFamilies"][1:], first=1)


def _drop_unsupported_fields(now: Object, then: Spec) -> None:
    if then["type"] != EXTERNAL_NAME and now["type"] == EXTERNAL_NAME:
        if now.get("clusterIP") == then.get("clusterIP") and same(now, then, "clusterIPs"):
            now.pop("clusterIP", None)
            now.pop("clusterIPs", None)
        _drop_unchanged(now, then, "ipFamilies")
        _drop_unchanged(now, then, "ipFamilyPolicy")
    if has_node_ports(then) and not has_node_ports(now) and node_ports(now) <= node_ports(then):
        for port in now.get("ports") or ():
            port.pop("nodePort", None)
    if needs_health_check(then) and not needs_health_check(now):
        _drop_unchanged(now, then, "healthCheckNodePort")
    if then["type"] == LOAD_BALANCER and now["type"] != LOAD_BALANCER:
        _drop_unchanged(now, then, "allocateLoadBalancerNodePorts")
        _drop_unchanged(now, then, "loadBalancerClass")
    if is_external(then) and not is_external(now):
        _drop_unchanged(now, then, "externalTrafficPolicy")


def _drop_unchanged(now: Object, then: Spec, field: str) -> None:
    if now.get(field) == then.get(field):
        now.pop(field, None)


class _Allocator:
    """Allocator of free addresses and node ports for one Service.

    All values that stored Services use count as allocated, including those of the Service itself.
    """

    def __init__(self, among: Allocating, service: Object) -> None:
        self.service = service
        self.ranges: Mapping[str, Network] = read_service_ranges(among.service_ranges)
        self._seed = zlib.crc32(service["metadata"]["uid"].encode())
        addresses = set[str]()
        self._ports: set[int] = set()
        for existing in among.objects("services"):
            addresses.update(map(canonical_address, existing["spec"].get("clusterIPs") or ()))
            self._ports |= node_ports(existing["spec"]) | {existing["spec"].get("healthCheckNodePort") or 0}
        self._cluster_ips = ClusterIps(among, ranges=self.ranges, used=addresses, seed=self._seed)

    def refused(self, error: FieldError) -> StatusError:
        return status_errors.invalid("", "Service", self.service["metadata"].get("name", ""), [error])

    def address(self, family: str) -> str:
        """Allocate any free address of a family. Raises StatusError (500) if none is left."""
        address = self._cluster_ips.allocate(family)
        if address is None:
            name = self.service["metadata"].get("name", "")
            raise status_errors.internal(f'failed to allocate a serviceIP for Service "{name}": {FULL}')
        return address

    def take_address(self, address: str, family: str) -> str:
        """Allocate the requested address. Return the reason if that is impossible, otherwise ""."""
        return self._cluster_ips.take(address, family)

    def port(self) -> int | None:
        """Allocate any free node port; return None if all are allocated."""
        numbers = (NODE_PORTS[(self._seed + i) % len(NODE_PORTS)] for i in range(len(NODE_PORTS)))
        number = next((number for number in numbers if number not in self._ports), None)
        if number is not None:
            self._ports.add(number)
        return number

    def take_port(self, number: int) -> str:
        """Allocate the requested node port. Return the reason if that is impossible, otherwise ""."""
        if number not in NODE_PORTS:
            valid = f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
            return f"provided port is not in the valid range. The range of valid ports is {valid}"
        if number in self._ports:
            return "provided port is already allocated"
        self._ports.add(number)
        return ""


def _allocate_addresses(allocator: _Allocator, spec: Object, families: Iterable[str], *, first: int = 0) -> None:
    """Allocate one address for each family, the requested address if the spec contains one.

    first: index in clusterIPs of the address for the first family
    """
    addresses = [*(spec.get("clusterIPs") or ())]
    for i, family in enumerate(families, start=first):
        asked = addresses[i] if i < len(addresses) else ""
        if asked:
            why = allocator.take_address(asked, family)
            if why:
                shown = addresses + [""] * (len(spec["ipFamilies"]) - len(addresses))
                raise allocator.refused(invalid("spec.clusterIPs", shown, f"failed to allocate IP {asked}: {why}"))
        else:
            addresses[i:] = [allocator.address(family)]
    spec["clusterIP"], spec["clusterIPs"] = addresses[0], addresses


def _allocate_node_ports(allocator: _Allocator, spec: Object) -> None:
    """Allocate the node ports of a new Service.

    Entries with the same `port`, such as one for TCP and one for UDP, get the same nodePort.
    """
    ports, given = spec.get("ports") or (), dict[int, int]()
    for i, port in enumerate(ports):
        asked = port.get("nodePort") or 0
        if not asked and not _gets_node_ports(spec):
            continue
        number = port.get("port") or 0
        known = given.get(number)
        if known is None:
            alike = (port.get("nodePort") for port in ports if (port.get("port") or 0) == number)
            wanted = next(filter(None, alike), None)
            given[number] = port["nodePort"] = _node_port(allocator, i, wanted)
        elif not asked:
            port["nodePort"] = known
        elif asked != known:
            _node_port(allocator, i, asked)


def _change_node_ports(allocator: _Allocator, spec: Object, had: set[int]) -> None:
    given, seen = set[int](), set[tuple[str, int]]()
    for i, port in enumerate(spec.get("ports") or ()):
        asked = port.get("nodePort") or 0
        if asked:
            if asked not in had and asked not in given:
                given.add(_node_port(allocator, i, asked))
        elif _gets_node_ports(spec):
            port["nodePort"] = _node_port(allocator, i, None)
        else:
            continue
        pair = port.get("protocol") or "", port["nodePort"]
        if pair in seen:
            raise status_errors.without_reason(f"duplicate nodePort: {{{pair[0]} {pair[1]}}}")
        seen.add(pair)


def _node_port(allocator: _Allocator, i: int, wanted: int | None) -> int:
    if wanted is None:
        number = allocator.port()
        if number is None:
            raise status_errors.internal("failed to allocate a nodePort: range is full")
        return number
    why = allocator.take_port(wanted)
    if why:
        raise allocator.refused(invalid(f"spec.ports[{i}].nodePort", wanted, why))
    return wanted


def _allocate_health_check_port(allocator: _Allocator, spec: Object) -> None:
    asked = spec.get("healthCheckNodePort")
    if asked:
        why = allocator.take_port(asked)
        if why:
            raise status_errors.internal(f"failed to allocate requested HealthCheck NodePort {asked}: {why}")
        return
    number = allocator.port()
    if number is None:
        raise status_errors.internal("failed to allocate a HealthCheck NodePort 0: range is full")
    spec["healthCheckNodePort"] = number
