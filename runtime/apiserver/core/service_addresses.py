"""Cluster IPs and node ports of services.

Source: kubernetes pkg/registry/core/service/storage/alloc.go (v1.36); IPv4 only. Where upstream draws at random, the
service's uid decides, so that equal runs give equal addresses.
"""

from __future__ import annotations

import ipaddress
import zlib
from collections.abc import Iterable

from protocols.objects import Object, decode_object
from runtime.apiserver.core.cluster import Cluster
from runtime.apiserver.errors import status_errors
from runtime.apiserver.errors.field_errors import FieldError, invalid

SERVICE_RANGE = ipaddress.ip_network("10.96.0.0/16")
NODE_PORTS = range(30000, 32768)
_KEPT_BACK = 10  # the first addresses are left to those who ask for one, as the API's and DNS's services do


def allocate_addresses(cluster: Cluster, service: Object) -> None:
    """Give a new service what it did not bring. Raises StatusError (422) if what it brought is taken."""
    spec, meta = service["spec"], service["metadata"]
    if spec["type"] == "ExternalName":
        return
    others = [decode_object(raw)["spec"] for raw in cluster.state.collection("services").raw_objects()]
    seed = zlib.crc32(meta["uid"].encode())
    taken = {other.get("clusterIP") for other in others}
    address = spec.get("clusterIP") or next(iter(spec.get("clusterIPs") or ()), "")
    if not address:
        address = _free_address(seed, taken)
    elif address != "None" and (error := _unusable(address, taken)):
        raise status_errors.invalid("", "Service", meta.get("name", ""), [error])
    spec["clusterIP"], spec["clusterIPs"] = address, [address]
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    if spec["type"] in ("NodePort", "LoadBalancer"):
        taken_ports = {port.get("nodePort") for other in others for port in other.get("ports") or ()}
        ports = spec.get("ports") or ()
        if errors := _unusable_node_ports(ports, taken_ports):
            raise status_errors.invalid("", "Service", meta.get("name", ""), errors)
        _give_node_ports(seed, ports, taken_ports)


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
    usable = SERVICE_RANGE.num_addresses - _KEPT_BACK - 1
    for i in range(usable):
        address = str(SERVICE_RANGE[_KEPT_BACK + (seed + i) % usable])
        if address not in taken:
            return address
    raise status_errors.internal("failed to allocate a serviceIP: range is full")


def _unusable_node_ports(ports: Iterable[Object], taken: set[int | None]) -> list[FieldError]:
    errors = []
    for i, port in enumerate(ports):
        number = port.get("nodePort")
        if not number:
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


def _give_node_ports(seed: int, ports: Iterable[Object], taken: set[int | None]) -> None:
    for port in ports:
        if port.get("nodePort"):
            continue
        numbers = (NODE_PORTS[(seed + i) % len(NODE_PORTS)] for i in range(len(NODE_PORTS)))
        number = next((one for one in numbers if one not in taken), None)
        if number is None:
            raise status_errors.internal("failed to allocate a nodePort: range is full")
        port["nodePort"] = number
        taken.add(number)
