"""The five types of metrics: what each asks for, what its status reports, and what is said where it cannot be had.

Source: kubernetes v1.36 pkg/controller/podautoscaler/horizontal.go (computeReplicasForMetric and what it calls). The
texts are upstream's, also the one whose words are in the wrong order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, NamedTuple

from kcm.actors.controllers.shared.selected_pods import selected_pods
from kcm.actors.controllers.shared.selector_texts import selector_in_go
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.fields import check_pod
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.metrics_apis import MetricsApis
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.pods import (
    CannotComputeError,
    Youth,
    group_pods,
    pod_state,
    requests_of,
)
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.replicas import (
    Proposal,
    Tolerances,
    average_replicas,
    counted,
    per_replica_replicas,
    total,
    utilization_replicas,
    value_replicas,
)
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.samples import Samples
from kcm.actors.reconciliation import Step
from kcm.protocols.objects import Object
from kcm.protocols.quantities import QuantityFormat, format_quantity, milli_value
from kcm.protocols.selectors import EVERYTHING, LabelSelector, label_selector_of
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import Entry

FIELDS = {  # of a metric, by its type
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "Pods": "pods",
    "Object": "object",
    "External": "external",
}
NO_PODS = "no pods returned by selector while calculating replica count"
NO_RESOURCE_TARGET = (
    "invalid resource metric source: neither an average utilization target nor an average value (usage) target was set"
)
NO_PODS_TARGET = "invalid pods metric source: no average value target was set"
NO_OBJECT_TARGET = "invalid object metric source: neither a value target nor an average value target was set"
NO_EXTERNAL_TARGET = "invalid external metric source: neither a value target nor an average value target was set"


class MetricError(Exception):
    """One metric cannot be had. Its text: as the sum of all failures has it.

    reason, message: of the event, and of the condition. spec: the autoscaler itself is wrong.
    """

    def __init__(self, text: str, *, reason: str, message: str, spec: bool = False) -> None:
        super().__init__(text)
        self.reason, self.message, self.spec = reason, message, spec


class Target(NamedTuple):
    """What is scaled. current: its spec.replicas; reported: those of its status."""

    namespace: str
    selector: LabelSelector
    current: int
    reported: int
    tolerances: Tolerances


class Finding(NamedTuple):
    """replicas: what one metric asks for. name: of it, in messages. status: in status.currentMetrics."""

    replicas: int
    name: str
    status: Object


class Sources:
    """Evaluates one entry of spec.metrics."""

    def __init__(self, *, pods: Lister, apis: MetricsApis, clock: Clock, youth: Youth, of_whole_pods: bool) -> None:
        """of_whole_pods: see requests_of."""
        self._pods, self._apis, self._clock = pods, apis, clock
        self._youth, self._of_whole_pods = youth, of_whole_pods

    def evaluate(self, metric: Mapping[str, Any], target: Target) -> Step[Finding]:
        """Raises MetricError."""
        type_ = metric.get("type") or ""
        if type_ not in FIELDS:
            text = f'unknown metric source type "{type_}"'
            raise MetricError(text, reason="InvalidMetricSourceType", message=text, spec=True)
        reason, given = f"FailedGet{type_}Metric", metric.get(FIELDS[type_])
        if given is None:
            text = f"invalid metric source: {FIELDS[type_]} is missing"
            raise MetricError(text, reason=reason, message=text, spec=True)
        match type_:
            case "Resource":
                about, work = f"{given.get('name')} resource", self._resource(metric, given, target)
            case "ContainerResource":
                about, work = f"{given.get('container')} container", self._resource(metric, given, target)
            case "Pods":
                about, work = "pods", self._of_pods(given, target)
            case "Object":
                about, work = "object", self._of_object(given, target)
            case _:
                about, work = f"{_metric(given).get('name')} external", self._external(given, target)
        try:
            return (yield from work)
        except _Wrapped as err:
            text = f"failed to get {about} metric value: {err.prefix}: {err}"
            raise MetricError(text, reason=reason, message=str(err)) from err
        except (CannotComputeError, ValueError) as err:
            text = f"failed to get {about} metric value: {err}"
            raise MetricError(text, reason=reason, message=str(err)) from err

    # Resource, ContainerResource.

    def _resource(self, metric: Mapping[str, Any], given: Mapping[str, Any], target: Target) -> Step[Finding]:
        type_, wanted = metric["type"], given.get("target") or {}
        resource, container = given.get("name") or "", given.get("container") or ""
        if wanted.get("averageValue") is not None:
            name = f"{resource} resource"
            with _prefixed(f"failed to get {resource} usage"):
                proposal = yield from self._average_of_resource(resource, container, wanted["averageValue"], target)
        elif wanted.get("averageUtilization") is not None:
            of = "container resource" if type_ == "ContainerResource" else "resource"
            name = f"{resource} {of} utilization (percentage of request)"
            with _prefixed(f"failed to get {resource} utilization"):
                proposal = yield from self._utilization(resource, container, wanted["averageUtilization"], target)
        else:
            raise CannotComputeError(NO_RESOURCE_TARGET)
        current: Object = {"averageValue": _quantity(proposal.usage, binary=resource == "memory")}
        if proposal.utilization is not None:
            current["averageUtilization"] = proposal.utilization
        source: Object = {"name": resource, "current": current}
        if type_ == "ContainerResource":
            source["container"] = container
        field = "containerResource" if type_ == "ContainerResource" else "resource"
        return Finding(proposal.replicas, name, {"type": type_, field: source})

    def _samples(self, resource: str, container: str, target: Target) -> Step[Samples]:
        with _prefixed(f"unable to get metrics for resource {resource}"):
            return (yield from self._apis.of_resource(target.namespace, target.selector, resource, container))

    def _utilization(self, resource: str, container: str, percent: int, target: Target) -> Step[Proposal]:
        samples = yield from self._samples(resource, container, target)
        pods = self._read(target)
        groups = group_pods(map(pod_state, pods), samples, resource, self._youth, now=self._clock.now())
        counted(samples, groups)  # what is wrong with the samples is said before what is wrong with the requests
        requests = requests_of(pods, resource, container, of_whole_pods=self._of_whole_pods)
        return utilization_replicas(
            samples, groups, requests, target=_positive(percent), current=target.current, tolerances=target.tolerances
        )

    def _average_of_resource(self, resource: str, container: str, value: str, target: Target) -> Step[Proposal]:
        samples = yield from self._samples(resource, container, target)
        return self._average(samples, resource, value, target)

    def _average(self, samples: Samples, resource: str, value: str, target: Target) -> Proposal:
        groups = group_pods(map(pod_state, self._read(target)), samples, resource, self._youth, now=self._clock.now())
        return average_replicas(
            samples, groups, target=_positive(milli_value(value)), current=target.current, tolerances=target.tolerances
        )

    # Pods, Object.

    def _of_pods(self, given: Mapping[str, Any], target: Target) -> Step[Finding]:
        metric = _metric(given)
        value = (given.get("target") or {}).get("averageValue")
        if value is None:
            raise CannotComputeError(NO_PODS_TARGET)
        name = metric.get("name") or ""
        with _prefixed(f"unable to get metric {name}"):
            samples = yield from self._apis.of_pods(target.namespace, target.selector, name, _selector(metric))
        proposal = self._average(samples, "", value, target)
        status = {"metric": _identified(metric), "current": {"averageValue": _quantity(proposal.usage)}}
        return Finding(proposal.replicas, f"pods metric {name}", {"type": "Pods", "pods": status})

    def _of_object(self, given: Mapping[str, Any], target: Target) -> Step[Finding]:
        metric, wanted, described = _metric(given), given.get("target") or {}, given.get("describedObject") or {}
        name = metric.get("name") or ""
        selector = _selector(metric)
        if wanted.get("type") == "Value" and wanted.get("value") is not None:
            usage = yield from self._usage_of(described, name, selector, target)
            proposal = self._by_value(usage, wanted["value"], target)
            text, current = f"{described.get('kind')} metric {name}", {"value": _quantity(proposal.usage)}
        elif wanted.get("type") == "AverageValue" and wanted.get("averageValue") is not None:
            with _wrapped(f"failed to get {name} object metric"):
                usage = yield from self._usage_of(described, name, selector, target)
            proposal = _per_replica(usage, wanted["averageValue"], target)
            text, current = _with_selector(name, metric), {"averageValue": _quantity(proposal.usage)}
        else:
            raise CannotComputeError(NO_OBJECT_TARGET)
        status = {"describedObject": dict(described), "metric": _identified(metric), "current": current}
        return Finding(proposal.replicas, text, {"type": "Object", "object": status})

    def _usage_of(self, described: Mapping[str, Any], name: str, selector: LabelSelector, target: Target) -> Step[int]:
        try:
            return (yield from self._apis.of_object(target.namespace, described, name, selector))
        except CannotComputeError as err:
            kind, of = described.get("kind"), described.get("name")
            raise CannotComputeError(f"unable to get metric {name}: {kind} on {target.namespace} {of}/{err}") from err

    # External.

    def _external(self, given: Mapping[str, Any], target: Target) -> Step[Finding]:
        metric, wanted = _metric(given), given.get("target") or {}
        name = metric.get("name") or ""
        if wanted.get("averageValue") is not None:
            with _wrapped(f"failed to get {name} external metric"):
                usage = yield from self._usage_outside(name, metric, target)
            proposal = _per_replica(usage, wanted["averageValue"], target)
            current = {"averageValue": _quantity(proposal.usage)}
        elif wanted.get("value") is not None:
            with _wrapped(f"failed to get external metric {name}"):
                usage = yield from self._usage_outside(name, metric, target)
                proposal = self._by_value(usage, wanted["value"], target)
            current = {"value": _quantity(proposal.usage)}
        else:
            raise CannotComputeError(NO_EXTERNAL_TARGET)
        status = {"metric": _identified(metric), "current": current}
        return Finding(proposal.replicas, _with_selector(name, metric), {"type": "External", "external": status})

    def _usage_outside(self, name: str, metric: Mapping[str, Any], target: Target) -> Step[int]:
        selector = _selector(metric)
        with _prefixed(f"unable to get external metric {target.namespace}/{name}/{_in_go(metric)}"):
            values = yield from self._apis.of_outside(target.namespace, name, selector)
        return total(values)

    # What they have in common.

    def _by_value(self, usage: int, value: str, target: Target) -> Proposal:
        return value_replicas(
            usage,
            target=_positive(milli_value(value)),
            current=target.current,
            ready=lambda: self._ready(target),
            tolerances=target.tolerances,
        )

    def _ready(self, target: Target) -> int:
        with _prefixed("unable to calculate ready pods"):
            pods = [entry.facts for entry in self._selected(target)]
        return sum(pod.phase == "Running" and pod.ready for pod in pods)

    def _read(self, target: Target) -> list[Object]:
        """Raises ValueError on a malformed pod, CannotComputeError if there are none."""
        pods = [self._pods.object_of(entry) for entry in self._selected(target)]
        for pod in pods:
            check_pod(pod)
        return pods

    def _selected(self, target: Target) -> list[Entry]:
        """Raises CannotComputeError if there are none."""
        pods = selected_pods(self._pods, target.namespace, target.selector)
        if not pods:
            raise CannotComputeError(NO_PODS)
        return pods


class _Wrapped(CannotComputeError):
    """prefix: words that the sum of all failures has, and neither the event nor the condition."""

    prefix = ""


@contextmanager
def _prefixed(words: str) -> Iterator[None]:
    """Whatever cannot be computed in here says these words first."""
    try:
        yield
    except CannotComputeError as err:
        raise CannotComputeError(f"{words}: {err}") from err


@contextmanager
def _wrapped(words: str) -> Iterator[None]:
    """As _prefixed, for the prefix of a _Wrapped."""
    try:
        yield
    except (CannotComputeError, ValueError) as err:
        wrapped = _Wrapped(str(err))
        wrapped.prefix = words
        raise wrapped from err


def _per_replica(usage: int, value: str, target: Target) -> Proposal:
    return per_replica_replicas(
        usage, target=_positive(milli_value(value)), reported=target.reported, tolerances=target.tolerances
    )


def _positive(target: int) -> int:
    """Thousandths, or percent. Raises CannotComputeError."""
    if target <= 0:
        raise CannotComputeError("the target of a metric must be greater than 0")
    return target


def _metric(given: Mapping[str, Any]) -> Mapping[str, Any]:
    metric: Mapping[str, Any] = given.get("metric") or {}
    return metric


def _identified(metric: Mapping[str, Any]) -> Object:
    return {name: metric[name] for name in ("name", "selector") if metric.get(name) is not None}


def _selector(metric: Mapping[str, Any]) -> LabelSelector:
    """None selects nothing, and its query form is that of everything. Raises ValueError."""
    selector = metric.get("selector")
    return EVERYTHING if selector is None else label_selector_of(selector)


def _in_go(metric: Mapping[str, Any]) -> str:
    return selector_in_go(metric.get("selector"))


def _with_selector(name: str, metric: Mapping[str, Any]) -> str:
    return f"external metric {name}({_in_go(metric)})"


def _quantity(thousandths: int, *, binary: bool = False) -> str:
    form = QuantityFormat.BINARY_SI if binary else QuantityFormat.DECIMAL_SI
    return format_quantity(Decimal(thousandths).scaleb(-3), form)
