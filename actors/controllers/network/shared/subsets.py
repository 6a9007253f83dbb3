"""Conversion of the subsets of Endpoints to canonical form, in which they can be compared.

Source: kubernetes v1.36 pkg/api/v1/endpoints/util.go (RepackSubsets). Difference: ports and subsets are sorted by names
and numbers, upstream by a hash.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kcm.actors.controllers.network.shared.ports import EndpointPort
from kcm.protocols.objects import Object

Address = Mapping[str, Any]
Host = tuple[str, str]  # address and uid of the pod, because pods in the host network share an address
Ready = dict[Host, bool]
_FIELDS = (("addresses", True), ("notReadyAddresses", False))


def repacked(subsets: Iterable[Mapping[str, Any]]) -> list[Object]:
    """Return the canonical form of these subsets of Endpoints, sorted, for comparison and writing.

    Each port occurs once. Ports with the same addresses share a subset. An address of a port that is not ready in one
    of the given subsets is not ready in the result.
    """
    addresses: dict[Host, Address] = {}
    by_port: dict[EndpointPort | None, Ready] = {}
    # Cache by the id() of a list of ports, because many subsets share one list. The value refers to the list, so that
    # its id is not reused.
    of_list: dict[int, tuple[Any, list[Ready]]] = {}
    for subset in subsets:
        given = subset.get("ports") or ()
        known = of_list.get(id(given))
        if known is None:
            ports: Sequence[EndpointPort | None] = [_port(port) for port in given] or [None]
            known = of_list[id(given)] = (given, [by_port.setdefault(port, {}) for port in ports])
        for field, ready in _FIELDS:
            for address in subset.get(field) or ():
                host = host_of(address)
                addresses.setdefault(host, address)
                for hosts in known[1]:
                    hosts[host] = ready and hosts.get(host, True)
    together: dict[frozenset[tuple[Host, bool]], list[EndpointPort]] = {}
    for port, hosts in by_port.items():
        if not hosts:
            continue
        same = together.setdefault(frozenset(hosts.items()), [])
        if port is not None:
            same.append(port)
    packed = [(sorted(ports, key=_order), sorted(hosts)) for hosts, ports in together.items()]
    packed.sort(key=lambda entry: ([_order(port) for port in entry[0]], entry[1]))
    return [_subset(ports, hosts, addresses) for ports, hosts in packed]


def _subset(
    ports: Iterable[EndpointPort], hosts: Sequence[tuple[Host, bool]], addresses: Mapping[Host, Address]
) -> dict[str, Any]:
    subset = {
        "addresses": [addresses[host] for host, ready in hosts if ready],
        "notReadyAddresses": [addresses[host] for host, ready in hosts if not ready],
        "ports": [endpoint_port(port) for port in ports],
    }
    return {field: value for field, value in subset.items() if value}


def _port(port: Mapping[str, Any]) -> EndpointPort:
    return EndpointPort(
        port.get("name") or "", port.get("port"), port.get("protocol") or "TCP", port.get("appProtocol")
    )


def endpoint_port(port: EndpointPort) -> dict[str, Any]:
    """Return a port as an API object for the subsets of Endpoints. An empty name is omitted."""
    found = port.as_object()
    if not port.name:
        del found["name"]
    return found


def _order(port: EndpointPort) -> tuple[str, int, str, str]:
    return port.name, port.port or 0, port.protocol, port.app_protocol or ""


def host_of(address: Address) -> Host:
    """Return the identity of an address in subsets, by which they are sorted."""
    target = address.get("targetRef")
    return address.get("ip") or "", (target.get("uid") or "") if target else ""


def unversioned(subsets: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the subsets of Endpoints without the resourceVersions in targetRefs, for comparison."""
    return [
        {
            field: [_without_version(address) for address in value]
            if field in ("addresses", "notReadyAddresses")
            else value
            for field, value in subset.items()
        }
        for subset in subsets
    ]


def _without_version(address: Address) -> Address:
    target = address.get("targetRef")
    if not target or "resourceVersion" not in target:
        return address
    return {**address, "targetRef": {name: value for name, value in target.items() if name != "resourceVersion"}}
