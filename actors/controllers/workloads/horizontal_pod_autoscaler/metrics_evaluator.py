"""Evaluation of all metrics of a HorizontalPodAutoscaler: each gives a number of replicas, and the highest is used.

Source: kubernetes v1.36 pkg/controller/podautoscaler/horizontal.go (computeReplicasForMetrics,
validateAndParseSelector, hpasControllingPodsUnderSelector, tolerancesForHpa).
"""

from __future__ import annotations

from collections.abc import Mapping

from kcm.actors.controllers.shared.selected_pods import selected_pods
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.evaluations import (
    AutoscalerMemory,
    AutoscalerSettings,
    AutoscalingError,
    Evaluation,
    event,
)
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.fields import (
    AutoscalerSpec,
    MetricSpec,
    reported_replicas,
)
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.metrics import (
    FaultOrigin,
    Monitor,
    ScaleAction,
    action_of,
)
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.replicas import Tolerances
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.scales import TargetScale
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.sources import (
    MetricError,
    MetricResult,
    MetricSources,
    ScaledTarget,
)
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.status import SCALING_ACTIVE
from kcm.actors.reconciliation import Step
from kcm.protocols.objects import Key, Object, make_key, namespace_of
from kcm.protocols.selectors import LabelSelector, parse_label_selector
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.lister import Lister


class MetricsEvaluator:
    def __init__(
        self,
        *,
        pods: Lister,
        sources: MetricSources,
        clock: Clock,
        monitor: Monitor,
        settings: AutoscalerSettings,
        memories: Mapping[Key, AutoscalerMemory],
    ) -> None:
        """Initialize the evaluator.

        memories: the reconciler's state of all HorizontalPodAutoscalers; it is read to find those with the same pods.
        """
        self._pods, self._sources, self._clock, self._monitor = pods, sources, clock, monitor
        self._settings, self._memories = settings, memories

    def evaluate(self, evaluation: Evaluation, scale: TargetScale) -> Step[MetricResult]:
        """Evaluate all metrics. Return the result with the highest number of replicas.

        Invalid metrics are reported by events. Raises AutoscalingError if no metric is valid, or if a metric is invalid
        and the others would scale down. Source: computeReplicasForMetrics.
        """
        selector = yield from self._selector_of(evaluation, scale)
        namespace, tolerances = namespace_of(evaluation.autoscaler), self._tolerances(evaluation.spec)
        target = ScaledTarget(namespace, selector, scale.wanted, scale.reported, tolerances)
        highest: MetricResult | None = None
        failures: list[MetricError] = []
        metrics = evaluation.spec.metrics
        statuses: list[Object] = []
        for metric in metrics:
            try:
                result = yield from self._evaluate_and_measure(evaluation, metric, target)
            except MetricError as err:
                yield event(evaluation, "Warning", err.reason, err.message)
                failures.append(err)
                statuses.append({"type": ""})
                continue
            statuses.append(result.status)
            if highest is None or highest.replicas == 0 or result.replicas > highest.replicas:
                highest = result
        evaluation.metrics = statuses
        if failures:
            text = f"invalid metrics ({len(failures)} invalid out of {len(metrics)}), first error is: {failures[0]}"
            evaluation.failed = AutoscalingError(text)
        if highest is None or (failures and highest.replicas < scale.wanted):
            if failures:
                text = f"the HPA was unable to compute the replica count: {failures[0].message}"
                evaluation.draft.set_condition(SCALING_ACTIVE, "False", failures[0].reason, text)
            raise evaluation.failed or AutoscalingError("the autoscaler has no metrics", spec=True)
        text = f"the HPA was able to successfully calculate a replica count from {highest.name}"
        evaluation.draft.set_condition(SCALING_ACTIVE, "True", "ValidMetricFound", text)
        return highest

    def _evaluate_and_measure(
        self, evaluation: Evaluation, metric: MetricSpec, target: ScaledTarget
    ) -> Step[MetricResult]:
        began = self._clock.monotonic()
        try:
            result = yield from self._sources.evaluate(metric, target)
        except MetricError as err:
            origin = FaultOrigin.SPEC if err.spec else FaultOrigin.INTERNAL
            self._monitor.computed(ScaleAction.NONE, origin, self._clock.monotonic() - began, metric.type)
            raise
        action = action_of(result.replicas - reported_replicas(evaluation.autoscaler))
        self._monitor.computed(action, FaultOrigin.NONE, self._clock.monotonic() - began, metric.type)
        return result

    def _selector_of(self, evaluation: Evaluation, scale: TargetScale) -> Step[LabelSelector]:
        """Return the label selector of the target's pods, parsed from the scale. Source: validateAndParseSelector.

        Raises AutoscalingError if the selector is missing or invalid, or if another HorizontalPodAutoscaler selects
        some of these pods.
        """
        if not scale.selector:
            yield event(evaluation, "Warning", "SelectorRequired", "selector is required")
            text = "the HPA target's scale is missing a selector"
            evaluation.draft.set_condition(SCALING_ACTIVE, "False", "InvalidSelector", text)
            raise AutoscalingError("selector is required")
        try:
            selector = parse_label_selector(scale.selector)
        except ValueError as err:
            text = f"couldn't convert selector into a corresponding internal selector object: {err}"
            raise (yield from self._report_unusable_selector(evaluation, "InvalidSelector", text)) from err
        evaluation.memory.selector = selector
        others = self._autoscalers_selecting(namespace_of(evaluation.autoscaler), selector)
        if len(others) > 1:
            text = f"pods by selector {scale.selector} are controlled by multiple HPAs: [{' '.join(others)}]"
            raise (yield from self._report_unusable_selector(evaluation, "AmbiguousSelector", text))
        return selector

    def _report_unusable_selector(self, evaluation: Evaluation, reason: str, text: str) -> Step[AutoscalingError]:
        yield event(evaluation, "Warning", reason, text)
        evaluation.draft.set_condition(SCALING_ACTIVE, "False", reason, text)
        return AutoscalingError(text)

    def _autoscalers_selecting(self, namespace: str, selector: LabelSelector) -> list[Key]:
        """Return the keys of the HorizontalPodAutoscalers that select some of the pods that this selector selects.

        Autoscalers that were not evaluated yet are not considered.
        """
        labels = {id(pod.facts.labels): pod.facts.labels for pod in selected_pods(self._pods, namespace, selector)}
        return sorted(
            key
            for key, memory in self._memories.items()
            if memory.selector is not None
            and key.startswith(make_key(namespace, ""))
            and any(memory.selector.matches(pod_labels) for pod_labels in labels.values())
        )

    def _tolerances(self, spec: AutoscalerSpec) -> Tolerances:
        default, down, up = self._settings.tolerance, spec.tolerance_down, spec.tolerance_up
        if not self._settings.configurable_tolerance:
            return Tolerances(default, default)
        return Tolerances(default if down is None else down, default if up is None else up)
