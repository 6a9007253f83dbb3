"""ResourceSlices (resource.k8s.io/v1): defaults, validation and table columns.

Source: kubernetes pkg/registry/resource/resourceslice/strategy.go, pkg/apis/resource/validation/validation.go,
pkg/printers/internalversion/printers.go (printResourceSlice) (v1.36). Difference: nodeAllocatableResourceMappings are
not validated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import (
    FieldError,
    duplicate,
    invalid,
    required,
    too_long,
    too_many,
)
from kcm.runtime.apiserver.kinds.pod_spec.persistent_volume_sources import wrong_driver_name
from kcm.runtime.apiserver.kinds.pod_spec.scheduling import wrong_node_selector
from kcm.runtime.apiserver.kinds.resource.shared.device_capacity import (
    wrong_binding,
    wrong_capacity,
    wrong_consumption,
    wrong_counter_sets,
)
from kcm.runtime.apiserver.kinds.resource.shared.device_claims import wrong_pool, wrong_qualified_name
from kcm.runtime.apiserver.kinds.resource.shared.device_taints import set_time_added, wrong_taint
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import age_cell, name_cell, part
from kcm.runtime.apiserver.rules.names import dns_label, dns_subdomain
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE
from kcm.runtime.apiserver.rules.selectable_fields import fields_at
from kcm.runtime.apiserver.schema.inner_forms import inner_form

Part = Mapping[str, Any]

_MOST_DEVICES, _MOST_ADVANCED, _MOST_ATTRIBUTES, _MOST_TAINTS = 128, 64, 32, 16
_LONGEST_TEXT = 64
_PLACES = ("nodeName", "nodeSelector", "allNodes")
# Fields for the value of a device attribute → their names in upstream's internal type.
_VALUES = {
    "int": "IntValue",
    "bool": "BoolValue",
    "string": "StringValue",
    "version": "VersionValue",
    "ints": "IntValues",
    "bools": "BoolValues",
    "strings": "StringValues",
    "versions": "VersionValues",
}
_LISTS = ("ints", "bools", "strings", "versions")
_NUMBER, _WORD = "(0|[1-9][0-9]*)", "[0-9A-Za-z-]+"
_semver = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_WORD}(\.{_WORD})*)?(\+{_WORD}(\.{_WORD})*)?")


def set_defaults(slice_: Object) -> None:
    """Remove lists of attribute values, as the feature gate DRAListTypeAttributes is off. Write a null as upstream."""
    for device in slice_["spec"].get("devices") or ():
        for attribute in (device.get("attributes") or {}).values():
            for name in _LISTS:
                attribute.pop(name, None)
        for capacity in (device.get("capacity") or {}).values():
            if capacity.get("requestPolicy") is not None:
                capacity["requestPolicy"].setdefault("default", None)


def set_times(slice_: Object, _old: Object | None, now: str) -> None:
    for device in slice_["spec"].get("devices") or ():
        for taint in device.get("taints") or ():
            set_time_added(taint, now)


def validate(slice_: Object) -> list[FieldError]:
    return list(_wrong_spec(slice_["spec"], "spec"))


def validate_update(new: Object, old: Object) -> list[FieldError]:
    now, before = new["spec"], old["spec"]
    errors: list[FieldError] = []
    if (name := part(now, "pool").get("name")) != part(before, "pool").get("name"):
        errors.append(invalid("spec.pool.name", name, IMMUTABLE))
    return errors + [
        invalid(f"spec.{field}", now.get(field), IMMUTABLE)
        for field in ("driver", "nodeName")
        if now.get(field) != before.get(field)
    ]


def warn(slice_: Object, _old: Object | None) -> Iterator[str]:
    driver = slice_["spec"].get("driver") or ""
    if driver != driver.lower():
        yield f'spec.driver: driver names should be lowercase; "{driver}" contains uppercase characters'


def _wrong_spec(spec: Part, field: str) -> Iterator[FieldError]:
    yield from wrong_driver_name(spec.get("driver") or "", f"{field}.driver")
    yield from _wrong_pool(part(spec, "pool"), f"{field}.pool")
    yield from _wrong_nodes(spec, field)
    devices, at = spec.get("devices") or (), f"{field}.devices"
    if spec.get("sharedCounters") is not None and spec.get("devices") is not None:
        yield invalid(field, "", "only one of `sharedCounters` or `devices` is allowed")
    advanced = any(device.get("taints") or device.get("consumesCounters") or _has_lists(device) for device in devices)
    most = _MOST_ADVANCED if advanced else _MOST_DEVICES
    if len(devices) > most:
        yield too_many(at, len(devices), most)
    seen: set[str] = set()
    for i, device in enumerate(devices[:most]):
        name = device.get("name") or ""
        yield from _wrong_device(device, f"{at}[{i}]", per_device_nodes=bool(spec.get("perDeviceNodeSelection")))
        if name in seen:
            yield duplicate(f"{at}[{i}]", name)
        seen.add(name)
    yield from wrong_counter_sets(spec.get("sharedCounters") or (), f"{field}.sharedCounters")


def _has_lists(device: Part) -> bool:
    return any(name in attribute for attribute in (device.get("attributes") or {}).values() for name in _LISTS)


def _wrong_pool(pool: Part, field: str) -> Iterator[FieldError]:
    yield from wrong_pool(pool.get("name") or "", f"{field}.name")
    count, generation = pool.get("resourceSliceCount") or 0, pool.get("generation") or 0
    if count <= 0:
        yield invalid(f"{field}.resourceSliceCount", count, "must be greater than zero")
    if generation < 0:
        yield invalid(f"{field}.generation", generation, "must be greater than or equal to zero")


def _wrong_nodes(spec: Part, field: str) -> Iterator[FieldError]:
    """Validate that exactly one field selects the nodes that can use the devices."""
    node, selector = spec.get("nodeName"), spec.get("nodeSelector")
    selectors = []
    if node is not None:
        if node:
            selectors.append("`nodeName`")
            yield from (invalid(f"{field}.nodeName", node, text) for text in dns_subdomain(node))
        else:
            yield invalid(f"{field}.nodeName", node, "must be either unset or set to a non-empty string")
    if selector is not None:
        selectors.append("`nodeSelector`")
        yield from wrong_node_selector(selector, f"{field}.nodeSelector")
        terms = selector.get("nodeSelectorTerms") or []
        if len(terms) != 1:
            detail = "must have exactly one node selector term"
            shown = inner_form(terms, "[]core.NodeSelectorTerm")
            yield invalid(f"{field}.nodeSelector.nodeSelectorTerms", shown, detail)
    for name in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(name):
            selectors.append(f"`{name}`")
        elif spec.get(name) is not None:
            yield invalid(f"{field}.{name}", False, "must be either unset or set to true")
    one_of = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
    if not selectors:
        yield required(field, one_of)
    elif len(selectors) > 1:
        yield invalid(field, f"{{{', '.join(selectors)}}}", f"{one_of}, but multiple fields are set")


def _wrong_device(device: Part, field: str, *, per_device_nodes: bool) -> Iterator[FieldError]:
    """Validate a device of a ResourceSlice.

    per_device_nodes: whether each device selects its own nodes (spec.perDeviceNodeSelection)
    """
    name, attributes, capacity = device.get("name") or "", device.get("attributes") or {}, device.get("capacity") or {}
    yield from (invalid(f"{field}.name", name, text) for text in dns_label(name))
    if len(attributes) + len(capacity) > _MOST_ATTRIBUTES:
        detail = f"the total number of attributes and capacities must not exceed {_MOST_ATTRIBUTES}"
        yield invalid(field, len(attributes) + len(capacity), detail)
    for part_, entries in (("attributes", attributes), ("capacity", capacity)):
        for key in entries:
            yield from wrong_qualified_name(key, f"{field}.{part_}")
    for key, value in attributes.items():
        yield from _wrong_attribute(value, f"{field}.attributes[{key}]")
    for key, value in capacity.items():
        is_shared = device.get("allowMultipleAllocations") is True
        yield from wrong_capacity(value, f"{field}.capacity[{key}]", is_shared=is_shared)
    taints = device.get("taints") or ()
    if len(taints) > _MOST_TAINTS:
        yield too_many(f"{field}.taints", len(taints), _MOST_TAINTS)
    for i, taint in enumerate(taints):
        yield from wrong_taint(taint, f"{field}.taints[{i}]")
    yield from wrong_consumption(device.get("consumesCounters") or (), f"{field}.consumesCounters")
    if per_device_nodes:
        yield from _wrong_place(device, field)
    yield from wrong_binding(device, field)
    places = [f"`{name}`" for name in _PLACES if device.get(name)]
    if not per_device_nodes and any(device.get(name) is not None for name in _PLACES):
        detail = (
            "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true "
            "in the ResourceSlice spec"
        )
        yield invalid(field, None, detail)
    elif per_device_nodes and len(places) != 1:
        detail = (
            "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set "
            "to true in the ResourceSlice spec"
        )
        yield invalid(field, f"{{{', '.join(places)}}}", detail) if places else required(field, detail)


def _wrong_place(device: Part, field: str) -> Iterator[FieldError]:
    """Validate the fields of a device that select nodes."""
    node, selector = device.get("nodeName"), device.get("nodeSelector")
    if node:
        yield from (invalid(f"{field}.nodeName", node, text) for text in dns_subdomain(node))
    elif node is not None:
        yield invalid(f"{field}.nodeName", node, "must not be empty")
    if selector is not None:
        yield from wrong_node_selector(selector, f"{field}.nodeSelector")
    if device.get("allNodes") is False:
        yield invalid(f"{field}.allNodes", False, "must be either unset or set to true")


def _wrong_attribute(attribute: Part, field: str) -> Iterator[FieldError]:
    text, version = attribute.get("string"), attribute.get("version")
    if text is not None and len(text.encode()) > _LONGEST_TEXT:
        yield too_long(f"{field}.string", _LONGEST_TEXT)
    if version is not None:
        if not _semver.fullmatch(version):
            yield invalid(f"{field}.version", version, "must be a string compatible with semver.org spec 2.0.0")
        if len(version.encode()) > _LONGEST_TEXT:
            yield too_long(f"{field}.version", _LONGEST_TEXT)
    given = [name for name in _VALUES if attribute.get(name) is not None]
    yield from (
        invalid(f"{field}.{name}", [], "must not be empty if specified")
        for name in _LISTS
        if attribute.get(name) is not None and not attribute[name]
    )
    if not given:
        yield invalid(field, "", "exactly one value must be specified")
    elif len(given) > 1:
        shown = {inner: attribute.get(name) for name, inner in _VALUES.items()}
        yield invalid(field, shown, "exactly one value must be specified")


def cells(resource_slice: Object, now: float) -> list[Any]:
    spec = part(resource_slice, "spec")
    return [
        name_cell(resource_slice),
        spec.get("nodeName") or "",
        spec.get("driver") or "",
        part(spec, "pool").get("name") or "",
        age_cell(resource_slice, now),
    ]


RESOURCE = ResourceDefinition(
    group="resource.k8s.io",
    version="v1",
    plural="resourceslices",
    kind="ResourceSlice",
    namespaced=False,
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
        set_defaults=set_defaults,
        set_times=set_times,
        validate=validate,
        validate_update=validate_update,
        warn=warn,
        return_deleted_object=True,
        selectable_fields=fields_at("spec.driver", "spec.nodeName"),
        unsupported_field="field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {}",
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Node"),
            Column("Driver"),
            Column("Pool"),
            AGE,
        ),
        cells=cells,
    ),
)
