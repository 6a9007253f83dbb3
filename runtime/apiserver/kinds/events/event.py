"""Events of events.k8s.io/v1: conversion to and from the stored form, core/v1, and their stricter validation.

Source: kubernetes pkg/registry/core/event/strategy.go, pkg/apis/events/v1/conversion.go,
pkg/apis/core/validation/events.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, required
from kcm.runtime.apiserver.kinds.core import event as core_event
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.strategy import FieldGetter
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE

# events.k8s.io/v1 field → core/v1 field; all other fields are the same.
_RENAMED = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_IMMUTABLE = (
    *("involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "reason", "type"),
    *("eventTime", "action", "related", "reportingComponent", "reportingInstance"),
)
_RENAMED_BACK = {core: new for new, core in _RENAMED.items()}


def to_storage(event: Object) -> Object:
    return {_RENAMED.get(field, field): value for field, value in event.items()} | {"apiVersion": "v1"}


def from_storage(event: Object) -> Object:
    renamed = {_RENAMED_BACK.get(field, field): value for field, value in event.items()}
    return renamed | {"apiVersion": "events.k8s.io/v1"}


def validate(event: Object) -> list[FieldError]:
    """Validate an Event, which is in the stored form (core/v1), as for all hooks."""
    return core_event.legacy_errors(event, "reportingController")


def validate_create(event: Object) -> list[FieldError]:
    errors = list(_wrong_series(event))
    if event.get("eventTime") is None:
        errors.append(required("eventTime"))
    if event.get("type") not in ("Normal", "Warning"):
        errors.append(invalid("type", "", f"has invalid value: {event.get('type') or ''}"))
    old = ("firstTimestamp", "lastTimestamp", "count")
    errors += [invalid(field, "", "needs to be unset") for field in (*old, "source") if event.get(field)]
    return errors


def _wrong_series(event: Object) -> Iterator[FieldError]:
    series = event.get("series")
    if series is None:
        return
    if (series.get("count") or 0) < 2:
        yield invalid("series.count", "", "should be at least 2")
    if series.get("lastObservedTime") is None:
        yield required("series.lastObservedTime")


def validate_update(new: Object, old: Object) -> list[FieldError]:
    """Validate an update of an Event: only the series may change.

    A changed reason yields two errors, as upstream reports it twice.
    """
    errors = list(_wrong_series(new)) if new.get("series") != old.get("series") else []
    for field in _IMMUTABLE:
        if new.get(field) != old.get(field):
            name = "reportingController" if field == "reportingComponent" else field
            errors.append(invalid(name, new.get(field), IMMUTABLE))
    return errors


_CORE_FIELDS = core_event.RESOURCE.strategy.selectable_fields
# Field in field selectors → field of core/v1.
_FIELDS = {
    **{
        field.replace("involvedObject", "regarding", 1): field
        for field in _CORE_FIELDS
        if field.startswith("involvedObject.")
    },
    "reason": "reason",
    "reportingController": "reportingComponent",
    "type": "type",
}


def _through_core(get: FieldGetter) -> FieldGetter:
    return lambda event: get(to_storage(event))


RESOURCE = ResourceDefinition(
    group="events.k8s.io",
    version="v1",
    plural="events",
    kind="Event",
    short_names=("ev",),
    storage="events",
    to_storage=to_storage,
    from_storage=from_storage,
    strategy=replace(
        core_event.RESOURCE.strategy,
        validate=validate,
        validate_create=validate_create,
        validate_update=validate_update,
        selectable_fields={name: _through_core(_CORE_FIELDS[field]) for name, field in _FIELDS.items()},
    ),
    printer=core_event.RESOURCE.printer,
)
