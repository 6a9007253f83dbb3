"""Events of core/v1, the stored form of all events: defaults, validation and table columns.

kinds/events/event.py defines the same objects in events.k8s.io/v1.

Source: kubernetes pkg/registry/core/event/strategy.go, pkg/apis/core/v1/defaults.go,
pkg/apis/core/validation/validation.go, pkg/apis/core/validation/events.go, pkg/printers/internalversion/printers.go
(printEvent) (v1.36).
"""

from __future__ import annotations

from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, required
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import Column, Printer, wide
from kcm.runtime.apiserver.registry.strategy import GarbageCollectionPolicy, Strategy
from kcm.runtime.apiserver.rules.cells import name_cell, since
from kcm.runtime.apiserver.rules.names import dns_subdomain, label_key
from kcm.runtime.apiserver.rules.selectable_fields import FIELD_LABEL_NOT_SUPPORTED, fields_at

EVENT_TTL = 3600.0  # seconds
_LONGEST, _LONGEST_NOTE = 128, 1024  # bytes


def set_defaults(event: Object) -> None:
    """Set missing fields of an Event to their zero values, as upstream always encodes them."""
    for field in ("reportingComponent", "reportingInstance"):
        event.setdefault(field, "")
    for field in ("eventTime", "firstTimestamp", "lastTimestamp"):
        event.setdefault(field, None)
    event.setdefault("source", {})


def validate(event: Object) -> list[FieldError]:
    return legacy_errors(event, "reportingComponent")


def legacy_errors(event: Object, reporter: str) -> list[FieldError]:
    """Validate the namespace of an event, and the fields that an event with an eventTime requires.

    The namespace must be that of the involved object; for a cluster-scoped object it must be "default".

    reporter: name of the field reportingComponent in the API version of the request

    Source: kubernetes pkg/apis/core/validation/events.go, legacyValidateEvent (v1.36).
    """
    about, namespace = event.get("involvedObject") or {}, event["metadata"].get("namespace", "")
    of, is_new = about.get("namespace") or "", event.get("eventTime") is not None
    errors: list[FieldError] = []
    homes = ("default", "kube-system") if is_new else ("default",)
    if (of and of != namespace and not is_new) or (not of and namespace not in homes):
        errors.append(invalid("involvedObject.namespace", of, "does not match event.namespace"))
    if not is_new:
        return errors
    controller = event.get("reportingComponent") or ""
    if not controller:
        errors.append(required(reporter))
    errors += [invalid(reporter, controller, text) for text in label_key(controller)]
    for field in ("reportingInstance", "action", "reason", "message"):
        value, most = event.get(field) or "", _LONGEST_NOTE if field == "message" else _LONGEST
        if not value and field != "message":
            errors.append(required(field))
        if len(value.encode()) > most:
            errors.append(invalid(field, "", f"can have at most {most} characters"))
    return errors


def cells(event: Object, now: float) -> list[Any]:
    """Return the table cells of an event of core/v1 or events.k8s.io/v1, which name the same fields differently."""
    first = since(_either(event, "firstTimestamp", "deprecatedFirstTimestamp") or event.get("eventTime"), now)
    last_seen = _either(event, "lastTimestamp", "deprecatedLastTimestamp")
    last = since(last_seen, now) if last_seen else first
    count, series = _either(event, "count", "deprecatedCount") or 1, event.get("series")
    if series is not None:
        last, count = since(series.get("lastObservedTime"), now), series.get("count") or 0
    involved = _either(event, "involvedObject", "regarding") or {}
    target = (involved.get("kind") or "").lower()
    if involved.get("name"):
        target += f"/{involved['name']}"
    return [
        last,
        event.get("type") or "",
        event.get("reason") or "",
        target,
        involved.get("fieldPath") or "",
        _event_source(event),
        (_either(event, "message", "note") or "").strip(),
        first,
        count,
        name_cell(event),
    ]


def _either(event: Object, name: str, other: str) -> Any:
    return event.get(name) or event.get(other)


def _event_source(event: Object) -> str:
    source = _either(event, "source", "deprecatedSource") or {}
    component = source.get("component") or _either(event, "reportingComponent", "reportingController") or ""
    instance = source.get("host") or event.get("reportingInstance")
    return f"{component}, {instance}" if instance else component


def _source_component(event: Object) -> str:
    return (event.get("source") or {}).get("component") or event.get("reportingComponent") or ""


RESOURCE = ResourceDefinition(
    version="v1",
    plural="events",
    kind="Event",
    short_names=("ev",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        allow_create_on_update=True,
        set_defaults=set_defaults,
        validate=validate,
        default_garbage_collection_policy=GarbageCollectionPolicy.UNSUPPORTED,
        ttl=EVENT_TTL,
        selectable_fields={
            **fields_at(
                "involvedObject.kind",
                "involvedObject.namespace",
                "involvedObject.name",
                "involvedObject.uid",
                "involvedObject.apiVersion",
                "involvedObject.resourceVersion",
                "involvedObject.fieldPath",
                "reason",
                "reportingComponent",
                "type",
            ),
            "source": _source_component,
        },
        unsupported_field=FIELD_LABEL_NOT_SUPPORTED,
    ),
    printer=Printer(
        columns=(
            Column("Last Seen"),
            Column("Type"),
            Column("Reason"),
            Column("Object"),
            wide("Subobject"),
            wide("Source"),
            Column("Message"),
            wide("First Seen"),
            wide("Count"),
            Column("Name", format="name", priority=1),
        ),
        cells=cells,
    ),
)
