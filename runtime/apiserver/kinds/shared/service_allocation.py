"""The addresses and ports that Services are given.

Addresses are IPv4 only. Where upstream draws a free address or port at random, the uid of the service decides, so that
equal runs give equal addresses.

Source: kubernetes pkg/registry/core/service/storage/{alloc,storage}.go, pkg/registry/core/service/strategy.go,
dropTypeDependentFields (v1.36).
"""

from __future__ import annotations

import ipaddress
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from protocols.objects import Object
from runtime.apiserver.errors import status_errors
from runtime.apiserver.errors.field_errors import FieldError, invalid
from runtime.apiserver.registry.strategy import StoredObjects

SERVICE_RANGE = ipaddress.ip_network("10.96.0.0/16")
NODE_PORTS = range(30000, 32768)
_RESERVED_ADDRESSES = 10  # the first ones are only for services that name one, as those of the API and of DNS do
_OF_CLUSTER_IPS = ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
_WITH_NODE_PORTS = ("NodePort", "LoadBalancer")
_OF_LOAD_BALANCERS = ("allocateLoadBalancerNodePorts", "loadBalancerClass", "healthCheckNodePort")


def allocate(stored: StoredObjects, service: Object) -> None:
    """Allocates a cluster IP and node ports. Raises StatusError (422) if those that the service names are taken."""
    _allocate(stored, service, {})


def reallocate(stored: StoredObjects, new: Object, old: Object) -> None:
    """A changed service keeps what it has, loses what its new type does not need, and is given what that needs.

    What the client changed itself is left to validation. Raises StatusError (422) as allocate does.
    """
    now, then = {**new["spec"]}, old["spec"]
    now["ports"] = [{**port} for port in now.get("ports") or ()]
    if not now["ports"]:
        del now["ports"]
    new["spec"] = now
    _drop_what_the_type_does_not_need(now, then)
    if now["type"] != "LoadBalancer":
        new["status"] = {**(new.get("status") or {}), "loadBalancer": {}}
    _keep_what_was_allocated(now, then)
    _allocate(stored, new, then)


def _drop_what_the_type_does_not_need(now: Object, then: Mapping[str, Any]) -> None:
    if then["type"] != "ExternalName" and now["type"] == "ExternalName":
        if now.get("clusterIP") == then.get("clusterIP"):
            now.pop("clusterIP", None)
        _drop_unchanged(now, then, _OF_CLUSTER_IPS)
    if (
        then["type"] in _WITH_NODE_PORTS
        and now["type"] not in _WITH_NODE_PORTS
        and _node_ports(now) <= _node_ports(then)
    ):
        for port in now.get("ports") or ():
            port.pop("nodePort", None)
    if then["type"] == "LoadBalancer" and now["type"] != "LoadBalancer":
        _drop_unchanged(now, then, _OF_LOAD_BALANCERS)
    if _is_external(then) and not _is_external(now):
        _drop_unchanged(now, then, ("externalTrafficPolicy",))


def _drop_unchanged(now: Object, then: Mapping[str, Any], fields: Iterable[str]) -> None:
    for field in fields:
        if now.get(field) == then.get(field):
            now.pop(field, None)


def _is_external(spec: Mapping[str, Any]) -> bool:
    return spec["type"] in _WITH_NODE_PORTS or (spec["type"] == "ClusterIP" and bool(spec.get("externalIPs")))


def _node_ports(spec: Mapping[str, Any]) -> set[int]:
    return {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}


def _keep_what_was_allocated(now: Object, then: Mapping[str, Any]) -> None:
    """A client that replaces a service need not repeat what it was given."""
    if "ExternalName" not in (now["type"], then["type"]):
        for field in ("clusterIP", "clusterIPs"):
            if not now.get(field) and then.get(field):
                now[field] = then[field]
    if now["type"] in _WITH_NODE_PORTS and then["type"] in _WITH_NODE_PORTS:
        used = _node_ports(now) & _node_ports(then)
        by_name = {port.get("name") or "": port.get("nodePort") for port in then.get("ports") or ()}
        for port in now.get("ports") or ():
            known = by_name.get(port.get("name") or "")
            if not port.get("nodePort") and known and known not in used:
                port["nodePort"] = known


def _allocate(stored: StoredObjects, service: Object, had: Mapping[str, Any]) -> None:
    """had: the spec of before; what it has is the service's own."""
    spec, meta = service["spec"], service["metadata"]
    if spec["type"] == "ExternalName":
        return
    others = [other["spec"] for other in stored.objects("services") if other["metadata"]["uid"] != meta["uid"]]
    seed = zlib.crc32(meta["uid"].encode())
    taken = {other.get("clusterIP") for other in others}
    address = spec.get("clusterIP") or next(iter(spec.get("clusterIPs") or ()), "")
    if not address:
        address = _free_address(seed, taken)
    elif (
        address not in ("None", had.get("clusterIP"))
        and not had.get("clusterIP")
        and (error := _unusable(address, taken))
    ):
        raise status_errors.invalid("", "Service", meta.get("name", ""), [error])
    spec["clusterIP"], spec["clusterIPs"] = address, [address]
    anywhere = address == "None" and not spec.get("selector")  # its endpoints are written by hand, of either family
    spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if anywhere else ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if anywhere else "SingleStack")
    if spec["type"] in _WITH_NODE_PORTS:
        taken_ports = {port.get("nodePort") for other in others for port in other.get("ports") or ()}
        ports = spec.get("ports") or ()
        if errors := _unusable_node_ports(ports, taken_ports, _node_ports(had)):
            raise status_errors.invalid("", "Service", meta.get("name", ""), errors)
        _allocate_node_ports(seed, ports, taken_ports)


def _unusable(address: str, taken: set[str | None]) -> FieldError | None:
    try:
        inside = ipaddress.ip_address(address) in SERVICE_RANGE
    except ValueError:
        return invalid("spec.clusterIPs[0]", address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
    if not inside:
        why = f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {SERVICE_RANGE}"
    elif address in taken:
        why = "provided IP is already allocated"
    else:
        return None
    return invalid("spec.clusterIPs", [address], f"failed to allocate IP {address}: {why}")


def _free_address(seed: int, taken: set[str | None]) -> str:
    usable = SERVICE_RANGE.num_addresses - _RESERVED_ADDRESSES - 1
    for i in range(usable):
        address = str(SERVICE_RANGE[_RESERVED_ADDRESSES + (seed + i) % usable])
        if address not in taken:
            return address
    raise status_errors.internal("failed to allocate a serviceIP: range is full")


def _unusable_node_ports(ports: Iterable[Object], taken: set[int | None], own: set[int]) -> list[FieldError]:
    errors = []
    for i, port in enumerate(ports):
        number = port.get("nodePort")
        if not number or number in own:
            continue
        if number not in NODE_PORTS:
            valid = f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
            why = f"provided port is not in the valid range. The range of valid ports is {valid}"
        elif number in taken:
            why = "provided port is already allocated"
        else:
            continue
        errors.append(invalid(f"spec.ports[{i}].nodePort", number, why))
    return errors


def _allocate_node_ports(seed: int, ports: Iterable[Object], taken: set[int | None]) -> None:
    for port in ports:
        if port.get("nodePort"):
            continue
        numbers = (NODE_PORTS[(seed + i) % len(NODE_PORTS)] for i in range(len(NODE_PORTS)))
        number = next((one for one in numbers if one not in taken), None)
        if number is None:
            raise status_errors.internal("failed to allocate a nodePort: range is full")
        port["nodePort"] = number
        taken.add(number)
