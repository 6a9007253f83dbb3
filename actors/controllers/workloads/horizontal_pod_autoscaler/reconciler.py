"""What the horizontal pod autoscaler does.

In: HorizontalPodAutoscalers; pods, scales, metrics. Out: the scale of targets, the status of autoscalers, events. Key:
"namespace/name" of an autoscaler.

Each autoscaler is looked at once a period, whatever happens, and for the first time one period after it was seen. What
it recommended and how it scaled is remembered here alone: a new incarnation begins with what the target has.

Source: kubernetes v1.36 pkg/controller/podautoscaler/horizontal.go. Differences:
- What is remembered is of one autoscaler: another one under its name begins anew.
- An update of a scale whose response was lost is found out about later, and then counts for the policies.
- A status that could not be written, as the autoscaler is gone, is no event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kcm.actors.controllers.shared.served_kinds import ServedKinds
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.behavior import (
    Behavior,
    Recommendation,
    ScaleEvent,
    behavior_of,
    limited,
    limited_by,
    remembered,
    stabilized,
    stabilized_by,
)
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.evaluations import (
    AutoscalingError,
    Look,
    Lost,
    Memory,
    Settings,
    event,
)
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.fields import check_autoscaler
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.findings import Findings
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.metrics import Fault, Monitor, action_of
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.scales import LostError, Scale, ScaleError, Scales
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.sources import Finding, Sources
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.status import (
    ABLE_TO_SCALE,
    SCALED_TO_ZERO,
    SCALING_ACTIVE,
    SCALING_LIMITED,
    Draft,
)
from kcm.actors.reconciliation import Enqueue, Reconciliation, RequeueAfter, Step, perform, update
from kcm.protocols.messages.outcomes import CommandError, Done, NotFound, Refused
from kcm.protocols.objects import Key, name_of, namespace_of, uid_of
from kcm.protocols.resources import HORIZONTAL_POD_AUTOSCALERS, PODS
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

QUEUE, ARRIVALS = "horizontalpodautoscaler", "horizontalpodautoscaler_arrivals"
ABOVE_MAX = "Current number of replicas above Spec.MaxReplicas"
BELOW_MIN = "Current number of replicas below Spec.MinReplicas"


class HorizontalPodAutoscaling:
    def __init__(
        self,
        *,
        tables: Tables,
        clock: Clock,
        log: FilteringBoundLogger,
        monitor: Monitor,
        settings: Settings,
        served: ServedKinds,
        sources: Sources,
    ) -> None:
        """served: is kept up to date here."""
        self._autoscalers = tables[HORIZONTAL_POD_AUTOSCALERS]
        self._clock, self._log, self._monitor, self._settings = clock, log, monitor, settings
        self._served, self._scales = served, Scales(served=served)
        self._memories: dict[Key, Memory] = {}
        self._findings = Findings(
            pods=tables[PODS],
            sources=sources,
            clock=clock,
            monitor=monitor,
            settings=settings,
            memories=self._memories,
        )

    def on_message(self, message: Any) -> Iterable[Enqueue]:
        """What is served has changed."""
        return self._served.hear(message)

    def note(self, key: Key) -> Reconciliation:
        """An autoscaler came, changed or went: it is looked at a period later, if it is not before that."""
        autoscaler = self._autoscalers.entry(key)
        if autoscaler is None:
            self._forget(key)
            return None
        self._memory_of(key, autoscaler.uid)
        yield Enqueue(QUEUE, key, after=max(0.0, self._settings.period))
        return None

    def reconcile(self, key: Key) -> Reconciliation:
        self._autoscalers.require(key)
        autoscaler = self._autoscalers.get(key)
        if autoscaler is None:
            self._forget(key)
            return None
        check_autoscaler(autoscaler)
        began = self._clock.monotonic()
        look = Look(
            key=key,
            autoscaler=autoscaler,
            draft=Draft(autoscaler, now=self._clock.now()),
            memory=self._memory_of(key, uid_of(autoscaler)),
        )
        fault = Fault.NONE
        try:
            yield from self._autoscale(look)
        except AutoscalingError as err:
            fault = err.fault
            self._log.warning("autoscaling failed", key=key, error=str(err))
        self._monitor.reconciled(look.action, fault, self._clock.monotonic() - began)
        return RequeueAfter(max(0.0, self._settings.period))

    def _memory_of(self, key: Key, uid: str) -> Memory:
        memory = self._memories.get(key)
        if memory is None or memory.uid != uid:
            memory = self._memories[key] = Memory(uid=uid)
            self._monitor.are(len(self._memories))
        return memory

    def _forget(self, key: Key) -> None:
        if self._memories.pop(key, None) is not None:
            self._monitor.are(len(self._memories))
            self._monitor.forget(key)

    # One look.

    def _autoscale(self, look: Look) -> Step[None]:
        """Raises AutoscalingError."""
        scale = yield from self._scale_of(look)
        self._settle_lost(look.memory, scale)
        if not look.memory.recommendations:
            # So that nothing is scaled down for a while after a start.
            look.memory.recommendations = (Recommendation(scale.wanted, self._clock.monotonic()),)
        desired = yield from self._desired(look, scale)
        rescale = desired is not None and desired != scale.wanted
        if desired is not None and rescale:
            yield from self._rescale(look, scale, desired)
        wanted = desired if desired is not None and rescale else scale.wanted
        look.draft.count(current=scale.wanted, desired=wanted, metrics=look.metrics)
        if rescale:
            look.draft.scaled()
        self._monitor.wants(look.key, wanted)
        problem = yield from self._write(look)
        if problem is not None:
            raise problem
        if look.failed is not None:
            raise look.failed

    def _scale_of(self, look: Look) -> Step[Scale]:
        try:
            reference = look.spec.get("scaleTargetRef") or {}
            scale = yield from self._scales.read(namespace_of(look.autoscaler), reference)
        except ScaleError as err:
            yield event(look, "Warning", "FailedGetScale", str(err))
            text = f"the HPA controller was unable to get the target's current scale: {err}"
            look.draft.say(ABLE_TO_SCALE, "False", "FailedGetScale", text)
            yield from self._write(look)
            raise AutoscalingError(f"{err.why}: {err}", spec=err.spec) from err
        text = "the HPA controller was able to get the target's current scale"
        look.draft.say(ABLE_TO_SCALE, "True", "SucceededGetScale", text)
        return scale

    def _settle_lost(self, memory: Memory, scale: Scale) -> None:
        """While the target is at the version that an update was made from, that may still be carried out."""
        lost = memory.lost
        if lost is not None and lost.version != scale.version:
            memory.lost = None
            if lost.replicas == scale.wanted:
                memory.events = (*memory.events, ScaleEvent(lost.change, self._clock.monotonic()))

    def _desired(self, look: Look, scale: Scale) -> Step[int | None]:
        """None if nothing is to be done about the target."""
        lowest, highest = look.bounds
        current = scale.wanted
        left_at_zero = self._settings.scales_to_zero and look.draft.is_true(SCALED_TO_ZERO)
        if current == 0:
            if not (left_at_zero and (lowest != 0 or _scales_from_zero(look.spec))):
                text = "scaling is disabled since the replica count of the target is zero"
                look.draft.say(SCALING_ACTIVE, "False", "ScalingDisabled", text)
                if not self._settings.scales_to_zero:
                    look.draft.say_nothing_of(SCALED_TO_ZERO)
                return None
        elif current > highest:
            look.reason = ABOVE_MAX
            return highest
        elif current < lowest:
            look.reason = BELOW_MIN
            return lowest
        finding = yield from self._by_metrics(look, scale)
        proposal = max(finding.replicas, 0)
        if proposal > current:
            look.reason = f"{finding.name} above target"
        elif proposal < current:
            look.reason = "All metrics below target"
        desired = self._normalized(look, current, proposal)
        if current == 0 and left_at_zero and desired < lowest:
            look.reason = look.reason or BELOW_MIN
            return lowest
        return desired

    def _by_metrics(self, look: Look, scale: Scale) -> Step[Finding]:
        try:
            return (yield from self._findings.of(look, scale))
        except AutoscalingError as err:
            look.draft.count(current=scale.wanted, metrics=look.metrics)
            yield from self._write(look)
            yield event(look, "Warning", "FailedComputeMetricsReplicas", str(err))
            text = f"failed to compute desired number of replicas based on listed metrics for {look.reference}: {err}"
            raise AutoscalingError(text) from err

    def _normalized(self, look: Look, current: int, proposal: int) -> int:
        """Not sooner, not faster and not further than it is allowed."""
        memory, now, window = look.memory, self._clock.monotonic(), self._settings.window
        behavior = self._behavior(look)
        if behavior is None:
            stable, memory.recommendations = stabilized(proposal, memory.recommendations, window=window, now=now)
            end = limited(stable.replicas, current=current, bounds=look.bounds)
        else:
            stable, memory.recommendations = stabilized_by(
                behavior, proposal, memory.recommendations, current=current, now=now
            )
            end = limited_by(behavior, stable.replicas, memory.events, current=current, bounds=look.bounds, now=now)
        look.draft.say(ABLE_TO_SCALE, "True", stable.reason, stable.message)
        is_limited = end.replicas != stable.replicas
        look.draft.say(SCALING_LIMITED, "True" if is_limited else "False", end.reason, end.message)
        return end.replicas

    def _behavior(self, look: Look) -> Behavior | None:
        return behavior_of(look.spec, window=self._settings.window)

    # Writing.

    def _rescale(self, look: Look, scale: Scale, desired: int) -> Step[None]:
        memory, change = look.memory, desired - scale.wanted
        try:
            yield from self._scales.write(scale, desired)
        except ScaleError as err:
            if isinstance(err, LostError):
                memory.lost = Lost(scale.version, desired, change)
            text = f"New size: {desired}; reason: {look.reason}; error: {err}"
            yield event(look, "Warning", "FailedRescale", text)
            text = f"the HPA controller was unable to update the target scale: {err}"
            look.draft.say(ABLE_TO_SCALE, "False", "FailedUpdateScale", text)
            look.draft.count(current=scale.wanted, metrics=look.metrics)
            yield from self._write(look)
            raise AutoscalingError(f"failed to rescale {look.reference}: {err}") from err
        text = f"the HPA controller was able to update the target scale to {desired}"
        look.draft.say(ABLE_TO_SCALE, "True", "SucceededRescale", text)
        yield event(look, "Normal", "SuccessfulRescale", f"New size: {desired}; reason: {look.reason}")
        memory.lost = None
        memory.events = remembered(self._behavior(look), memory.events, change, now=self._clock.monotonic())
        counts = {"current": scale.wanted, "desired": desired}
        self._log.info("rescaled", key=look.key, target=look.reference, reason=look.reason, **counts)
        self._say_of_zero(look, scale.wanted, desired)
        look.action = action_of(change)

    def _say_of_zero(self, look: Look, current: int, desired: int) -> None:
        """Whether it was us who scaled to zero: only then is it for us to scale up again."""
        if not self._settings.scales_to_zero:
            look.draft.say_nothing_of(SCALED_TO_ZERO)
        elif current > 0 and desired == 0 == look.bounds.lowest and _scales_from_zero(look.spec):
            text = "the HPA controller scaled the workload to zero"
            look.draft.say(SCALED_TO_ZERO, "True", "ScaledToZero", text)
        else:
            text = "the HPA controller did not scale the workload to zero"
            look.draft.say(SCALED_TO_ZERO, "False", "NotScaledToZero", text)

    def _write(self, look: Look) -> Step[AutoscalingError | None]:
        """Where there is something new. Returns what went wrong."""
        if not look.draft.has_news:
            return None
        put = update(HORIZONTAL_POD_AUTOSCALERS, {**look.autoscaler, "status": look.draft.status}, subresource="status")
        outcome = yield from perform(put)
        if isinstance(outcome, Done | NotFound):
            return None
        if isinstance(outcome, Refused):
            raise CommandError(put, outcome)
        yield event(look, "Warning", "FailedUpdateStatus", outcome.message)
        return AutoscalingError(f"failed to update status for {name_of(look.autoscaler)}: {outcome.message}")


def _scales_from_zero(spec: Mapping[str, Any]) -> bool:
    """Whether it has a metric that says something where no pods are."""
    return any(metric.get("type") in ("Object", "External") for metric in spec.get("metrics") or ())
