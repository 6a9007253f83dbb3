"""Parsing of responses of the metrics APIs into one value for each pod or series.

All values are thousandths, as 64-bit integers. The APIs are served by add-ons, whose responses may be malformed: each
function raises ValueError for a malformed document.

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

DEFAULT_WINDOW = 60.0  # seconds; for a custom metric without a window


class MetricSample(NamedTuple):
    """Value of a metric for one pod, with the time of the measurement."""

    value: int  # thousandths
    at: float  # Unix seconds
    window: float  # seconds before `at` over which the value was measured


MetricSamples = Mapping[str, MetricSample]  # by the pod's name


def items_of(document: Any, what: str) -> Sequence[Mapping[str, Any]]:
    """Return the `items` of a decoded list; empty if the document has none. Raises ValueError if they are malformed.

    what: kind of the list, for the error text.
    """
    items = document.get("items") if isinstance(document, dict) else None
    if items is None:
        return ()
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ValueError(f"a {what} has a list of items, got {items!r:.80}")
    return items


def resource_samples(items: Sequence[Mapping[str, Any]], resource: str, container: str = "") -> dict[str, MetricSample]:
    """Return the usage of a resource by pod name, from the items of a PodMetricsList.

    The value of a pod is the sum of its containers, or the usage of the named container. A pod is omitted if it has no
    such container, or if the usage of one of these containers is missing.

    resource: name of the resource, such as "cpu". container: name of a container; "" for all containers.
    """
    found = {}
    for item in items:
        usage = [
            _usage(entry, resource) for entry in _containers(item) if not container or entry.get("name") == container
        ]
        known = [value for value in usage if value is not None]
        if usage and len(known) == len(usage):
            window = parse_duration(_text(item.get("window") or "0s", "window"))
            found[_name(item.get("metadata"))] = MetricSample(_capped(sum(known)), _time(item), window)
    return found


def pod_samples(items: Sequence[Mapping[str, Any]]) -> dict[str, MetricSample]:
    """Return the value of a custom metric by pod name, from the items of a MetricValueList."""
    found = {}
    for item in items:
        window = _window(item)
        found[_name(item.get("describedObject"))] = MetricSample(value_of(item), _time(item), window)
    return found


def value_of(item: Mapping[str, Any]) -> int:
    """Return the value of an item of a MetricValueList or ExternalMetricValueList, in thousandths."""
    return _quantity(item.get("value", 0))


def _containers(item: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    containers = item.get("containers") or []
    if not isinstance(containers, list) or not all(isinstance(entry, dict) for entry in containers):
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
    """Return the measurement window of an item in seconds: its field windowSeconds (v1beta2) or window (v1beta1)."""
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
