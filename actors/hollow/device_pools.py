"""Devices of hollow nodes, by the annotation hollow.kcm.dev/devices, and the ResourceSlices that publish them.

    gpu.example.com=4,nic.example.com=1                     devices gpu-0 to gpu-3, and nic-0
    [{"driver": "gpu.example.com", "count": 4, …}, …]       the same in JSON, with more fields

Fields of a pool in JSON:
    driver                    name of the driver
    count, name               number of devices, by default 1, and their name without the number, by default the first
                              label of the driver's name
    devices                   whole devices as in a ResourceSlice, in addition to `count` of them, by default 0
    pool                      name of the pool, by default that of the node
    allNodes, nodeSelector    nodes that can use the devices, by default only this node
    sharedCounters            counter sets of the pool
All further fields, such as attributes, capacity and taints, are those of each of the `count` devices. For an attribute,
a string, number or boolean suffices; for a capacity, a quantity.

Source: kubernetes v1.36 staging/src/k8s.io/dynamic-resource-allocation/resourceslice/resourceslicecontroller.go, for
the generations and the owner of slices.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from kcm.actors.hollow.behaviour import DOMAIN, quoted, shortened
from kcm.protocols.integers import is_uint, parse_uint
from kcm.protocols.objects import Object, annotations_of, encode_object, name_of, uid_of

DEVICES = f"{DOMAIN}devices"  # annotation of a node
CONTENT = f"{DOMAIN}devices-content"  # annotation of a slice: a hash of what the node's annotation requests
PUBLISHER = f"{DOMAIN}node"  # label of a slice: the node whose annotation it is made from
MOST_DEVICES, MOST_COMPLEX_DEVICES = 128, 64  # of one slice; with taints or counters
# Limits of one node, so that a mistake in an annotation does not exhaust the memory of the process.
MOST_POOLS, MOST_COUNT, MOST_BYTES = 100, 10_000, 16 * 2**20  # pools, devices, and bytes of the devices as JSON
MOST_LEVELS = 32  # of nested lists and objects
_OWN_FIELDS = ("driver", "count", "name", "devices", "pool", "allNodes", "nodeSelector", "sharedCounters")
_ELEMENTS = {"devices": "devices", "sharedCounters": "counter sets"}


class DevicePool(Struct, frozen=True):
    """Pool of devices that an annotation requests. scope: fields of a slice's spec that select its nodes."""

    driver: str
    name: str
    scope: Mapping[str, Any]
    devices: Sequence[Mapping[str, Any]]
    counters: Sequence[Mapping[str, Any]] = ()

    @property
    def is_local(self) -> bool:
        return "nodeName" in self.scope


def device_pools(node: Object) -> list[DevicePool]:
    """Return the pools of a node. Raises ValueError for an annotation that is invalid or exceeds a limit."""
    text = annotations_of(node).get(DEVICES, "").strip()
    if not text:
        return []
    try:
        given = json.loads(text) if text[0] in "[{" else list(_short(text))
    except RecursionError as err:
        raise ValueError("too many levels") from err
    requests = given if isinstance(given, list) else [given]
    _check_encoding(requests)
    _check_limits(requests)
    pools = [_pool(request, name_of(node)) for request in requests]
    names = [(pool.driver, pool.name) for pool in pools]
    if len(set(names)) < len(names):
        raise ValueError("two pools of a driver have the same name")
    return pools


def _short(text: str) -> Iterator[Object]:
    for part in text.split(","):
        driver, equals, count = part.strip().partition("=")
        if not equals or not is_uint(count):
            raise ValueError(f"{quoted(part.strip())} is not DRIVER=COUNT")
        number = parse_uint(count)
        yield {"driver": driver, "count": MOST_COUNT + 1 if number is None else number}


def _check_encoding(requests: list[Any]) -> None:
    """Raise ValueError for what Python's JSON parser accepts, but the API server does not."""
    if any(_is_deeper(request, MOST_LEVELS) for request in requests):
        raise ValueError("too many levels")
    try:
        encode_object({"pools": requests})
    except TypeError as err:  # a lone surrogate, or an integer of more than 64 bits
        raise ValueError(str(err)) from err


def _is_deeper(value: Any, levels: int) -> bool:
    """Report whether lists and objects are nested in more levels."""
    if not isinstance(value, dict | list):
        return False
    items = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in items)


