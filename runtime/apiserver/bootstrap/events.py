"""Events that the server records about objects which it maintains.

Source: client-go tools/record/event.go (makeEvent), tools/events/event_recorder.go (v1.36). Differs: equal events are
not counted in one object.
"""

from __future__ import annotations

from msgspec import Struct

from kcm.protocols.objects import Object, namespace_of
from kcm.protocols.times import format_micro_time
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.verbs.create import create_object

WARNING = "Warning"
_EVENTS_NAMESPACE = "default"  # of events about cluster-scoped objects


class ServerEvent(Struct, frozen=True, kw_only=True):
    """Warning about an object. action: empty for a component that records events of core/v1."""

    component: str
    reason: str
    message: str
    action: str = ""


def record_warning(cluster: Cluster, about: Object, event: ServerEvent) -> None:
    """Create an Event about an object. An Event that the server rejects is dropped, as upstream."""
    definition = cluster.registry.find("", "v1", "events")
    if definition is None:
        return
    meta, namespace = about["metadata"], namespace_of(about) or _EVENTS_NAMESPACE
    involved = {
        "apiVersion": about["apiVersion"],
        "kind": about["kind"],
        "name": meta["name"],
        "namespace": namespace_of(about),
        "resourceVersion": meta.get("resourceVersion", ""),
        "uid": meta["uid"],
    }
    now = cluster.timestamp()
    if event.action:
        source: Object = {
            "action": event.action,
            "eventTime": format_micro_time(cluster.clock.now()),
            "reportingComponent": event.component,
            "reportingInstance": event.component,
        }
    else:
        times = {"firstTimestamp": now, "lastTimestamp": now, "count": 1}
        source = {"source": {"component": event.component}, "reportingComponent": event.component, **times}
    new = {
        "apiVersion": "v1",
        "kind": definition.kind,
        "metadata": {"name": f"{meta['name']}.{cluster.uid()[-12:]}", "namespace": namespace},
        "involvedObject": {field: value for field, value in involved.items() if value},
        "type": WARNING,
        "reason": event.reason,
        "message": event.message,
        **source,
    }
    try:
        create_object(cluster, definition, new)
    except StatusError:
        return
