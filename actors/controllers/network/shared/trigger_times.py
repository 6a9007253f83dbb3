"""Trigger times of endpoints: when the change of a Service or pod happened, for the annotation that measures latency.

Source: kubernetes v1.36 staging/src/k8s.io/endpointslice/util/trigger_time_tracker.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kcm.protocols.objects import Key, Object, metadata
from kcm.protocols.times import format_time, parse_time
from kcm.runtime.tables.table import Entry


class _Seen(NamedTuple):
    """The last times of a Service and its pods, in Unix seconds."""

    service: float
    pods: Mapping[Key, float]


class TriggerTimes:
    """The times of each Service at the last sync of its endpoints."""

    def __init__(self) -> None:
        self._seen: dict[Key, _Seen] = {}

    def changed(self, key: Key, service: Object, pods: Iterable[Entry]) -> str:
        """Return the earliest time that is newer than in the last call; "" if no time is newer.

        The first call returns the creation time of the Service, whatever the times of its pods.
        """
        created = _created(service)
        times = {pod.key: pod.facts.ready_changed for pod in pods if pod.facts.ready_changed is not None}
        before = self._seen.get(key)
        self._seen[key] = _Seen(created, times)
        if before is None:
            return format_time(created) if created else ""
        newer = [when for pod, when in times.items() if when > before.pods.get(pod, 0.0)]
        if created > before.service:
            newer.append(created)
        return format_time(min(newer)) if newer else ""

    def forget(self, key: Key) -> None:
        self._seen.pop(key, None)


def _created(service: Object) -> float:
    text = metadata(service).get("creationTimestamp")
    return parse_time(text) if text else 0.0
