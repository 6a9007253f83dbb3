"""Client of the resource, custom and external metrics APIs.

A cluster need not have these APIs: add-ons serve them as aggregated APIs.

Source: kubernetes v1.36 pkg/controller/podautoscaler/metrics/client.go; k8s.io/metrics pkg/client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from kcm.actors.controllers.shared.served_kinds import ServedKinds
from kcm.actors.controllers.shared.server_texts import client_go_message
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.pods import CannotComputeError
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.samples import (
    MetricSample,
    items_of,
    pod_samples,
    resource_samples,
    value_of,
)
from kcm.actors.reconciliation import Step, perform
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Fetch
from kcm.protocols.messages.outcomes import Done, NotFound, Outcome, Refused
from kcm.protocols.selectors import LabelSelector
from kcm.runtime.scheduling.clock import Clock

RESOURCES, CUSTOM, EXTERNAL = "metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"
CUSTOM_VERSIONS = ("v1beta2", "v1beta1")  # supported versions
ALL_OBJECTS = "*"


class MetricsApis:
    """Reads values of metrics from the metrics APIs.

    Its methods raise CannotComputeError, with upstream's text, if a request fails, or if the response contains no
    metrics or is malformed.
    """

    def __init__(self, *, served: ServedKinds, clock: Clock, period: float) -> None:
        """Initialize the client.

        served: maps the kinds in object references to resources
        period: seconds after which the preferred version of the custom metrics API is discovered again
        """
        self._served, self._clock, self._period = served, clock, period
        self._version = ""
        self._asked_at = float("-inf")

    def resource_usage(
        self, namespace: str, selector: LabelSelector, resource: str, container: str
    ) -> Step[dict[str, MetricSample]]:
        path = f"/apis/{RESOURCES}/v1beta1/namespaces/{namespace}/pods"
        try:
            document = yield from _get(path, {"labelSelector": str(selector)}, f"get pods.{RESOURCES}")
            items = items_of(document, "PodMetricsList")
            found = resource_samples(items, resource, container)
        except ValueError as err:
            raise CannotComputeError(f"unable to fetch metrics from resource metrics API: {err}") from err
        if not items:
            raise CannotComputeError("no metrics returned from resource metrics API")
        return found

    def pod_metric(
        self, namespace: str, selector: LabelSelector, metric: str, metric_selector: LabelSelector
    ) -> Step[dict[str, MetricSample]]:
        query = {"labelSelector": str(selector), "metricLabelSelector": str(metric_selector)}
        try:
            items = yield from self._custom(namespace, "pods", ALL_OBJECTS, metric, query)
            found = pod_samples(items)
        except ValueError as err:
            raise CannotComputeError(f"unable to fetch metrics from custom metrics API: {err}") from err
        if not items:
            raise CannotComputeError("no metrics returned from custom metrics API")
        return found

    def of_object(
        self, namespace: str, reference: Mapping[str, Any], metric: str, metric_selector: LabelSelector
    ) -> Step[int]:
        try:
            items = yield from self._of_object(namespace, reference, metric, str(metric_selector))
            if len(items) != 1:
                raise ValueError(
                    f"the custom metrics API server returned {len(items)} results when we asked for exactly one"
                )
            return value_of(items[0])
        except ValueError as err:
            raise CannotComputeError(f"unable to fetch metrics from custom metrics API: {err}") from err

    def external_metric(self, namespace: str, metric: str, metric_selector: LabelSelector) -> Step[list[int]]:
        path = f"/apis/{EXTERNAL}/v1beta1/namespaces/{namespace}/{metric}"
        try:
            document = yield from _get(path, {"labelSelector": str(metric_selector)}, f"get {metric}.{EXTERNAL}")
            values = [value_of(item) for item in items_of(document, "ExternalMetricValueList")]
        except ValueError as err:
            raise CannotComputeError(f"unable to fetch metrics from external metrics API: {err}") from err
        if not values:
            raise CannotComputeError("no metrics returned from external metrics API")
        return values

    def _of_object(
        self, namespace: str, reference: Mapping[str, Any], metric: str, selector: str
    ) -> Step[Sequence[Mapping[str, Any]]]:
        group, kind = _group_of(reference.get("apiVersion") or ""), reference.get("kind") or ""
        query = {"metricLabelSelector": selector}
        if not group and kind == "Namespace":  # always the autoscaler's namespace: the API has no path for another one
            return (yield from self._custom(namespace, "metrics", metric, "", query))
        yield from self._known_version()
        served = self._served.of_group(group, kind)
        if not served:
            full = f"{kind}.{group}" if group else kind
            raise ValueError(f"unable to map kind {full} to resource: {no_match(group, kind)}")
        name = reference.get("name") or ""
        return (yield from self._custom(namespace, served[0].resource.name, name, metric, query))

    def _custom(
        self, namespace: str, resource: str, name: str, metric: str, query: Mapping[str, str]
    ) -> Step[Sequence[Mapping[str, Any]]]:
        version = yield from self._known_version()
        path = f"/apis/{CUSTOM}/{version}/namespaces/{namespace}/{resource}/{name}"
        document = yield from _get(f"{path}/{metric}" if metric else path, query, f"get {resource}.{CUSTOM} {name}")
        return items_of(document, "MetricValueList")

    def _known_version(self) -> Step[str]:
        """Return the version of the custom metrics API to use: the first supported version that the server offers.

        It is discovered once per period. Raises ValueError if there is no such version.
        """
        now = self._clock.monotonic()
        if not self._version or now - self._asked_at >= self._period:
            self._version = ""
            outcome = yield from _fetched(f"/apis/{CUSTOM}", {})
            if isinstance(outcome, NotFound):
                raise ValueError(f"no custom metrics API ({CUSTOM}) registered")
            self._version = _preferred(_read(outcome, f"get {CUSTOM}"))
            self._asked_at = now
        return self._version


def no_match(group: str, kind: str) -> str:
    """Return the error text for a kind that the API server does not serve, as from client-go's RESTMapper."""
    return f'no matches for kind "{kind}" in group "{group}"'


def _preferred(group: Any) -> str:
    if not isinstance(group, dict):
        raise ValueError(f"not an APIGroup: {group!r:.80}")
    offered = [group.get("preferredVersion"), *(group.get("versions") or ())]
    for version in offered:
        if isinstance(version, dict) and version.get("version") in CUSTOM_VERSIONS:
            return str(version["version"])
    raise ValueError("no known available metric versions found")


def _group_of(api_version: str) -> str:
    group, slash, version = api_version.rpartition("/")
    return group if slash and "/" not in group and version else ""


def _get(path: str, query: Mapping[str, str], about: str) -> Step[Any]:
    outcome = yield from _fetched(path, query)
    return _read(outcome, about)


def _fetched(path: str, query: Mapping[str, str]) -> Step[Outcome]:
    """Send a GET request for a path of the API server. Return its outcome.

    Raises CommandError if the request was refused before it was sent.
    """
    fetch = Fetch(path, query=tuple((name, value) for name, value in query.items() if value))
    outcome = yield from perform(fetch)
    if isinstance(outcome, Refused):
        raise CommandError(fetch, outcome)
    return outcome


def _read(outcome: Outcome, about: str) -> Any:
    """Decode the JSON body of a response. Raises ValueError with client-go's text if the request failed.

    about: verb, resource and name of the request, for the text.
    """
    if not isinstance(outcome, Done):
        raise ValueError(client_go_message(outcome, about))
    return orjson.loads(outcome.body)
