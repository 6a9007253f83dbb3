"""events.k8s.io/v1 beside core/v1: two shapes of the same stored event.

Source: kubernetes pkg/apis/events/v1/conversion.go (v1.36).
"""

from __future__ import annotations

from dataclasses import replace

from protocols.objects import Object
from runtime.apiserver.kinds import strategies
from runtime.apiserver.kinds.validation.core import validate_new_event
from runtime.apiserver.registry.definitions import FieldGetter

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

_FIELDS = strategies.EVENTS.fields
_REGARDING = {
    f"regarding{field.removeprefix('involvedObject')}": field
    for field in _FIELDS
    if field.startswith("involvedObject.")
}


def to_core(event: Object) -> Object:
    return {_RENAMED.get(field, field): value for field, value in event.items()} | {"apiVersion": "v1"}


def from_core(event: Object) -> Object:
    renamed = {_RENAMED_BACK.get(field, field): value for field, value in event.items()}
    return renamed | {"apiVersion": "events.k8s.io/v1"}


_SAME = {"reason": "reason", "reportingController": "reportingComponent", "type": "type"}


def _through_core(get: FieldGetter) -> FieldGetter:
    return lambda event: get(to_core(event))


EVENTS = replace(
    strategies.EVENTS,
    validate=validate_new_event,
    fields={name: _through_core(_FIELDS[core]) for name, core in {**_REGARDING, **_SAME}.items()},
)
