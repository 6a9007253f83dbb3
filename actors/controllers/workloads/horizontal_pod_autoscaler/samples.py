"""What the metrics APIs say, read: one number for each pod, or for each series.

All values are thousandths, whole numbers of 64 bits. Whoever serves these APIs is no part of Kubernetes, so nothing is
taken for granted: each function raises ValueError on a document that is not what it has to be.

Source: kubernetes v1.36 pkg/controller/podautoscaler/metrics/client.go (getContainerMetrics, getPodMetrics,
GetRawMetric, GetObjectMetric, GetExternalMetric).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kcm.protocols.integers import INT64
from kcm.protocols.quantities import milli_value
from kcm.protocols.times import parse_time
from kcm.runtime.flags.values import parse_duration

DEFAULT_WINDOW = 60.0  # seconds, of a custom metric that does not say its own


class Sample(NamedTuple):
    """Of one pod. at: Unix seconds. window: seconds before that over which it was taken."""

    value: int
    at: float
    window: float


Samples = Mapping[str, Sample]  # by the pod's name


def items_of(document: Any, what: str) -> Sequence[Mapping[str, Any]]:
    """Of a list. what: its kind, for the error."""
    items = document.get("items") if isinstance(document, dict) else None
    if items is None:
        return ()
    if not isinstance(items, list) or not all(isinstance(each, dict) for each in items):
        raise ValueError(f"a {what} has a list of items, got {items!r:.80}")
    return items


def resource_samples(items: Sequence[Mapping[str, Any]], resource: str, container: str = "") -> dict[str, Sample]:
    """Of a PodMetricsList: what the containers of each pod use together, or the one of this name.

    A pod is left out if it has no containers, or one of those asked for does not say what it uses of this.
    """
    found = {}
    for item in items:
        usage = [_usage(each, resource) for each in _containers(item) if not container or each.get("name") == container]
        known = [each for each in usage if each is not None]
        if usage and len(known) == len(usage):
            window = parse_duration(_text(item.get("window") or "0s", "window"))
            found[_name(item.get("metadata"))] = Sample(_capped(sum(known)), _time(item), window)
    return found


def pod_samples(items: Sequence[Mapping[str, Any]]) -> dict[str, Sample]:
    """Of a MetricValueList that is about pods."""
    found = {}
    for item in items:
        window = _window(item)
        found[_name(item.get("describedObject"))] = Sample(value_of(item), _time(item), window)
    return found


def value_of(item: Mapping[str, Any]) -> int:
    """Of one item of a MetricValueList or ExternalMetricValueList."""
    return _quantity(item.get("value", 0))


def _containers(item: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    containers = item.get("containers") or []
    if not isinstance(containers, list) or not all(isinstance(each, dict) for each in containers):
        raise ValueError(f"containers of PodMetrics are a list of maps, got {containers!r:.80}")
    return iter(containers)


def _usage(container: Mapping[str, Any], resource: str) -> int | None:
    usage = container.get("usage") or {}
    if not isinstance(usage, dict):
        raise ValueError(f"the usage of a container is a map, got {usage!r:.80}")
    return _quantity(usage[resource]) if resource in usage else None


def _quantity(given: Any) -> int:
    return _capped(milli_value(given))


def _capped(number: int) -> int:
    return min(max(number, INT64.start), INT64.stop - 1)


def _window(item: Mapping[str, Any]) -> float:
    """v1beta2 has windowSeconds, v1beta1 has window: seconds too."""
    seconds = item.get("windowSeconds", item.get("window"))
    if seconds is None:
        return DEFAULT_WINDOW
    if not isinstance(seconds, int):
        raise ValueError(f"the window of a metric is a number of seconds, got {seconds!r}")
    return float(seconds)


def _time(item: Mapping[str, Any]) -> float:
    at = item.get("timestamp")
    return 0.0 if at is None else parse_time(_text(at, "timestamp"))


def _name(of: Any) -> str:
    return _text(of.get("name") if isinstance(of, dict) else None, "the name of what is measured")


def _text(given: Any, what: str) -> str:
    if not isinstance(given, str):
        raise ValueError(f"{what} is a string, got {given!r}")
    return given
