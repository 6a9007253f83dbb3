"""LimitRanges (core/v1): defaults and validation.

Source: kubernetes pkg/registry/core/limitrange/strategy.go, pkg/apis/core/v1/defaults.go,
pkg/apis/core/validation/validation.go (v1.36).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from kcm.protocols.objects import Object
from kcm.protocols.quantities import Quantity, milli_value, whole_value
from kcm.protocols.quota.amounts import ONE, Amounts, read_amounts
from kcm.protocols.quota.names import is_huge_pages, is_native
from kcm.runtime.apiserver.errors.field_errors import FieldError, duplicate, forbidden, invalid, required
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.names import dns_subdomain, label_key
from kcm.runtime.apiserver.rules.resource_amounts import wrong_container_name, wrong_name

POD, CONTAINER, CLAIM = "Pod", "Container", "PersistentVolumeClaim"
PARTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
WORDS = {"min": "min", "max": "max", "default": "default", "defaultRequest": "default request"}
MOST_MILLI = (2**63 - 1) // 1000
# (less, more, field, shown): `less` may not be greater than `more`; otherwise the error names `field` and shows the
# value of `shown`.
ORDER = (
    ("min", "max", "min", "min"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest"),
    ("min", "default", "default", "min"),
    ("default", "max", "default", "max"),
)


def set_defaults(limits: Object) -> None:
    limits.setdefault("spec", {}).setdefault("limits", None)  # upstream always encodes this field
    for item in (limits.get("spec") or {}).get("limits") or ():
        if item.get("type") != CONTAINER:
            continue
        item["default"] = {**(item.get("max") or {}), **(item.get("default") or {})}
        item["defaultRequest"] = {
            **(item.get("min") or {}),
            **item["default"],
            **(item.get("defaultRequest") or {}),
        }


def prepare_for_create(limits: Object) -> None:
    """Name a LimitRange without a name after its uid."""
    if not limits["metadata"].get("name"):
        limits["metadata"]["name"] = limits["metadata"]["uid"]


def validate(limits: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    types: set[str] = set()
    for i, item in enumerate((limits.get("spec") or {}).get("limits") or ()):
        field, type_ = f"spec.limits[{i}]", item.get("type") or ""
        errors += [invalid(f"{field}.type", type_, text) for text in _wrong_type(type_)]
        if type_ in types:
            errors.append(duplicate(f"{field}.type", type_))
        types.add(type_)
        errors += _wrong_names(item, type_, field)
        parts = {part: read_amounts(item.get(part)) for part in PARTS}
        if type_ == POD:
            for part in ("default", "defaultRequest"):
                if parts[part]:
                    errors.append(forbidden(f"{field}.{part}", "may not be specified when `type` is 'Pod'"))
                    parts[part] = {}
        if type_ == CLAIM and "storage" not in {**parts["min"], **parts["max"]}:
            text = "either minimum or maximum storage value is required, but neither was provided"
            errors.append(required(f"{field}.limits", text))
        for name in sorted({name for amounts in parts.values() for name in amounts}):
            errors += _wrong_amounts(name, parts, field)
    return errors


def _wrong_type(type_: str) -> list[str]:
    wrong = label_key(type_)
    if not wrong and "/" not in type_ and type_ not in (POD, CONTAINER, CLAIM):
        return ["must be a standard limit type or fully qualified"]
    return wrong


def _wrong_names(item: Mapping[str, Any], type_: str, field: str) -> Iterator[FieldError]:
    wrong = wrong_container_name if type_ in (POD, CONTAINER) else wrong_name
    for part in PARTS:
        if type_ == POD and part.startswith("default"):
            continue
        for name in sorted(item.get(part) or {}):
            yield from wrong(name, f"{field}.{part}[{name}]")


def _wrong_amounts(name: str, parts: Mapping[str, Amounts], field: str) -> Iterator[FieldError]:
    amounts = {part: parts[part][name] for part in PARTS if name in parts[part]}
    for less, more, part, shown in ORDER:
        if less in amounts and more in amounts and amounts[less].value > amounts[more].value:
            text = f"{WORDS[less]} value {amounts[less]} is greater than {WORDS[more]} value {amounts[more]}"
            if (less, more) == ("defaultRequest", "default"):
                text = text.replace("than default value", "than default limit value")
            yield invalid(f"{field}.{part}[{name}]", str(amounts[shown]), text)
    ratio = amounts.get("maxLimitRequestRatio")
    if ratio is not None:
        at = f"{field}.maxLimitRequestRatio[{name}]"
        if ratio.value < ONE.value:
            yield invalid(at, str(ratio), f"ratio {ratio} is less than 1")
        if "min" in amounts and "max" in amounts:
            possible = _ratio(amounts["max"], amounts["min"], ratio)
            if _ratio(ratio, ONE, ratio) > possible:
                yield invalid(at, str(ratio), f"ratio {ratio} is greater than max/min = {possible:f}")
    default, request = amounts.get("default"), amounts.get("defaultRequest")
    if default is not None and request is not None and default.value != request.value:
        if not is_native(name) or is_huge_pages(name):
            text = f"default value {default} must equal to defaultRequest value {request} in {name}"
            yield invalid(f"{field}.defaultRequest[{name}]", str(request), text)


def _ratio(value: Quantity, divisor: Quantity, also: Quantity) -> float:
    """Return value / divisor; infinity if the divisor is 0.

    Both are rounded up to thousandths first. They are rounded up to whole numbers if thousandths of one of the three
    amounts exceed int64.

    also: another amount of the same comparison
    """
    precise = all(whole_value(amount.value) < MOST_MILLI for amount in (value, divisor, also))
    above, below = ((milli_value if precise else whole_value)(amount.value) for amount in (value, divisor))
    return above / below if below else math.inf


RESOURCE = ResourceDefinition(
    version="v1",
    plural="limitranges",
    kind="LimitRange",
    short_names=("limits",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        allow_create_on_update=True,
        set_defaults=set_defaults,
        prepare_for_create=prepare_for_create,
        validate=validate,
    ),
)
