"""Requests to the three metrics APIs, and parsing of their responses.

Source of the cases: kubernetes v1.36 pkg/controller/podautoscaler/metrics/client_test.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from kcm.actors.controllers.shared.served_kinds import ServedKinds
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.metrics_apis import MetricsApis
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.pods import CannotComputeError
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.samples import MetricSample
from kcm.actors.reconciliation import Step
from kcm.actors.simulation.driver import Bench, drive_steps
from kcm.protocols.messages.commands import Command, Fetch
from kcm.protocols.messages.discovery import ServedResource
from kcm.protocols.messages.outcomes import Done, Outcome
from kcm.protocols.objects import Object
from kcm.protocols.selectors import EVERYTHING, parse_label_selector
from kcm.protocols.times import format_time

AT = 1_700_000_000.0
PODS, SERIES = parse_label_selector("name=test-pod"), parse_label_selector("label=value")
OTHER = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "some-dep"}
IN_NAMESPACE = "namespaces/test-namespace"
Ask = Callable[[MetricsApis], Step[Any]]


def asked(ask: Ask, *items: Object) -> tuple[Any, str, tuple[tuple[str, str], ...]]:
    """Return the result, and the path and query of the last request."""
    served, bench = ServedKinds(), Bench({})
    served.update_served(
        [ServedResource(group="apps", version="v1", plural="deployments", kind="Deployment", namespaced=True)]
    )
    last = Fetch("")

    def answer(command: Command) -> Outcome:
        nonlocal last
        assert isinstance(command, Fetch)
        last = command
        about = {"preferredVersion": {"version": "v1beta2"}, "items": items}
        return Done(orjson.dumps(about))

    running: Any = ask(MetricsApis(served=served, clock=bench.clock, period=15.0))
    driven = drive_steps(running, answer, tables=bench.tables)
    return driven.result, last.path, last.query


def used(*pods: dict[str, int]) -> list[Object]:
    """Build PodMetrics. pods: thousandths of a CPU by container name."""
    return [
        {
            "metadata": {"name": f"p{number}"},
            "timestamp": format_time(AT),
            "window": "30s",
            "containers": [{"name": name, "usage": {"cpu": f"{value}m"}} for name, value in containers.items()],
        }
        for number, containers in enumerate(pods)
    ]


def measured(*values: int) -> list[Object]:
    return [
        {"describedObject": {"name": f"p{number}"}, "timestamp": format_time(AT), "value": f"{value}m"}
        for number, value in enumerate(values)
    ]


def samples(*values: int | None, window: float) -> dict[str, MetricSample]:
    return {f"p{number}": MetricSample(value, AT, window) for number, value in enumerate(values) if value is not None}


def cpu(container: str = "") -> Ask:
    return lambda apis: apis.resource_usage("test-namespace", PODS, "cpu", container)


def qps(apis: MetricsApis) -> Step[Any]:
    return apis.pod_metric("test-namespace", PODS, "qps", EVERYTHING)


def queue_length(apis: MetricsApis) -> Step[Any]:
    return apis.of_object("test-namespace", OTHER, "queue-length", EVERYTHING)


def outside(apis: MetricsApis) -> Step[Any]:
    return apis.external_metric("test-namespace", "external", SERIES)


UNEVEN = used({"a": 100}, {"a": 300, "b": 400}, {})


@pytest.mark.parametrize(
    ("ask", "items", "found"),
    [
        (cpu(), used({"test": 5000}, {"test": 5000}, {"test": 5000}), samples(5000, 5000, 5000, window=30)),
        (cpu("a"), used(*[{"a": 5000, "b": 500}] * 3), samples(5000, 5000, 5000, window=30)),
        (cpu(), UNEVEN, samples(100, 700, window=30)),
        (cpu("a"), UNEVEN, samples(100, 300, window=30)),
        (cpu("b"), UNEVEN, samples(None, 400, window=30)),
        (qps, measured(10_000, 20_000, 10_000), samples(10_000, 20_000, 10_000, window=60)),
        (qps, measured(0, 0, 0), samples(0, 0, 0, window=60)),
        (queue_length, measured(10), 10),
        (outside, measured(10_000, 20_000, 10_000), [10_000, 20_000, 10_000]),
        (outside, measured(0, 0, 0), [0, 0, 0]),
    ],
)
def test_responses_are_parsed(ask: Ask, items: list[Object], found: Any) -> None:
    assert asked(ask, *items)[0] == found


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (cpu(), "no metrics returned from resource metrics API"),
        (cpu("a"), "no metrics returned from resource metrics API"),
        (qps, "no metrics returned from custom metrics API"),
        (outside, "no metrics returned from external metrics API"),
        (queue_length, "the custom metrics API server returned 0 results when we asked for exactly one"),
    ],
)
def test_response_without_samples_is_reported(ask: Ask, text: str) -> None:
    with pytest.raises(CannotComputeError, match=text):
        asked(ask)


@pytest.mark.parametrize(
    ("ask", "path", "query"),
    [
        (cpu("a"), f"/apis/metrics.k8s.io/v1beta1/{IN_NAMESPACE}/pods", (("labelSelector", "name=test-pod"),)),
        (
            qps,
            f"/apis/custom.metrics.k8s.io/v1beta2/{IN_NAMESPACE}/pods/*/qps",
            (("labelSelector", "name=test-pod"),),
        ),
        (
            queue_length,
            f"/apis/custom.metrics.k8s.io/v1beta2/{IN_NAMESPACE}/deployments.apps/some-dep/queue-length",
            (),
        ),
        (
            outside,
            f"/apis/external.metrics.k8s.io/v1beta1/{IN_NAMESPACE}/external",
            (("labelSelector", "label=value"),),
        ),
    ],
)
def test_requests_have_path_and_query(ask: Ask, path: str, query: tuple[tuple[str, str], ...]) -> None:
    assert asked(ask, *measured(1))[1:] == (path, query)
