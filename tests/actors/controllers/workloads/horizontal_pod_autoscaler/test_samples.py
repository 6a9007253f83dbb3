"""Parsing of valid and malformed responses of the metrics APIs.

Source of the cases: kubernetes v1.36 pkg/controller/podautoscaler/metrics/client_test.go.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.samples import (
    MetricSample,
    items_of,
    pod_samples,
    resource_samples,
    value_of,
)
from kcm.protocols.integers import INT64
from kcm.protocols.objects import Object

AT = "2026-01-02T03:04:05Z"
SECONDS = 1767323045.0


def measured(*containers: tuple[str, Object], **more: Any) -> Object:
    listed = [{"name": name, "usage": usage} for name, usage in containers]
    return {"metadata": {"name": "p"}, "timestamp": AT, "window": "30s", "containers": listed, **more}


@pytest.mark.parametrize(
    ("containers", "resource", "container", "value"),
    [
        ([("a", {"cpu": "300m"}), ("b", {"cpu": "200m"})], "cpu", "", 500),
        ([("a", {"cpu": "300m"}), ("b", {"cpu": "200m"})], "cpu", "b", 200),
        ([("a", {"memory": "1Ki"})], "memory", "", 1024_000),
        ([("a", {"cpu": "300m"}), ("b", {"memory": "1"})], "cpu", "", None),
        ([("a", {"cpu": "300m"}), ("b", {"memory": "1"})], "cpu", "a", 300),
        ([("a", {"cpu": "300m"})], "cpu", "gone", None),
        ([], "cpu", "", None),
        ([("a", {"cpu": "1u"})], "cpu", "", 1),
        ([("a", {"cpu": "9E"}), ("b", {"cpu": "9E"})], "cpu", "", INT64.stop - 1),
    ],
)
def test_usage_is_of_all_containers_or_one(
    containers: list[tuple[str, Object]], resource: str, container: str, value: int | None
) -> None:
    found = resource_samples([measured(*containers)], resource, container)
    assert found == ({} if value is None else {"p": MetricSample(value, SECONDS, 30.0)})


@pytest.mark.parametrize(
    ("item", "sample"),
    [
        ({"value": "20", "timestamp": AT}, MetricSample(20_000, SECONDS, 60.0)),
        ({"value": "20500m", "windowSeconds": 5}, MetricSample(20_500, 0.0, 5.0)),
        ({"value": 1, "window": 0}, MetricSample(1000, 0.0, 0.0)),
        ({}, MetricSample(0, 0.0, 60.0)),
    ],
)
def test_custom_metric_of_a_pod_is_parsed(item: Object, sample: MetricSample) -> None:
    assert pod_samples([{"describedObject": {"name": "p"}, **item}]) == {"p": sample}


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (measured(("a", {"cpu": "NaN"})), "not a quantity: 'NaN'"),
        (measured(("a", {"cpu": "1"}), metadata="p"), "the name of what is measured is a string, got None"),
        (measured(("a", {"cpu": "1"}), timestamp=7), "timestamp is a string, got 7"),
        (measured(("a", {"cpu": "1"}), window=30), "window is a string, got 30"),
        (measured(containers="a"), "containers of PodMetrics are a list of maps, got 'a'"),
        (measured(containers=[{"usage": ["x"]}]), r"the usage of a container is a map, got \['x'\]"),
    ],
)
def test_malformed_sample_raises(item: Object, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        resource_samples([item], "cpu")


@pytest.mark.parametrize("document", ["<html>", [], None, {"items": "x"}, {"items": ["x"]}])
def test_document_without_items_has_no_samples(document: Any) -> None:
    if isinstance(document, dict):
        with pytest.raises(ValueError, match="a PodMetricsList has a list of items"):
            items_of(document, "PodMetricsList")
    else:
        assert items_of(document, "PodMetricsList") == ()


def test_infinite_value_is_the_largest_quantity() -> None:
    assert value_of({"value": "1e30"}) == INT64.stop - 1
    assert value_of({"value": "-1e30"}) == INT64.start
