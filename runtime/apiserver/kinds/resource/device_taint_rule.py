"""DeviceTaintRules (resource.k8s.io/v1beta2): times of taints, validation and table columns.

Upstream serves them with --runtime-config=resource.k8s.io/v1beta2/devicetaintrules. Its feature gate
DRADeviceTaintRules concerns their clients.

Source: kubernetes pkg/registry/resource/devicetaintrule/strategy.go, pkg/apis/resource/v1beta2/defaults.go,
pkg/apis/resource/validation/validation.go, pkg/printers/internalversion/printers.go (printDeviceTaint) (v1.36).
Difference: their older version, v1alpha3, is not served.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, too_many
from kcm.runtime.apiserver.kinds.pod_spec.persistent_volume_sources import wrong_driver_name
from kcm.runtime.apiserver.kinds.resource.shared.device_claims import wrong_pool
from kcm.runtime.apiserver.kinds.resource.shared.device_taints import set_time_added, wrong_taint
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import age_cell, items, name_cell, part, since
from kcm.runtime.apiserver.rules.conditions import validate_conditions
from kcm.runtime.apiserver.rules.names import dns_label, dns_subdomain

_MOST_CONDITIONS = 8


def set_defaults(rule: Object) -> None:
    rule["spec"].setdefault("taint", {})


def set_times(new: Object, old: Object | None, now: str) -> None:
    """Set timeAdded if it is missing, and again if an update changes the effect of the taint but not timeAdded."""
    taint = new["spec"].get("taint") or {}
    if old is None:
        set_time_added(taint, now)
        return
    before = part(old, "spec", "taint")
    if taint.get("effect") != before.get("effect") and taint.get("timeAdded") == before.get("timeAdded"):
        new["spec"] = {**new["spec"], "taint": {**taint, "timeAdded": now}}


def validate(rule: Object) -> list[FieldError]:
    spec = rule["spec"]
    return [
        *_wrong_selector(spec.get("deviceSelector") or {}, "spec.deviceSelector"),
        *wrong_taint(spec.get("taint") or {}, "spec.taint"),
    ]


def _wrong_selector(selector: Object, field: str) -> Iterator[FieldError]:
    driver, pool, device = (selector.get(name) for name in ("driver", "pool", "device"))
    if driver is not None:
        yield from wrong_driver_name(driver, f"{field}.driver")
    if pool is not None:
        yield from wrong_pool(pool, f"{field}.pool")
    if device is not None:
        yield from (invalid(f"{field}.device", device, text) for text in dns_label(device))


def validate_status_update(new: Object, _old: Object) -> list[FieldError]:
    conditions = items(part(new, "status"), "conditions")
    errors = validate_conditions(conditions, "status.conditions")
    if len(conditions) > _MOST_CONDITIONS:
        errors.append(too_many("status.conditions", len(conditions), _MOST_CONDITIONS))
    return errors


def cells(rule: Object, now: float) -> list[Any]:
    taint = part(rule, "spec", "taint")
    added = taint.get("timeAdded")
    return [
        name_cell(rule),
        *(taint.get(field) or "" for field in ("key", "value", "effect")),
        since(added, now) if added else "",
        age_cell(rule, now),
    ]


RESOURCE = ResourceDefinition(
    group="resource.k8s.io",
    version="v1beta2",
    plural="devicetaintrules",
    kind="DeviceTaintRule",
    namespaced=False,
    subresources=("status",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
        set_defaults=set_defaults,
        set_times=set_times,
        validate=validate,
        has_status=True,
        validate_status_update=validate_status_update,
        return_deleted_object=True,
    ),
    printer=Printer(
        columns=(NAME, Column("Key"), Column("Value"), Column("Effect"), Column("TimeAdded"), AGE),
        cells=cells,
    ),
)