def _check_limits(requests: list[Any]) -> None:
    """Raise ValueError for an invalid pool, and for more pools, devices or bytes than a node may have."""
    if len(requests) > MOST_POOLS:
        raise ValueError(f"{len(requests)} pools are more than {MOST_POOLS}")
    number = size = 0
    for request in requests:
        count, devices = _count_and_devices(request)
        number += count + len(devices)
        size += count * len(encode_object(_device_fields(request)))
    if number > MOST_COUNT:
        raise ValueError(f"{number} devices are more than {MOST_COUNT}")
    if size > MOST_BYTES:
        raise ValueError(f"the devices have {size} bytes, more than {MOST_BYTES}")


def _count_and_devices(request: Any) -> tuple[int, list[Object]]:
    """Return the number of devices to make, and the whole devices. Raises ValueError for an invalid pool."""
    if not isinstance(request, dict) or not isinstance(request.get("driver"), str) or not request["driver"]:
        raise ValueError("a pool without a driver")
    driver, devices = shortened(request["driver"]), request.get("devices") or []
    count = request.get("count", 0 if devices else 1)
    for field in ("devices", "sharedCounters"):
        values = request.get(field) or []
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            raise ValueError(f"{field} of {driver} is not a list of {_ELEMENTS[field]}")
    for field in ("name", "pool"):
        if not isinstance(request.get(field) or "", str):
            raise ValueError(f"{field} of {driver} is not a string")
    if type(count) is not int or not 0 <= count <= MOST_COUNT:
        raise ValueError(f"count of {driver} is not a number from 0 to {MOST_COUNT}")
    return count, devices


def _device_fields(request: Mapping[str, Any]) -> Object:
    """Return the fields of a pool that each of its `count` devices has."""
    return {name: value for name, value in request.items() if name not in _OWN_FIELDS}


def _pool(given: Mapping[str, Any], node: str) -> DevicePool:
    count, devices = _count_and_devices(given)
    driver, fields = given["driver"], _device_fields(given)
    prefix = given.get("name") or driver.partition(".")[0]
    made = [{"name": f"{prefix}-{number}", **fields} for number in range(count)]
    scope: Object = {name: given[name] for name in ("allNodes", "nodeSelector") if given.get(name)}
    return DevicePool(
        driver=driver,
        name=given.get("pool") or node,
        scope=scope or {"nodeName": node},
        devices=tuple(_completed(device) for device in (*made, *devices)),
        counters=tuple(given.get("sharedCounters") or ()),
    )


def _completed(device: Mapping[str, Any]) -> Object:
    """Return the device with its abbreviated attributes and capacities written out."""
    completed = dict(device)
    if isinstance(device.get("attributes"), dict):
        completed["attributes"] = {name: _attribute(value) for name, value in device["attributes"].items()}
    if isinstance(device.get("capacity"), dict):
        completed["capacity"] = {
            name: value if isinstance(value, dict) else {"value": str(value)}
            for name, value in device["capacity"].items()
        }
    return completed


def _attribute(value: Any) -> Any:
    match value:
        case bool():
            return {"bool": value}
        case int():
            return {"int": value}
        case str():
            return {"string": value}
    return value


def content_of(pool: DevicePool) -> str:
    """Return a hash of what the pool's slices contain."""
    content = [pool.driver, pool.name, pool.scope, pool.devices, pool.counters]
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=8).hexdigest()


def slices_of(pool: DevicePool, node: Object, *, generation: int) -> list[Object]:
    """Return the ResourceSlices of a pool, published by this node."""
    simple = not any(device.get("taints") or device.get("consumesCounters") for device in pool.devices)
    size = MOST_DEVICES if simple else MOST_COMPLEX_DEVICES
    parts: list[Object] = [{"sharedCounters": list(pool.counters)}] if pool.counters else []
    parts += [{"devices": list(pool.devices[start : start + size])} for start in range(0, len(pool.devices) or 1, size)]
    place = name_of(node) if pool.is_local else pool.name
    meta: Object = {"labels": {PUBLISHER: name_of(node)}, "annotations": {CONTENT: content_of(pool)}}
    if pool.is_local:
        meta["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Node", "name": name_of(node), "uid": uid_of(node), "controller": True}
        ]
    return [
        {
            "metadata": {"name": f"{place}-{pool.driver}-{number}", **meta},
            "spec": {
                "driver": pool.driver,
                "pool": {"name": pool.name, "generation": generation, "resourceSliceCount": len(parts)},
                **pool.scope,
                **part,
            },
        }
        for number, part in enumerate(parts)
    ]


def generation_after(slices: Iterable[Object]) -> int:
    """Return the generation of a pool that replaces these slices."""
    return 1 + max((published["spec"]["pool"].get("generation") or 0 for published in slices), default=0)
