"""AllocationResults, as they are written to status.allocation of ResourceClaims.

Source: kubernetes v1.36 staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/
allocator_incubating.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from kcm.actors.hollow.scheduler.devices.inventory import Device
from kcm.actors.hollow.scheduler.devices.requests import DeviceRequest
from kcm.protocols.objects import Object, name_of
from kcm.protocols.quantities import Quantity


class DeviceResult(Struct, eq=False):
    """Allocated device. consumed: the capacity that it consumes, if it is shared."""

    request: DeviceRequest
    device: Device
    share: str
    consumed: Mapping[str, Quantity]


def allocation_of(claim: Object, chosen: Sequence[DeviceRequest], results: Sequence[DeviceResult], node: str) -> Object:
    """Return the AllocationResult of a claim.

    chosen: the claim's requests; of a request with firstAvailable, the chosen alternative.
    node: name of the node for which the devices were chosen.
    """
    devices: Object = {"results": [_shown_result(result) for result in results]}
    config = list(_config(claim, chosen))
    if config:
        devices["config"] = config
    allocation: Object = {"devices": devices}
    selector = _node_selector([result.device for result in results], node)
    if selector is not None:
        allocation["nodeSelector"] = selector
    return allocation


def _config(claim: Object, chosen: Sequence[DeviceRequest]) -> Iterator[Object]:
    """Yield the configuration of the classes, each with its requests, and then that of the claim."""
    by_class: dict[str, list[str]] = {}
    for request in chosen:
        by_class.setdefault(name_of(request.device_class), []).append(request.full_name)
    for request in chosen:
        names = by_class.pop(name_of(request.device_class), None)
        if names is not None:
            for config in (request.device_class.get("spec") or {}).get("config") or ():
                yield {"source": "FromClass", "requests": list(names), **config}
    for config in claim["spec"]["devices"].get("config") or ():
        wanted = config.get("requests") or ()
        if not wanted:
            yield {"source": "FromClaim", **config}
        for request in chosen:
            if wanted and ((request.parent or request.name) in wanted or request.full_name in wanted):
                yield {"source": "FromClaim", **config}


def _shown_result(result: DeviceResult) -> Object:
    device, request = result.device, result.request
    shown_: Object = {
        "request": request.full_name,
        "driver": device.id.driver,
        "pool": device.id.pool,
        "device": device.id.device,
    }
    if request.is_admin:
        shown_["adminAccess"] = True
    if request.demand.get("tolerations"):
        shown_["tolerations"] = request.demand["tolerations"]
    for name in ("bindingConditions", "bindingFailureConditions"):
        if device.raw.get(name):
            shown_[name] = device.raw[name]
    if result.share:
        shown_["shareID"] = result.share
    if result.consumed:
        shown_["consumedCapacity"] = {name: str(amount) for name, amount in result.consumed.items()}
    return shown_


def _node_selector(devices: Sequence[Device], node: str) -> Object | None:
    """Return the node selector of an allocation: the node if a device is local to it, otherwise all requirements."""
    fields: list[Mapping[str, Any]] = []
    expressions: list[Mapping[str, Any]] = []
    for device in devices:
        if device.nodes.name or device.binds_to_node:
            requirement = {"key": "metadata.name", "operator": "In", "values": [node]}
            return {"nodeSelectorTerms": [{"matchFields": [requirement]}]}
        terms: Sequence[Mapping[str, Any]] = (device.nodes.selector or {}).get("nodeSelectorTerms") or ()
        if len(terms) == 1:
            _add_new(fields, terms[0].get("matchFields") or ())
            _add_new(expressions, terms[0].get("matchExpressions") or ())
    term: Object = {}
    if expressions:
        term["matchExpressions"] = expressions
    if fields:
        term["matchFields"] = fields
    return {"nodeSelectorTerms": [term]} if term else None


def _add_new(known: list[Mapping[str, Any]], more: Sequence[Mapping[str, Any]]) -> None:
    def content(requirement: Mapping[str, Any]) -> tuple[Any, ...]:
        return requirement.get("key"), requirement.get("operator"), frozenset(requirement.get("values") or ())

    there = {content(requirement) for requirement in known}
    for requirement in more:
        if content(requirement) not in there:
            there.add(content(requirement))
            known.append(requirement)
