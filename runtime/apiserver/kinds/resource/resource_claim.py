"""ResourceClaims (resource.k8s.io/v1): defaults, validation, authorization and table columns.

Source: kubernetes pkg/registry/resource/resourceclaim/strategy.go, pkg/apis/resource/validation/validation.go,
pkg/printers/internalversion/printers.go (printResourceClaim) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kcm.protocols.objects import Object, is_deleting, namespace_of
from kcm.runtime.apiserver.errors.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many,
)
from kcm.runtime.apiserver.kinds.pod_spec.persistent_volume_sources import wrong_driver_name
from kcm.runtime.apiserver.kinds.pod_spec.scheduling import wrong_node_selector
from kcm.runtime.apiserver.kinds.resource.shared.allocated_devices import (
    DeviceId,
    device_id,
    wrong_share,
    wrong_states,
)
from kcm.runtime.apiserver.kinds.resource.shared.device_access import permit_requests, permit_status
from kcm.runtime.apiserver.kinds.resource.shared.device_capacity import wrong_binding
from kcm.runtime.apiserver.kinds.resource.shared.device_claims import (
    Requests,
    requests_of,
    set_claim_defaults,
    wrong_claim,
    wrong_configuration,
    wrong_pool,
    wrong_reference,
    wrong_references,
)
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Granting, Strategy
from kcm.runtime.apiserver.registry.users import User
from kcm.runtime.apiserver.rules.cells import age_cell, items, name_cell, part
from kcm.runtime.apiserver.rules.names import dns_label, dns_subdomain
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE
from kcm.runtime.apiserver.schema.inner_forms import inner_form

_MOST_CONSUMERS, _MOST_RESULTS = 256, 32


def set_defaults(claim: Object) -> None:
    set_claim_defaults(claim["spec"])


def validate_create(claim: Object) -> list[FieldError]:
    return list(wrong_claim(claim["spec"], "spec"))


def permit(among: Granting, new: Object, old: Object | None, _user: User) -> list[FieldError]:
    return permit_requests(among, new["spec"], namespace_of(new)) if old is None else []


def validate_update(new: Object, old: Object) -> list[FieldError]:
    if new["spec"] == old["spec"]:
        return []
    return [invalid("spec", inner_form(new["spec"], "resource.ResourceClaimSpec"), IMMUTABLE)]


def prepare_for_status_update(new: Object, old: Object) -> None:
    """Remove the entries of status.devices for devices that are not allocated any more, in place.

    Clients that deallocate a claim need not know these entries. Source: dropDeallocatedStatusDevices.
    """
    status = new.get("status") or {}
    if status.get("devices"):
        lost = _allocated(old.get("status") or {}) - _allocated(status)
        status["devices"] = [device for device in status["devices"] if device_id(device) not in lost]
    if "devices" in status and not status["devices"]:
        del status["devices"]
    for device in status.get("devices") or ():
        device.setdefault("conditions", None)  # as upstream encodes it


def _allocated(status: Mapping[str, Any]) -> set[DeviceId]:
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    return {device_id(result) for result in results}


def validate_status_update(new: Object, old: Object) -> list[FieldError]:
    return list(_wrong_status(new, old))


def _wrong_status(new: Object, old: Object) -> Iterator[FieldError]:
    """Validate the status of a ResourceClaim.

    An allocation is immutable, and reservedFor of a claim with a deletionTimestamp may not grow.
    """
    status, before = new.get("status") or {}, old.get("status") or {}
    allocation, consumers = status.get("allocation"), status.get("reservedFor") or []
    at = "status.reservedFor"
    if len(consumers) > _MOST_CONSUMERS:
        yield FieldError("FieldValueTooMany", at, len(consumers), f"must have at most {_MOST_CONSUMERS} items")
    seen: set[str] = set()
    for i, consumer in enumerate(consumers):
        yield from (required(f"{at}[{i}].{name}") for name in ("resource", "name", "uid") if not consumer.get(name))
        uid = consumer.get("uid") or ""
        if uid in seen:
            yield duplicate(f"{at}[{i}]", uid)
        seen.add(uid)
    yield from wrong_states(status.get("devices") or (), "status.devices", _allocated(status))
    if consumers and allocation is None:
        yield forbidden(at, "may not be specified when `allocated` is not set")
    elif is_deleting(new) and any(consumer not in (before.get("reservedFor") or ()) for consumer in consumers):
        detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        yield forbidden(at, detail)
    if allocation is None:
        return
    if before.get("allocation") is None:
        yield from _wrong_allocation(allocation, "status.allocation", requests_of(new["spec"].get("devices") or {}))
    elif allocation != before["allocation"]:
        yield invalid("status.allocation", inner_form(allocation, "resource.AllocationResult"), IMMUTABLE)


def _wrong_allocation(allocation: Mapping[str, Any], field: str, names: Requests) -> Iterator[FieldError]:
    devices = allocation.get("devices") or {}
    results = devices.get("results") or ()
    if len(results) > _MOST_RESULTS:
        yield too_many(f"{field}.devices.results", len(results), _MOST_RESULTS)
        results = ()
    for i, result in enumerate(results):
        at, device = f"{field}.devices.results[{i}]", result.get("device") or ""
        yield from wrong_reference(result.get("request") or "", f"{at}.request", names)
        yield from wrong_driver_name(result.get("driver") or "", f"{at}.driver")
        yield from wrong_pool(result.get("pool") or "", f"{at}.pool")
        yield from (invalid(f"{at}.device", device, text) for text in dns_label(device))
        yield from wrong_binding(result, at)
        if result.get("shareID") is not None:
            yield from wrong_share(result["shareID"], f"{at}.shareID")
    for i, config in enumerate(devices.get("config") or ()):
        at, source = f"{field}.devices.config[{i}]", config.get("source") or ""
        if not source:
            yield required(f"{at}.source")
        elif source not in ("FromClaim", "FromClass"):
            yield not_supported(f"{at}.source", source, ("FromClaim", "FromClass"))
        yield from wrong_references(config.get("requests") or (), f"{at}.requests", names)
        yield from wrong_configuration(config, at)
    if allocation.get("nodeSelector") is not None:
        yield from wrong_node_selector(allocation["nodeSelector"], f"{field}.nodeSelector")


def cells(claim: Object, now: float) -> list[Any]:
    status, states = part(claim, "status"), []
    if is_deleting(claim):
        states.append("deleted")
    if status.get("allocation") is not None:
        states.append("allocated")
        if items(status, "reservedFor"):
            states.append("reserved")
    return [name_cell(claim), ",".join(states) or "pending", age_cell(claim, now)]


RESOURCE = ResourceDefinition(
    group="resource.k8s.io",
    version="v1",
    plural="resourceclaims",
    kind="ResourceClaim",
    subresources=("status",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        set_defaults=set_defaults,
        validate_create=validate_create,
        permit=permit,
        validate_update=validate_update,
        has_status=True,
        prepare_for_status_update=prepare_for_status_update,
        validate_status_update=validate_status_update,
        permit_status=permit_status,
        return_deleted_object=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("State"),
            AGE,
        ),
        cells=cells,
    ),
)
