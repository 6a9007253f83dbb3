"""Devices, their taints and the rules that taint them: facts of ResourceSlices and DeviceTaintRules, and tolerations.

Source: kubernetes v1.36 staging/src/k8s.io/dynamic-resource-allocation/resourceclaim/devicetoleration.go,
pkg/controller/devicetainteviction/device_taint_eviction.go (ruleMatchesDevice).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kcm.protocols.field_types import NUMBER, TEXT, TIME, check
from kcm.protocols.objects import Object
from kcm.protocols.times import parse_time

NO_EXECUTE, NO_EFFECT = "NoExecute", "None"

_TAINT = {"key": TEXT, "value": TEXT, "effect": TEXT, "timeAdded": TIME}
_SLICE = {
    "spec": {
        "driver": TEXT,
        "nodeName": TEXT,
        "pool": {"name": TEXT, "generation": NUMBER, "resourceSliceCount": NUMBER},
        "devices": [{"name": TEXT, "taints": [_TAINT]}],
    }
}
_RULE = {"spec": {"deviceSelector": {"driver": TEXT, "pool": TEXT, "device": TEXT}, "taint": _TAINT}}
_CLAIM = {
    "status": {
        "allocation": {
            "devices": {
                "results": [
                    {
                        "driver": TEXT,
                        "pool": TEXT,
                        "device": TEXT,
                        "tolerations": [
                            {"key": TEXT, "operator": TEXT, "value": TEXT, "effect": TEXT, "tolerationSeconds": NUMBER}
                        ],
                    }
                ]
            }
        }
    }
}


class DeviceTaint(NamedTuple):
    """Taint of a device. added: timeAdded in Unix seconds; None if it is missing."""

    key: str
    value: str
    effect: str
    added: float | None


class TaintedDevice(NamedTuple):
    """Taint of a device in a ResourceSlice. position: its index in the taints of the device."""

    device: str
    position: int
    taint: DeviceTaint


class SliceFacts(NamedTuple):
    """Facts of one version of a ResourceSlice.

    node: spec.nodeName; "" if the devices are not of a single node.
    expected_slices: number of slices of which the pool consists.
    devices: names of the devices, in their order.
    evicting: the NoExecute taints of the devices.
    """

    driver: str
    pool: str
    node: str
    generation: int
    expected_slices: int
    devices: tuple[str, ...]
    evicting: tuple[TaintedDevice, ...]


def slice_facts(slice_: Object) -> SliceFacts:
    """Derive the facts. Raises ValueError that names the field which is of the wrong type."""
    check(slice_, _SLICE)
    spec = slice_.get("spec") or {}
    pool, devices = spec.get("pool") or {}, spec.get("devices") or ()
    return SliceFacts(
        driver=spec.get("driver") or "",
        pool=pool.get("name") or "",
        node=spec.get("nodeName") or "",
        generation=pool.get("generation") or 0,
        expected_slices=pool.get("resourceSliceCount") or 0,
        devices=tuple(device.get("name") or "" for device in devices),
        evicting=tuple(
            TaintedDevice(device.get("name") or "", position, _taint(taint))
            for device in devices
            for position, taint in enumerate(device.get("taints") or ())
            if taint.get("effect") == NO_EXECUTE
        ),
    )


class DeviceSelector(NamedTuple):
    """Devices that a DeviceTaintRule selects, by name. None: any name."""

    driver: str | None
    pool: str | None
    device: str | None

    def selects(self, driver: str, pool: str, device: str) -> bool:
        return all(
            wanted is None or wanted == name
            for wanted, name in ((self.driver, driver), (self.pool, pool), (self.device, device))
        )


class RuleFacts(NamedTuple):
    """Facts of one version of a DeviceTaintRule. selector: None if it selects no device."""

    selector: DeviceSelector | None
    taint: DeviceTaint

    def selects(self, driver: str, pool: str, device: str) -> bool:
        return self.selector is not None and self.selector.selects(driver, pool, device)


def rule_facts(rule: Object) -> RuleFacts:
    """Derive the facts. Raises ValueError that names the field which is of the wrong type."""
    check(rule, _RULE)
    spec = rule.get("spec") or {}
    selector = spec.get("deviceSelector")
    return RuleFacts(
        selector=None
        if selector is None
        else DeviceSelector(selector.get("driver"), selector.get("pool"), selector.get("device")),
        taint=_taint(spec.get("taint") or {}),
    )


def _taint(taint: Mapping[str, Any]) -> DeviceTaint:
    added = taint.get("timeAdded")
    return DeviceTaint(
        key=taint.get("key") or "",
        value=taint.get("value") or "",
        effect=taint.get("effect") or "",
        added=None if added is None else parse_time(added),
    )


class AllocatedDevice(NamedTuple):
    """Device that is allocated for a claim. tolerations: tolerations of the claim's request for the device."""

    driver: str
    pool: str
    device: str
    tolerations: tuple[Mapping[str, Any], ...] = ()


def allocated_devices(claim: Mapping[str, Any]) -> tuple[AllocatedDevice, ...]:
    """Return the devices of a claim's allocation. Raises ValueError that names the field which is of the wrong type."""
    check(claim, _CLAIM)
    devices = ((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}
    return tuple(
        AllocatedDevice(
            result.get("driver") or "",
            result.get("pool") or "",
            result.get("device") or "",
            tuple(result.get("tolerations") or ()),
        )
        for result in devices.get("results") or ()
    )


def tolerates_device_taint(toleration: Mapping[str, Any], taint: DeviceTaint) -> bool:
    """Report whether the toleration matches the taint, regardless of tolerationSeconds. Source: ToleratesTaint.

    Unlike a toleration of taints of nodes, a toleration without a key may have the operator Equal.
    """
    effect, key = toleration.get("effect"), toleration.get("key")
    if (effect and effect != taint.effect) or (key and key != taint.key):
        return False
    match toleration.get("operator") or "Equal":
        case "Exists":
            return True
        case "Equal":
            return (toleration.get("value") or "") == taint.value
        case _:
            return False
