"""Evaluation of a single metric of a HorizontalPodAutoscaler, for each of the five types of metrics.

The result is the number of replicas that the metric requires, and its entry in status.currentMetrics.

Source: kubernetes v1.36 pkg/controller/podautoscaler/horizontal.go (computeReplicasForMetric and the functions that it
calls). Error texts are upstream's, including a text with words in the wrong order ("<kind> on <namespace> <name>").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, NamedTuple

from kcm.actors.controllers.shared.selected_pods import selected_pods
from kcm.actors.controllers.shared.selector_texts import selector_in_go
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.fields import METRIC_FIELDS, MetricSpec, check_pod
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.metrics_apis import MetricsApis
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.pods import (
    CannotComputeError,
    CpuInitialization,
    group_pods,
    pod_requests_by_name,
    pod_state,
)
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.replicas import (
    Proposal,
    Tolerances,
    average_replicas,
    per_replica_replicas,
    total,
    usable_values,
    utilization_replicas,
    value_replicas,
)
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.samples import MetricSamples
from kcm.actors.reconciliation import Step
from kcm.protocols.objects import Object
from kcm.protocols.quantities import QuantityFormat, format_quantity, milli_value
from kcm.protocols.selectors import EVERYTHING, LabelSelector, label_selector_of
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import Entry

NO_PODS = "no pods returned by selector while calculating replica count"
NO_RESOURCE_TARGET = (
    "invalid resource metric source: neither an average utilization target nor an average value (usage) target was set"
)
NO_PODS_TARGET = "invalid pods metric source: no average value target was set"
NO_OBJECT_TARGET = "invalid object metric source: neither a value target nor an average value target was set"
NO_EXTERNAL_TARGET = "invalid external metric source: neither a value target nor an average value target was set"


class MetricError(Exception):
    """Raised if a metric cannot be evaluated. Its text becomes part of the error of the whole evaluation."""

    def __init__(self, text: str, *, reason: str, message: str, spec: bool = False) -> None:
        """Initialize the error.

        reason, message: reason and message of the event and the condition that report the error
        spec: whether the cause is an invalid spec of the HorizontalPodAutoscaler
        """
        super().__init__(text)
        self.reason, self.message, self.spec = reason, message, spec


class ScaledTarget(NamedTuple):
    """Workload that is scaled: its pods and its present numbers of replicas."""

    namespace: str
    selector: LabelSelector  # selects the pods
    current: int  # spec.replicas of its scale
    reported: int  # status.replicas of its scale
    tolerances: Tolerances


class MetricResult(NamedTuple):
    """Result of the evaluation of one metric: the number of replicas that it requires, and its entry in the status."""

    replicas: int  # number of replicas that the metric requires
    name: str  # description of the metric, for messages
    status: Object  # entry of status.currentMetrics


class MetricSources:
    """Evaluates single entries of spec.metrics, with values from the metrics APIs."""

    def __init__(
        self,
        *,
        pods: Lister,
        apis: MetricsApis,
        clock: Clock,
        cpu_initialization: CpuInitialization,
        pod_level_resources: bool,
    ) -> None:
        """Initialize the evaluator.

        pods: lister of pods
        pod_level_resources: whether pod-level resource requests take precedence (feature gate PodLevelResources)
        """
        self._pods, self._apis, self._clock = pods, apis, clock
        self._cpu_initialization, self._pod_level_resources = cpu_initialization, pod_level_resources

    def evaluate(self, metric: MetricSpec, target: ScaledTarget) -> Step[MetricResult]:
        """Compute the number of replicas that one metric requires. Raises MetricError."""
        if metric.type not in METRIC_FIELDS:
            text = f'unknown metric source type "{metric.type}"'
            raise MetricError(text, reason="InvalidMetricSourceType", message=text, spec=True)
        reason = f"FailedGet{metric.type}Metric"
        if not metric.is_set:
            text = f"invalid metric source: {METRIC_FIELDS[metric.type]} is missing"
            raise MetricError(text, reason=reason, message=text, spec=True)
        match metric.type:
            case "Resource":
                about, work = f"{metric.name} resource", self._resource(metric, target)
            case "ContainerResource":
                about, work = f"{metric.container} container", self._resource(metric, target)
            case "Pods":
                about, work = "pods", self._of_pods(metric, target)
            case "Object":
                about, work = "object", self._of_object(metric, target)
            case _:
                about, work = f"{metric.name} external", self._external(metric, target)
        try:
            return (yield from work)
        except _PrefixedError as err:
            text = f"failed to get {about} metric value: {err.prefix}: {err}"
            raise MetricError(text, reason=reason, message=str(err)) from err
        except (CannotComputeError, ValueError) as err:
            text = f"failed to get {about} metric value: {err}"
            raise MetricError(text, reason=reason, message=str(err)) from err

    # Resource, ContainerResource.

    def _resource(self, metric: MetricSpec, target: ScaledTarget) -> Step[MetricResult]:
        wanted, of_container = metric.target, metric.type == "ContainerResource"
        resource, container = metric.name or "", metric.container or ""
        if wanted.average_value is not None:
            name = f"{resource} resource"
            with _error_prefix(f"failed to get {resource} usage"):
                proposal = yield from self._average_of_resource(resource, container, wanted.average_value, target)
        elif wanted.average_utilization is not None:
            of = "container resource" if of_container else "resource"
            name = f"{resource} {of} utilization (percentage of request)"
            with _error_prefix(f"failed to get {resource} utilization"):
                proposal = yield from self._utilization(resource, container, wanted.average_utilization, target)
        else:
            raise CannotComputeError(NO_RESOURCE_TARGET)
        current: Object = {"averageValue": _quantity(proposal.usage, binary=resource == "memory")}
        if proposal.utilization is not None:
            current["averageUtilization"] = proposal.utilization
        status: Object = {"name": resource, "current": current}
        if of_container:
            status["container"] = container
        return MetricResult(proposal.replicas, name, {"type": metric.type, METRIC_FIELDS[metric.type]: status})

    def _fetch_samples(self, resource: str, container: str, target: ScaledTarget) -> Step[MetricSamples]:
        with _error_prefix(f"unable to get metrics for resource {resource}"):
            return (yield from self._apis.resource_usage(target.namespace, target.selector, resource, container))

    def _utilization(self, resource: str, container: str, percent: int, target: ScaledTarget) -> Step[Proposal]:
        samples = yield from self._fetch_samples(resource, container, target)
        pods = self._read(target)
        groups = group_pods(map(pod_state, pods), samples, resource, self._cpu_initialization, now=self._clock.now())
        usable_values(samples, groups)  # as upstream, errors of the samples are reported before errors of the requests
        requests = pod_requests_by_name(pods, resource, container, pod_level_resources=self._pod_level_resources)
        return utilization_replicas(
            samples, groups, requests, target=_positive(percent), current=target.current, tolerances=target.tolerances
        )

    def _average_of_resource(self, resource: str, container: str, value: str, target: ScaledTarget) -> Step[Proposal]:
        samples = yield from self._fetch_samples(resource, container, target)
        return self._average(samples, resource, value, target)

    def _average(self, samples: MetricSamples, resource: str, value: str, target: ScaledTarget) -> Proposal:
        groups = group_pods(
            map(pod_state, self._read(target)), samples, resource, self._cpu_initialization, now=self._clock.now()
        )
        return average_replicas(
            samples, groups, target=_positive(milli_value(value)), current=target.current, tolerances=target.tolerances
        )

    # Pods, Object.

    def _of_pods(self, metric: MetricSpec, target: ScaledTarget) -> Step[MetricResult]:
        value = metric.target.average_value
        if value is None:
            raise CannotComputeError(NO_PODS_TARGET)
        name = metric.name or ""
        with _error_prefix(f"unable to get metric {name}"):
            samples = yield from self._apis.pod_metric(target.namespace, target.selector, name, _selector(metric))
        proposal = self._average(samples, "", value, target)
        status = {"metric": _identifier(metric), "current": {"averageValue": _quantity(proposal.usage)}}
        return MetricResult(proposal.replicas, f"pods metric {name}", {"type": "Pods", "pods": status})

    def _of_object(self, metric: MetricSpec, target: ScaledTarget) -> Step[MetricResult]:
        wanted, described, name = metric.target, metric.described_object, metric.name or ""
        selector = _selector(metric)
        if wanted.type == "Value" and wanted.value is not None:
            usage = yield from self._usage_of(described, name, selector, target)
            proposal = self._by_value(usage, wanted.value, target)
            text, current = f"{described.get('kind')} metric {name}", {"value": _quantity(proposal.usage)}
        elif wanted.type == "AverageValue" and wanted.average_value is not None:
            with _evaluation_error_prefix(f"failed to get {name} object metric"):
                usage = yield from self._usage_of(described, name, selector, target)
            proposal = _per_replica(usage, wanted.average_value, target)
            text, current = _with_selector(name, metric), {"averageValue": _quantity(proposal.usage)}
        else:
            raise CannotComputeError(NO_OBJECT_TARGET)
        status = {"describedObject": dict(described), "metric": _identifier(metric), "current": current}
        return MetricResult(proposal.replicas, text, {"type": "Object", "object": status})

    def _usage_of(
        self, described: Mapping[str, Any], name: str, selector: LabelSelector, target: ScaledTarget
    ) -> Step[int]:
        try:
            return (yield from self._apis.of_object(target.namespace, described, name, selector))
        except CannotComputeError as err:
            kind, of = described.get("kind"), described.get("name")
            raise CannotComputeError(f"unable to get metric {name}: {kind} on {target.namespace} {of}/{err}") from err

    # External.

    def _external(self, metric: MetricSpec, target: ScaledTarget) -> Step[MetricResult]:
        wanted, name = metric.target, metric.name or ""
        if wanted.average_value is not None:
            with _evaluation_error_prefix(f"failed to get {name} external metric"):
                usage = yield from self._external_usage(name, metric, target)
            proposal = _per_replica(usage, wanted.average_value, target)
            current = {"averageValue": _quantity(proposal.usage)}
        elif wanted.value is not None:
            with _evaluation_error_prefix(f"failed to get external metric {name}"):
                usage = yield from self._external_usage(name, metric, target)
                proposal = self._by_value(usage, wanted.value, target)
            current = {"value": _quantity(proposal.usage)}
        else:
            raise CannotComputeError(NO_EXTERNAL_TARGET)
        status = {"metric": _identifier(metric), "current": current}
        return MetricResult(proposal.replicas, _with_selector(name, metric), {"type": "External", "external": status})

    def _external_usage(self, name: str, metric: MetricSpec, target: ScaledTarget) -> Step[int]:
        selector = _selector(metric)
        with _error_prefix(
            f"unable to get external metric {target.namespace}/{name}/{selector_in_go(metric.selector)}"
        ):
            values = yield from self._apis.external_metric(target.namespace, name, selector)
        return total(values)

    # Shared by several types.

    def _by_value(self, usage: int, value: str, target: ScaledTarget) -> Proposal:
        return value_replicas(
            usage,
            target=_positive(milli_value(value)),
            current=target.current,
            ready=lambda: self._ready(target),
            tolerances=target.tolerances,
        )

    def _ready(self, target: ScaledTarget) -> int:
        with _error_prefix("unable to calculate ready pods"):
            pods = [entry.facts for entry in self._selected(target)]
        return sum(pod.phase == "Running" and pod.ready for pod in pods)

    def _read(self, target: ScaledTarget) -> list[Object]:
        """Return the target's pods. Raises CannotComputeError if there are none, ValueError if one is malformed."""
        pods = [self._pods.object_of(entry) for entry in self._selected(target)]
        for pod in pods:
            check_pod(pod)
        return pods

    def _selected(self, target: ScaledTarget) -> list[Entry]:
        """Return the target's pods as entries of the informer cache. Raises CannotComputeError if there are none."""
        pods = selected_pods(self._pods, target.namespace, target.selector)
        if not pods:
            raise CannotComputeError(NO_PODS)
        return pods


