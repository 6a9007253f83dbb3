"""Trigger times of endpoints: when the change occurred that causes a write of Endpoints or EndpointSlices.

They are written to the annotation endpoints.kubernetes.io/last-change-trigger-time, with which latency is measured.

Source: kubernetes v1.36 staging/src/k8s.io/endpointslice/util/trigger_time_tracker.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kcm.protocols.objects import Key, Object, metadata
from kcm.protocols.times import format_time, parse_time
from kcm.runtime.tables.table import Entry


class _ObservedTimes(NamedTuple):
    """Times of the last changes of a Service and its pods, as of the last sync, in Unix seconds."""

    service: float  # creation of the Service
    pods: dict[Key, float]  # by pod, the last change of its condition Ready


class TriggerTimes:
    """Record of the creation time of each Service and the ready times of its pods, as of the last sync."""

    def __init__(self) -> None:
        self._observed: dict[Key, _ObservedTimes] = {}

    def next_time(self, key: Key, service: Object, pods: Sequence[Entry], *, gone: Iterable[Key] | None = None) -> str:
        """Return the time of the earliest change since the last call for this Service; "" if nothing has changed.

        A change is the creation of the Service, or a transition of the condition Ready of a pod. The first call returns
        the creation time of the Service, whatever the times of its pods. The result is an RFC 3339 timestamp.

        key: key of the Service.
        pods: the pods that the Service selects, or those of them that have changed since the last call.
        gone: pods that the Service no longer selects, if only changed pods are given; None if all are given.
        """
        created = _created(service)
        times = {pod.key: pod.facts.ready_changed for pod in pods if pod.facts.ready_changed is not None}
        before = self._observed.get(key)
        newer = [] if before is None else [when for pod, when in times.items() if when > before.pods.get(pod, 0.0)]
        if gone is not None and before is not None:
            for pod in (*(changed.key for changed in pods), *gone):
                before.pods.pop(pod, None)
            before.pods.update(times)
            times = before.pods
        self._observed[key] = _ObservedTimes(created, times)
        if before is None:
            return format_time(created) if created else ""
        if created > before.service:
            newer.append(created)
        return format_time(min(newer)) if newer else ""

    def forget(self, key: Key) -> None:
        self._observed.pop(key, None)


def _created(service: Object) -> float:
    text = metadata(service).get("creationTimestamp")
    return parse_time(text) if text else 0.0
