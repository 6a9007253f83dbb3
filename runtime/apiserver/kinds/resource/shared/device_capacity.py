"""Validation of shared counters, capacity policies and binding conditions of devices.

Source: kubernetes pkg/apis/resource/validation/validation.go (validateCounterSet, validateDeviceCounterConsumption,
validateRequestPolicy, validateDeviceBindingParameters) (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from kcm.protocols.quantities import format_quantity, parse_quantity, read_quantity
from kcm.runtime.apiserver.errors.field_errors import FieldError, duplicate, forbidden, invalid, required, too_many
from kcm.runtime.apiserver.rules.names import dns_label, label_key

MOST_COUNTER_SETS, MOST_COUNTERS, MOST_CONSUMED_SETS, MOST_CONDITIONS, MOST_VALUES = 8, 32, 2, 4, 10

Part = Mapping[str, Any]


def wrong_counter_sets(sets: Sequence[Part], field: str) -> Iterator[FieldError]:
    """Validate spec.sharedCounters of a ResourceSlice."""
    yield from _wrong_sets(sets, field, most=MOST_COUNTER_SETS, name="name")


def wrong_consumption(sets: Sequence[Part], field: str) -> Iterator[FieldError]:
    """Validate consumesCounters of a device."""
    yield from _wrong_sets(sets, field, most=MOST_CONSUMED_SETS, name="counterSet")


def _wrong_sets(sets: Sequence[Part], field: str, *, most: int, name: str) -> Iterator[FieldError]:
    """Validate counters by set. name: the field with the name of the set."""
    if len(sets) > most:
        yield too_many(field, len(sets), most)
        return
    seen: set[str] = set()
    for i, counters in enumerate(sets):
        at, set_name, values = f"{field}[{i}]", counters.get(name) or "", counters.get("counters") or {}
        if not set_name:
            yield required(f"{at}.{name}")
        else:
            yield from (invalid(f"{at}.{name}", set_name, text) for text in dns_label(set_name))
        if not values:
            yield required(f"{at}.counters")
        elif len(values) > MOST_COUNTERS:
            yield too_many(f"{at}.counters", len(values), MOST_COUNTERS)
        else:
            yield from (invalid(f"{at}.counters", key, text) for key in values for text in dns_label(key))
        if set_name in seen:
            yield duplicate(at, set_name)
        seen.add(set_name)


def wrong_binding(device: Part, field: str) -> Iterator[FieldError]:
    """Validate bindingConditions and bindingFailureConditions of a device or an allocation result."""
    conditions, failures = (device.get(name) or [] for name in ("bindingConditions", "bindingFailureConditions"))
    for name, listed in (("bindingConditions", conditions), ("bindingFailureConditions", failures)):
        if len(listed) > MOST_CONDITIONS:
            yield too_many(f"{field}.{name}", len(listed), MOST_CONDITIONS)
        else:
            for i, condition in enumerate(listed):
                yield from (invalid(f"{field}.{name}[{i}]", condition, text) for text in label_key(condition))
        for i, condition in enumerate(listed):
            if condition in listed[:i]:
                yield duplicate(f"{field}.{name}[{i}]", condition)
    for i, condition in enumerate(failures):
        if condition in conditions:
            detail = "bindingFailureConditions must not overlap with bindingConditions"
            yield invalid(f"{field}.bindingFailureConditions[{i}]", condition, detail)
    if failures and not conditions:
        detail = "bindingConditions are required to use bindingFailureConditions"
        yield invalid(f"{field}.bindingConditions", device.get("bindingConditions"), detail)
    if conditions and not failures:
        detail = "bindingFailureConditions are required to use bindingConditions"
        yield invalid(f"{field}.bindingFailureConditions", device.get("bindingFailureConditions"), detail)


def wrong_capacity(capacity: Part, field: str, *, is_shared: bool) -> Iterator[FieldError]:
    """Validate a capacity of a device. is_shared: the device may be allocated more than once."""
    policy, at = capacity.get("requestPolicy"), f"{field}.requestPolicy"
    if policy is None:
        return
    if not is_shared:
        yield forbidden(at, "allowMultipleAllocations must be true")
        return
    values, range_ = policy.get("validValues") or (), policy.get("validRange")
    if values and range_ is not None:
        detail = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        yield forbidden(at, detail)
        return
    checks: list[tuple[str, Any, Callable[..., Iterator[FieldError]]]] = []
    if values:
        checks.append(("validValues", values, _wrong_values))
    elif range_ is not None:
        checks.append(("validRange", range_, _wrong_range))
    for name, given, check in checks:
        if policy.get("default") is None:
            yield required(f"{at}.default", f"required when {name} is defined")
        else:
            yield from check(given, policy["default"], capacity.get("value") or "0", f"{at}.{name}")


def _wrong_values(values: Sequence[str], default: str, most: str, field: str) -> Iterator[FieldError]:
    amounts, capacity = [parse_quantity(value) for value in values], parse_quantity(most)
    for i, (before, after) in enumerate(pairwise(amounts)):
        if before > after:
            yield invalid(f"{field}[{i + 1}]", values[i + 1], "values must be sorted in ascending order")
    if len(values) > MOST_VALUES:
        yield too_many(field, len(values), MOST_VALUES)
    else:
        for i, amount in enumerate(amounts):
            if amount > capacity:
                yield invalid(f"{field}[{i}]", values[i], f"option is larger than capacity value: {most}")
            if amount in amounts[:i]:
                yield duplicate(f"{field}[{i}]", str(amount))
    if len(values) > MOST_VALUES or parse_quantity(default) not in amounts:
        yield invalid(field, default, "default value is not valid according to the requestPolicy")


def _wrong_range(range_: Part, default: str, most: str, field: str) -> Iterator[FieldError]:
    low, high, step = range_.get("min"), range_.get("max"), range_.get("step")
    if low is None:
        yield required(f"{field}.min", "required when validRange is defined")
        return
    least, amount, capacity = parse_quantity(low), parse_quantity(default), parse_quantity(most)
    if least > capacity:
        yield invalid(f"{field}.min", low, f"min is larger than capacity value: {most}")
    if amount < least:
        yield invalid(f"{field}.min", default, f"default is less than min: {low}")
    if high is not None:
        if least > parse_quantity(high):
            yield invalid(f"{field}.max", low, f"min is larger than max: {high}")
        if parse_quantity(high) > capacity:
            yield invalid(f"{field}.max", high, f"max is larger than capacity value: {most}")
        if amount > parse_quantity(high):
            yield invalid(f"{field}.max", default, f"default is more than max: {high}")
    if step is None:
        return
    if least + parse_quantity(step) > capacity:
        added = format_quantity(least + parse_quantity(step), read_quantity(low).form)
        yield invalid(f"{field}.step", step, f"one step {added} is larger than capacity value: {most}")
    for value in (default, high):
        # A step of 0, by which upstream divides, has no multiples here.
        if value is not None and (parse_quantity(value) - least) % (parse_quantity(step) or capacity + 1) != 0:
            yield invalid(f"{field}.step", value, f"value is not a multiple of a given step ({step}) from ({low})")
