"""What the metrics of an autoscaler ask for together.

Source: kubernetes v1.36 pkg/controller/podautoscaler/horizontal.go (computeReplicasForMetrics,
validateAndParseSelector, hpasControllingPodsUnderSelector, tolerancesForHpa).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.actors.controllers.shared.selected_pods import selected_pods
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.evaluations import (
    AutoscalingError,
    Look,
    Memory,
    Settings,
    event,
)
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.metrics import Action, Fault, Monitor, action_of
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.replicas import Tolerances
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.scales import Scale
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.sources import Finding, MetricError, Sources, Target
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.status import SCALING_ACTIVE
from kcm.actors.reconciliation import Step
from kcm.protocols.objects import Key, Object, make_key, namespace_of
from kcm.protocols.quantities import parse_quantity
from kcm.protocols.selectors import LabelSelector, parse_label_selector
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.lister import Lister


class Findings:
    def __init__(
        self,
        *,
        pods: Lister,
        sources: Sources,
        clock: Clock,
        monitor: Monitor,
        settings: Settings,
        memories: Mapping[Key, Memory],
    ) -> None:
        """memories: of all autoscalers, kept up to date elsewhere."""
        self._pods, self._sources, self._clock, self._monitor = pods, sources, clock, monitor
        self._settings, self._memories = settings, memories

    def of(self, look: Look, scale: Scale) -> Step[Finding]:
        """The metric that asks for the most. Raises AutoscalingError if too little is known."""
        selector = yield from self._selector_of(look, scale)
        namespace, tolerances = namespace_of(look.autoscaler), self._tolerances(look.spec)
        target = Target(namespace, selector, scale.wanted, scale.reported, tolerances)
        wanted: Finding | None = None
        failures: list[MetricError] = []
        metrics = look.spec.get("metrics") or ()
        statuses: list[Object] = []
        for metric in metrics:
            try:
                finding = yield from self._measured(look, metric, target)
            except MetricError as err:
                yield event(look, "Warning", err.reason, err.message)
                failures.append(err)
                statuses.append({"type": ""})
                continue
            statuses.append(finding.status)
            if wanted is None or wanted.replicas == 0 or finding.replicas > wanted.replicas:
                wanted = finding
        look.metrics = statuses
        if failures:
            text = f"invalid metrics ({len(failures)} invalid out of {len(metrics)}), first error is: {failures[0]}"
            look.failed = AutoscalingError(text)
        if wanted is None or (failures and wanted.replicas < scale.wanted):
            if failures:
                text = f"the HPA was unable to compute the replica count: {failures[0].message}"
                look.draft.say(SCALING_ACTIVE, "False", failures[0].reason, text)
            raise look.failed or AutoscalingError("the autoscaler has no metrics", spec=True)
        text = f"the HPA was able to successfully calculate a replica count from {wanted.name}"
        look.draft.say(SCALING_ACTIVE, "True", "ValidMetricFound", text)
        return wanted

    def _measured(self, look: Look, metric: Mapping[str, Any], target: Target) -> Step[Finding]:
        began, type_ = self._clock.monotonic(), metric.get("type") or ""
        try:
            finding = yield from self._sources.evaluate(metric, target)
        except MetricError as err:
            fault = Fault.SPEC if err.spec else Fault.INTERNAL
            self._monitor.computed(Action.NONE, fault, self._clock.monotonic() - began, type_)
            raise
        reported = (look.autoscaler.get("status") or {}).get("currentReplicas") or 0
        action = action_of(finding.replicas - reported)
        self._monitor.computed(action, Fault.NONE, self._clock.monotonic() - began, type_)
        return finding

    def _selector_of(self, look: Look, scale: Scale) -> Step[LabelSelector]:
        """Raises AutoscalingError if it selects nothing that is this autoscaler's alone."""
        if not scale.selector:
            yield event(look, "Warning", "SelectorRequired", "selector is required")
            text = "the HPA target's scale is missing a selector"
            look.draft.say(SCALING_ACTIVE, "False", "InvalidSelector", text)
            raise AutoscalingError("selector is required")
        try:
            selector = parse_label_selector(scale.selector)
        except ValueError as err:
            text = f"couldn't convert selector into a corresponding internal selector object: {err}"
            raise (yield from self._unusable(look, "InvalidSelector", text)) from err
        look.memory.selector = selector
        others = self._selecting(namespace_of(look.autoscaler), selector)
        if len(others) > 1:
            text = f"pods by selector {scale.selector} are controlled by multiple HPAs: [{' '.join(others)}]"
            raise (yield from self._unusable(look, "AmbiguousSelector", text))
        return selector

    def _unusable(self, look: Look, reason: str, text: str) -> Step[AutoscalingError]:
        yield event(look, "Warning", reason, text)
        look.draft.say(SCALING_ACTIVE, "False", reason, text)
        return AutoscalingError(text)

    def _selecting(self, namespace: str, selector: LabelSelector) -> list[Key]:
        """The autoscalers whose targets have any of these pods, as far as their selectors are known."""
        labels = {id(each.facts.labels): each.facts.labels for each in selected_pods(self._pods, namespace, selector)}
        return sorted(
            key
            for key, memory in self._memories.items()
            if memory.selector is not None
            and key.startswith(make_key(namespace, ""))
            and any(memory.selector.matches(each) for each in labels.values())
        )

    def _tolerances(self, spec: Mapping[str, Any]) -> Tolerances:
        behavior = (spec.get("behavior") or {}) if self._settings.tolerates else {}
        down, up = ((behavior.get(way) or {}).get("tolerance") for way in ("scaleDown", "scaleUp"))
        default = self._settings.tolerance
        return Tolerances(
            default if down is None else float(parse_quantity(down)),
            default if up is None else float(parse_quantity(up)),
        )
