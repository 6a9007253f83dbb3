"""Reconciler of HorizontalPodAutoscalers: evaluates their metrics periodically and scales their targets.

Input: HorizontalPodAutoscalers, pods, scales, metrics. Output: the scale of targets, the status of autoscalers, events.
Key: "namespace/name" of an autoscaler.

An autoscaler is evaluated once per period, for the first time one period after it was first observed. Other changes do
not cause an evaluation. Recommendations and scale events are kept in memory only: after a restart of the controller,
the target's number of replicas is the only recommendation.

Source: kubernetes v1.36 pkg/controller/podautoscaler/horizontal.go. Differences:
- Recommendations and scale events belong to one autoscaler: a new autoscaler with the same name starts without them.
- A scale update with unknown outcome is checked in the next evaluations. If it was carried out, it counts as a scale
  event for the policies.
- If the status cannot be written because the autoscaler was deleted, no event is recorded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kcm.actors.controllers.shared.served_kinds import ServedKinds
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.behavior import (
    Recommendation,
    ScaleEvent,
    add_scale_event,
    limit_rate,
    limit_rate_by_policies,
    stabilize,
    stabilize_by_windows,
)
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.evaluations import (
    AutoscalerMemory,
    AutoscalerSettings,
    AutoscalingError,
    Evaluation,
    UnknownUpdate,
    event,
)
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.fields import autoscaler_spec
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.metrics import FaultOrigin, Monitor, action_of
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.metrics_evaluator import MetricsEvaluator
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.scales import (
    ScaleClient,
    ScaleError,
    TargetScale,
    UnknownOutcomeError,
)
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.sources import MetricResult, MetricSources
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.status import (
    ABLE_TO_SCALE,
    SCALED_TO_ZERO,
    SCALING_ACTIVE,
    SCALING_LIMITED,
    StatusDraft,
)
from kcm.actors.reconciliation import Because, Enqueue, Reconciliation, RequeueAfter, Step, perform, update
from kcm.protocols.errors import clear_frames
from kcm.protocols.integers import counted
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import Done, NotFound, Refused
from kcm.protocols.objects import Key, name_of, namespace_of, uid_of
from kcm.protocols.resources import HORIZONTAL_POD_AUTOSCALERS, PODS
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

QUEUE, NEW_AUTOSCALERS = "horizontalpodautoscaler", "horizontalpodautoscaler_arrivals"
ABOVE_MAX = "Current number of replicas above Spec.MaxReplicas"
BELOW_MIN = "Current number of replicas below Spec.MinReplicas"


class AutoscalerReconciler:
    def __init__(
        self,
        *,
        tables: Tables,
        clock: Clock,
        log: FilteringBoundLogger,
        monitor: Monitor,
        settings: AutoscalerSettings,
        served: ServedKinds,
        sources: MetricSources,
    ) -> None:
        """Initialize the reconciler.

        served: mapping from kinds to resources, which this reconciler updates when discovery reports changes.
        """
        self._autoscalers = tables[HORIZONTAL_POD_AUTOSCALERS]
        self._clock, self._log, self._monitor, self._settings = clock, log, monitor, settings
        self._served, self._scales = served, ScaleClient(served=served)
        self._memories: dict[Key, AutoscalerMemory] = {}
        self._evaluator = MetricsEvaluator(
            pods=tables[PODS],
            sources=sources,
            clock=clock,
            monitor=monitor,
            settings=settings,
            memories=self._memories,
        )

    def on_message(self, message: Any) -> Iterable[Enqueue]:
        return self._served.on_message(message)

    def schedule(self, key: Key) -> Reconciliation:
        """Schedule an evaluation of a new or changed autoscaler, one sync period from now.

        An evaluation that is scheduled already remains if it is earlier. From 1.37 on, a new autoscaler and one with a
        changed spec is evaluated at once.
        """
        autoscaler = self._autoscalers.entry(key)
        if autoscaler is None:
            self._forget(key)
            return None
        memory, after = self._memory_of(key, autoscaler.uid), max(0.0, self._settings.period)
        if self._settings.evaluates_new_specs_at_once:
            spec = self._autoscalers.object_of(autoscaler).get("spec")
            if memory.scheduled_spec != spec:
                memory.scheduled_spec, after = spec, 0.0
        yield Enqueue(QUEUE, key, after=after)
        return None

    def reconcile(self, key: Key) -> Reconciliation:
        self._autoscalers.require(key)
        autoscaler = self._autoscalers.get(key)
        if autoscaler is None:
            self._forget(key)
            return None
        spec = autoscaler_spec(autoscaler, window=self._settings.window)
        began = self._clock.monotonic()
        evaluation = Evaluation(
            key=key,
            autoscaler=autoscaler,
            spec=spec,
            draft=StatusDraft(autoscaler, now=self._clock.now()),
            memory=self._memory_of(key, uid_of(autoscaler)),
        )
        origin = FaultOrigin.NONE
        try:
            yield from self._autoscale(evaluation)
        except AutoscalingError as err:
            origin = err.origin
            self._log.warning("autoscaling failed", key=key, error=str(err))
            yield Because(f"autoscaling failed: {err}")
            clear_frames(err)
        self._monitor.reconciled(evaluation.action, origin, self._clock.monotonic() - began)
        return RequeueAfter(max(0.0, self._settings.period))

    def _memory_of(self, key: Key, uid: str) -> AutoscalerMemory:
        memory = self._memories.get(key)
        if memory is None or memory.uid != uid:
            memory = self._memories[key] = AutoscalerMemory(uid=uid)
            self._monitor.set_count(len(self._memories))
        return memory

    def _forget(self, key: Key) -> None:
        if self._memories.pop(key, None) is not None:
            self._monitor.set_count(len(self._memories))
            self._monitor.forget(key)

    def _autoscale(self, evaluation: Evaluation) -> Step[None]:
        """Compute the number of replicas from the metrics, scale the target, and write the status.

        Raises AutoscalingError, after the status was written. Source: reconcileAutoscaler.
        """
        scale = yield from self._scale_of(evaluation)
        self._settle_unknown_update(evaluation.memory, scale)
        if not evaluation.memory.recommendations:
            # The current replicas count as a recommendation, so that a restart does not cause scaling down at once.
            evaluation.memory.recommendations = (Recommendation(scale.wanted, self._clock.monotonic()),)
        desired = yield from self._desired(evaluation, scale)
        rescale = desired is not None and desired != scale.wanted
        if desired is not None and rescale:
            yield from self._rescale(evaluation, scale, desired)
        yield Because(_reason(evaluation, scale.wanted, desired))
        wanted = desired if desired is not None and rescale else scale.wanted
        evaluation.draft.set_counts(current=scale.wanted, desired=wanted, metrics=evaluation.metrics)
        if rescale:
            evaluation.draft.set_scale_time()
        self._monitor.set_desired(evaluation.key, wanted)
        problem = yield from self._write(evaluation)
        if problem is not None:
            raise problem
        if evaluation.failed is not None:
            raise evaluation.failed

    def _scale_of(self, evaluation: Evaluation) -> Step[TargetScale]:
        try:
            scale = yield from self._scales.read(namespace_of(evaluation.autoscaler), evaluation.spec.target)
        except ScaleError as err:
            yield event(evaluation, "Warning", "FailedGetScale", str(err))
            text = f"the HPA controller was unable to get the target's current scale: {err}"
            evaluation.draft.set_condition(ABLE_TO_SCALE, "False", "FailedGetScale", text)
            yield from self._write(evaluation)
            raise AutoscalingError(f"{err.prefix}: {err}", spec=err.spec) from err
        text = "the HPA controller was able to get the target's current scale"
        evaluation.draft.set_condition(ABLE_TO_SCALE, "True", "SucceededGetScale", text)
        return scale

    def _settle_unknown_update(self, memory: AutoscalerMemory, scale: TargetScale) -> None:
        """Check whether an earlier update of the target's scale, whose response was lost, was carried out.

        If it was, record a scale event. While the scale has the same resourceVersion as before the update, the server
        may still carry out the update, so it is checked again in the next evaluation.
        """
        pending = memory.unknown_update
        if pending is not None and pending.version != scale.version:
            memory.unknown_update = None
            if pending.replicas == scale.wanted:
                memory.events = (*memory.events, ScaleEvent(pending.change, self._clock.monotonic()))

    def _desired(self, evaluation: Evaluation, scale: TargetScale) -> Step[int | None]:
        """Return the desired number of replicas; None if scaling is disabled because the target has no replicas."""
        lowest, highest = evaluation.spec.bounds
        current = scale.wanted
        scaled_to_zero = self._settings.scales_to_zero and evaluation.draft.is_true(SCALED_TO_ZERO)
        if current == 0:
            if not (scaled_to_zero and (lowest != 0 or evaluation.spec.scales_from_zero)):
                text = "scaling is disabled since the replica count of the target is zero"
                evaluation.draft.set_condition(SCALING_ACTIVE, "False", "ScalingDisabled", text)
                if not self._settings.scales_to_zero:
                    evaluation.draft.remove_condition(SCALED_TO_ZERO)
                return None
        elif current > highest:
            evaluation.reason = ABOVE_MAX
            return highest
        elif current < lowest:
            evaluation.reason = BELOW_MIN
            return lowest
        result = yield from self._by_metrics(evaluation, scale)
        proposal = max(result.replicas, 0)
        evaluation.proposal = f"{result.name} proposes {counted(proposal, 'replica')}"
        if proposal > current:
            evaluation.reason = f"{result.name} above target"
        elif proposal < current:
            evaluation.reason = "All metrics below target"
        desired = self._normalized(evaluation, current, proposal)
        if current == 0 and scaled_to_zero and desired < lowest:
            evaluation.reason = evaluation.reason or BELOW_MIN
            return lowest
        return desired

    def _by_metrics(self, evaluation: Evaluation, scale: TargetScale) -> Step[MetricResult]:
        try:
            return (yield from self._evaluator.evaluate(evaluation, scale))
        except AutoscalingError as err:
            evaluation.draft.set_counts(current=scale.wanted, metrics=evaluation.metrics)
            yield from self._write(evaluation)
            yield event(evaluation, "Warning", "FailedComputeMetricsReplicas", str(err))
            text = "failed to compute desired number of replicas based on listed metrics"
            raise AutoscalingError(f"{text} for {evaluation.reference}: {err}") from err

    def _normalized(self, evaluation: Evaluation, current: int, proposal: int) -> int:
        """Limit a number of replicas by stabilization, scaling policies, minReplicas and maxReplicas.

        current: current number of replicas
        proposal: number of replicas that was computed from the metrics

        Returns the number of replicas to set. Source: normalizeDesiredReplicas.
        """
        memory, now, window = evaluation.memory, self._clock.monotonic(), self._settings.window
        behavior = evaluation.spec.behavior
        if behavior is None:
            stable, memory.recommendations = stabilize(proposal, memory.recommendations, window=window, now=now)
            end = limit_rate(stable.replicas, current=current, bounds=evaluation.spec.bounds)
        else:
            stable, memory.recommendations = stabilize_by_windows(
                behavior, proposal, memory.recommendations, current=current, now=now
            )
            end = limit_rate_by_policies(
                behavior, stable.replicas, memory.events, current=current, bounds=evaluation.spec.bounds, now=now
            )
        evaluation.draft.set_condition(ABLE_TO_SCALE, "True", stable.reason, stable.message)
        is_limited = end.replicas != stable.replicas
        evaluation.draft.set_condition(SCALING_LIMITED, "True" if is_limited else "False", end.reason, end.message)
        if stable.replicas != proposal:
            evaluation.proposal += f", stabilized to {stable.replicas}"
        if is_limited:
            evaluation.proposal += f", limited to {end.replicas}: {end.message}"
        return end.replicas

    def _rescale(self, evaluation: Evaluation, scale: TargetScale, desired: int) -> Step[None]:
        memory, change = evaluation.memory, desired - scale.wanted
        try:
            yield from self._scales.write(scale, desired)
        except ScaleError as err:
            if isinstance(err, UnknownOutcomeError):
                memory.unknown_update = UnknownUpdate(scale.version, desired, change)
            text = f"New size: {desired}; reason: {evaluation.reason}; error: {err}"
            yield event(evaluation, "Warning", "FailedRescale", text)
            text = f"the HPA controller was unable to update the target scale: {err}"
            evaluation.draft.set_condition(ABLE_TO_SCALE, "False", "FailedUpdateScale", text)
            evaluation.draft.set_counts(current=scale.wanted, metrics=evaluation.metrics)
            yield from self._write(evaluation)
            raise AutoscalingError(f"failed to rescale {evaluation.reference}: {err}") from err
        text = f"the HPA controller was able to update the target scale to {desired}"
        evaluation.draft.set_condition(ABLE_TO_SCALE, "True", "SucceededRescale", text)
        yield event(evaluation, "Normal", "SuccessfulRescale", f"New size: {desired}; reason: {evaluation.reason}")
        memory.unknown_update = None
        memory.events = add_scale_event(evaluation.spec.behavior, memory.events, change, now=self._clock.monotonic())
        counts = {"current": scale.wanted, "desired": desired}
        self._log.info("rescaled", key=evaluation.key, target=evaluation.reference, reason=evaluation.reason, **counts)
        self._set_scaled_to_zero(evaluation, scale.wanted, desired)
        evaluation.action = action_of(change)

    def _set_scaled_to_zero(self, evaluation: Evaluation, current: int, desired: int) -> None:
        """Set or remove the condition ScaledToZero (feature gate HPAScaleToZero).

        It is True if this controller has scaled the target to zero. Only such a target is scaled up from zero again.
        """
        if not self._settings.scales_to_zero:
            evaluation.draft.remove_condition(SCALED_TO_ZERO)
        elif current > 0 and desired == 0 == evaluation.spec.bounds.lowest and evaluation.spec.scales_from_zero:
            text = "the HPA controller scaled the workload to zero"
            evaluation.draft.set_condition(SCALED_TO_ZERO, "True", "ScaledToZero", text)
        else:
            text = "the HPA controller did not scale the workload to zero"
            evaluation.draft.set_condition(SCALED_TO_ZERO, "False", "NotScaledToZero", text)

    def _write(self, evaluation: Evaluation) -> Step[AutoscalingError | None]:
        """Write the status if it has changed. Return the error if the update failed, otherwise None."""
        if not evaluation.draft.has_changed:
            return None
        put = update(
            HORIZONTAL_POD_AUTOSCALERS,
            {**evaluation.autoscaler, "status": evaluation.draft.status},
            subresource="status",
        )
        outcome = yield from perform(put)
        if isinstance(outcome, Done | NotFound):
            return None
        if isinstance(outcome, Refused):
            raise CommandError(put, outcome)
        yield event(evaluation, "Warning", "FailedUpdateStatus", outcome.message)
        return AutoscalingError(f"failed to update status for {name_of(evaluation.autoscaler)}: {outcome.message}")


def _reason(evaluation: Evaluation, current: int, desired: int | None) -> str:
    """Return why the target is scaled from `current` to `desired` replicas, or not scaled."""
    if desired is None:
        return "scaling is disabled: the target has 0 replicas"
    lowest, highest = evaluation.spec.bounds
    action = "keeps" if desired == current else f"scales from {current} to"
    why = evaluation.proposal or evaluation.reason
    return f"{action} {desired} replicas: {why} (minReplicas {lowest}, maxReplicas {highest})"
