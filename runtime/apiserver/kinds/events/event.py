"""Events of events.k8s.io/v1: another form of the events that core/v1 stores.

Source: kubernetes pkg/registry/core/event/strategy.go, pkg/apis/events/v1/conversion.go,
pkg/apis/core/validation/events.go (v1.36).
"""

from __future__ import annotations

from dataclasses import replace

from protocols.objects import Object
from runtime.apiserver.errors.field_errors import FieldError, invalid, required
from runtime.apiserver.kinds.core import event as core_event
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.strategy import FieldGetter

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
_RENAMED_BACK = {core: new for new, core in _RENAMED.items()}


def to_storage(event: Object) -> Object:
    return {_RENAMED.get(field, field): value for field, value in event.items()} | {"apiVersion": "v1"}


def from_storage(event: Object) -> Object:
    renamed = {_RENAMED_BACK.get(field, field): value for field, value in event.items()}
    return renamed | {"apiVersion": "events.k8s.io/v1"}


def validate(event: Object) -> list[FieldError]:
    """event: in the stored form, as for all hooks."""
    errors = core_event.validate(event)
    if "eventTime" not in event:
        errors.append(required("eventTime"))
    if event.get("type") not in ("Normal", "Warning"):
        errors.append(invalid("type", "", f"has invalid value: {event.get('type') or ''}"))
    return errors


_CORE_FIELDS = core_event.RESOURCE.strategy.selectable_fields
# A field selector's field → the field of core/v1.
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
        selectable_fields={name: _through_core(_CORE_FIELDS[field]) for name, field in _FIELDS.items()},
    ),
    printer=core_event.RESOURCE.printer,
)
