"""Validation of status.devices of ResourceClaims, which the drivers of allocated devices write.

Source: kubernetes pkg/apis/resource/validation/validation.go (validateDeviceStatus, validateNetworkDeviceData,
validateUID) (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from ipaddress import IPv4Interface, IPv6Interface, ip_interface
from typing import Any

from kcm.runtime.apiserver.errors.field_errors import FieldError, duplicate, invalid, quoted, too_long, too_many
from kcm.runtime.apiserver.kinds.pod_spec.persistent_volume_sources import wrong_driver_name
from kcm.runtime.apiserver.kinds.resource.shared.device_claims import wrong_object, wrong_pool
from kcm.runtime.apiserver.rules.conditions import validate_conditions
from kcm.runtime.apiserver.rules.names import dns_label

_MOST_CONDITIONS, _MOST_ADDRESSES, _LONGEST_INTERFACE, _LONGEST_HARDWARE = 8, 16, 256, 128
_uuid = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_leading_zeros = re.compile(r"(?<![0-9])0+(?=[0-9])")

Part = Mapping[str, Any]
DeviceId = tuple[str, ...]


def device_id(device: Part) -> DeviceId:
    return tuple(device.get(name) or "" for name in ("driver", "pool", "device", "shareID"))


def wrong_states(devices: Sequence[Part], field: str, allocated: Container[DeviceId]) -> Iterator[FieldError]:
    """Validate the states of devices. allocated: the devices of the claim's allocation."""
    seen: set[DeviceId] = set()
    for i, device in enumerate(devices):
        yield from _wrong_state(device, f"{field}[{i}]", allocated)
        if device_id(device) in seen:
            yield duplicate(f"{field}[{i}]", _shown(device))
        seen.add(device_id(device))


def _wrong_state(device: Part, field: str, allocated: Container[DeviceId]) -> Iterator[FieldError]:
    name, conditions = device.get("device") or "", device.get("conditions") or ()
    yield from wrong_driver_name(device.get("driver") or "", f"{field}.driver")
    yield from wrong_pool(device.get("pool") or "", f"{field}.pool")
    yield from (invalid(f"{field}.device", name, text) for text in dns_label(name))
    if device.get("shareID") is not None:
        yield from wrong_share(device["shareID"], f"{field}.shareID")
    if device_id(device) not in allocated:
        yield invalid(field, _shown(device), "must be an allocated device in the claim")
    if len(conditions) > _MOST_CONDITIONS:
        yield too_many(f"{field}.conditions", len(conditions), _MOST_CONDITIONS)
    yield from validate_conditions(conditions, f"{field}.conditions")
    if device.get("data") is not None:
        yield from wrong_object(device["data"], f"{field}.data")
    yield from _wrong_network(device.get("networkData") or {}, f"{field}.networkData")


def _shown(device: Part) -> dict[str, str]:
    return dict(zip(("Driver", "Pool", "Device", "ShareID"), device_id(device), strict=True))


def _wrong_network(network: Part, field: str) -> Iterator[FieldError]:
    for name, most in (("interfaceName", _LONGEST_INTERFACE), ("hardwareAddress", _LONGEST_HARDWARE)):
        if len((network.get(name) or "").encode()) > most:
            yield too_long(f"{field}.{name}", most)
    addresses = network.get("ips") or ()
    if len(addresses) > _MOST_ADDRESSES:
        yield too_many(f"{field}.ips", len(addresses), _MOST_ADDRESSES)
        return
    for i, address in enumerate(addresses):
        yield from (invalid(f"{field}.ips[{i}]", address, text) for text in _address_problems(address))
        if address in addresses[:i]:
            yield duplicate(f"{field}.ips[{i}]", address)


def _address_problems(address: str) -> Iterator[str]:
    """Yield the problem of an address of an interface, such as 10.9.8.7/24. It must be in its canonical form."""
    parsed = _interface(_leading_zeros.sub("", address) if "." in address else address)
    if parsed is None:
        yield "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
    elif str(parsed) != address:
        yield f"must be in canonical form ({quoted(str(parsed))})"


def _interface(address: str) -> IPv4Interface | IPv6Interface | None:
    try:
        return ip_interface(address) if "/" in address and "%" not in address else None
    except ValueError:
        return None


def wrong_share(share: str, field: str) -> Iterator[FieldError]:
    if len(share) not in (32, 36, 38, 45):
        yield invalid(field, share, f"error validating uid: invalid UUID length: {len(share)}")
    elif not _uuid.fullmatch(share):
        detail = (
            "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase "
            "hexadecimal characters"
        )
        yield invalid(field, share, detail)