class _PrefixedError(CannotComputeError):
    """CannotComputeError with a prefix that appears in the evaluation's error, but not in the event and condition."""

    prefix = ""


@contextmanager
def _error_prefix(words: str) -> Iterator[None]:
    """Return a context manager that prefixes the text of a CannotComputeError with these words."""
    try:
        yield
    except CannotComputeError as err:
        raise CannotComputeError(f"{words}: {err}") from err


@contextmanager
def _evaluation_error_prefix(words: str) -> Iterator[None]:
    """Return a context manager that converts errors to _PrefixedError with these words as prefix."""
    try:
        yield
    except (CannotComputeError, ValueError) as err:
        prefixed = _PrefixedError(str(err))
        prefixed.prefix = words
        raise prefixed from err


def _per_replica(usage: int, value: str, target: ScaledTarget) -> Proposal:
    return per_replica_replicas(
        usage, target=_positive(milli_value(value)), reported=target.reported, tolerances=target.tolerances
    )


def _positive(target: int) -> int:
    """Return the target value of a metric unchanged. Raises CannotComputeError if it is not positive."""
    if target <= 0:
        raise CannotComputeError("the target of a metric must be greater than 0")
    return target


def _identifier(metric: MetricSpec) -> Object:
    return {name: value for name, value in (("name", metric.name), ("selector", metric.selector)) if value is not None}


def _selector(metric: MetricSpec) -> LabelSelector:
    """Return the label selector of a metric's series; all series if it is missing. Raises ValueError if it is invalid.

    Upstream converts a missing selector to a selector that matches nothing. Its text in the query is empty, so the
    result is the same.
    """
    return EVERYTHING if metric.selector is None else label_selector_of(metric.selector)


def _with_selector(name: str, metric: MetricSpec) -> str:
    return f"external metric {name}({selector_in_go(metric.selector)})"


def _quantity(thousandths: int, *, binary: bool = False) -> str:
    form = QuantityFormat.BINARY_SI if binary else QuantityFormat.DECIMAL_SI
    return format_quantity(Decimal(thousandths).scaleb(-3), form)
