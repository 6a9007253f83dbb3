"""ResourcePoolStatusRequests (resource.k8s.io/v1alpha3): defaults, validation and table columns.

Upstream serves them with --runtime-config=resource.k8s.io/v1alpha3. Its feature gate DRAResourcePoolStatus concerns the
controller that processes them.

Source: kubernetes pkg/registry/resource/resourcepoolstatusrequest/strategy.go, pkg/apis/resource/v1alpha3/defaults.go,
pkg/apis/resource/v1alpha3/zz_generated.validations.go,
pkg/apis/resource/validation/validation_resourcepoolstatusrequest.go,
pkg/printers/internalversion/printers.go (printResourcePoolStatusRequest) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, duplicate, invalid, required, too_long, too_many
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import NONE, is_true, items, name_cell, part, since
from kcm.runtime.apiserver.rules.cells import condition as find_condition
from kcm.runtime.apiserver.rules.conditions import validate_conditions
from kcm.runtime.apiserver.rules.names import dns_subdomain, too_many_characters
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE
from kcm.runtime.apiserver.schema.inner_forms import inner_form

DEFAULT_LIMIT, HIGHEST_LIMIT = 100, 1000
_LONGEST_NAME, _LONGEST_ERROR = 253, 256
_MOST_POOLS, _MOST_CONDITIONS = 1000, 10
_TOO_LONG = f"must be no more than {_LONGEST_NAME} bytes"
_CASELESS = (
    "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'Example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
# Fields of a condition in the order in which upstream encodes it in errors.
_CONDITION_FIELDS = ("type", "status", "observedGeneration", "lastTransitionTime", "reason", "message")
_COUNTS = ("totalDevices", "allocatedDevices", "availableDevices", "unavailableDevices")


def set_defaults(request: Object) -> None:
    request["spec"].setdefault("limit", DEFAULT_LIMIT)


def validate_create(request: Object) -> list[FieldError]:
    spec = request["spec"]
    errors = list(_wrong_driver(spec.get("driver") or "", "spec.driver"))
    if spec.get("poolName") is not None:
        errors += _wrong_pool_name(spec["poolName"], "spec.poolName")
    limit = spec["limit"]
    if limit > HIGHEST_LIMIT:
        errors.append(invalid("spec.limit", limit, f"must be less than or equal to {HIGHEST_LIMIT}"))
    return errors + list(_too_small(limit, 1, "spec.limit"))


def validate_update(new: Object, old: Object) -> list[FieldError]:
    return [] if new["spec"] == old["spec"] else [invalid("spec", None, IMMUTABLE)]


def validate_status_update(new: Object, old: Object) -> list[FieldError]:
    """Validate a status update: the first status is final."""
    status, before = new.get("status"), old.get("status")
    if before is not None:
        if status == before:
            return []
        shown = inner_form(status, "*resource.ResourcePoolStatusRequestStatus")
        return [invalid("status", shown, IMMUTABLE), *(_wrong_status(status) if status is not None else ())]
    if status is None:
        return []
    return [*validate_conditions(status.get("conditions"), "status.conditions"), *_wrong_status(status)]


def _wrong_status(status: Mapping[str, Any]) -> Iterator[FieldError]:
    if status.get("poolCount") is None:
        yield required("status.poolCount")
    else:
        yield from _too_small(status["poolCount"], 0, "status.poolCount")
    pools, conditions = items(status, "pools"), items(status, "conditions")
    if len(pools) > _MOST_POOLS:
        yield too_many("status.pools", len(pools), _MOST_POOLS)
    else:
        for i, pool in enumerate(pools):
            yield from _wrong_pool(pool, f"status.pools[{i}]")
    if len(conditions) > _MOST_CONDITIONS:
        yield too_many("status.conditions", len(conditions), _MOST_CONDITIONS)
    else:
        types = [condition.get("type") or "" for condition in conditions]
        for i, type_ in enumerate(types):
            if type_ in types[:i]:
                shown = {name: conditions[i][name] for name in _CONDITION_FIELDS if name in conditions[i]}
                yield duplicate(f"status.conditions[{i}]", shown)


def _wrong_pool(pool: Mapping[str, Any], field: str) -> Iterator[FieldError]:
    yield from _wrong_driver(pool.get("driver") or "", f"{field}.driver")
    if not pool.get("poolName"):
        yield required(f"{field}.poolName")
    else:
        yield from _wrong_pool_name(pool["poolName"], f"{field}.poolName")
    if not pool.get("generation"):
        yield required(f"{field}.generation")
    else:
        yield from _too_small(pool["generation"], 0, f"{field}.generation")
    yield from _too_small(pool.get("resourceSliceCount"), 1, f"{field}.resourceSliceCount")
    for name in _COUNTS:
        yield from _too_small(pool.get(name), 0, f"{field}.{name}")
    node, error = pool.get("nodeName"), pool.get("validationError")
    if node is not None:
        yield from (invalid(f"{field}.nodeName", node, text) for text in _subdomain(node))
    if error is not None and len(error.encode()) > _LONGEST_ERROR:
        yield too_long(f"{field}.validationError", _LONGEST_ERROR)


def _too_small(number: int | None, least: int, field: str) -> Iterator[FieldError]:
    if number is not None and number < least:
        yield invalid(field, number, f"must be greater than or equal to {least}")


def _wrong_driver(driver: str, field: str) -> Iterator[FieldError]:
    if not driver:
        yield required(field)
        return
    yield from (
        invalid(field, driver, _TOO_LONG if text == _TOO_LONG else _CASELESS) for text in _subdomain(driver.lower())
    )


def _subdomain(name: str) -> list[str]:
    """Validate a DNS subdomain, with the text of declarative validation for a name that is too long."""
    return [_TOO_LONG if text == too_many_characters(_LONGEST_NAME) else text for text in dns_subdomain(name)]


def _wrong_pool_name(name: str, field: str) -> Iterator[FieldError]:
    """Validate the name of a pool. Every segment between slashes is a DNS subdomain; errors name its number."""
    if len(name.encode()) > _LONGEST_NAME:
        yield too_long(field, _LONGEST_NAME)
    for i, segment in enumerate(name.split("/")):
        if not segment:
            yield invalid(field, name, f"segment {i}: must not be empty")
        else:
            yield from (invalid(field, segment, f"segment {i}: {text}") for text in _subdomain(segment))


def cells(request: Object, now: float) -> list[Any]:
    driver, status = part(request, "spec").get("driver") or "", request.get("status")
    if not isinstance(status, dict):
        return [name_cell(request), driver, *["-"] * 5, 0, "Pending", NONE]
    pools, count, state, completed = items(status, "pools"), status.get("poolCount") or 0, "Pending", NONE
    if is_true(status, "Complete"):
        found = find_condition(status, "Complete") or {}
        state = "Complete" if count <= len(pools) else f"Complete ({len(pools)}/{count} pools)"
        completed = since(found.get("lastTransitionTime"), now)
    elif is_true(status, "Failed"):
        state = "Failed"
    if state == "Failed":
        sums = ["-"] * 5
    else:
        total, allocated, available, unavailable = (sum(pool.get(name) or 0 for pool in pools) for name in _COUNTS)
        failures = sum(pool.get("validationError") is not None for pool in pools)
        sums = [str(number) for number in (total, available, allocated, unavailable, failures)]
    return [name_cell(request), driver, *sums, count, state, completed]


RESOURCE = ResourceDefinition(
    group="resource.k8s.io",
    version="v1alpha3",
    plural="resourcepoolstatusrequests",
    kind="ResourcePoolStatusRequest",
    namespaced=False,
    subresources=("status",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        set_defaults=set_defaults,
        validate_create=validate_create,
        allow_unconditional_update=False,
        validate_update=validate_update,
        has_status=True,
        status_may_be_missing=True,
        validate_status_update=validate_status_update,
        return_deleted_object=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Driver"),
            Column("Total"),
            Column("Available"),
            Column("Allocated"),
            Column("Unavailable"),
            Column("Errors"),
            Column("Pools", "integer"),
            Column("Status"),
            Column("Completed"),
        ),
        cells=cells,
    ),
)
