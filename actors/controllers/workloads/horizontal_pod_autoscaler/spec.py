"""ControllerSpec of the HorizontalPodAutoscaler controller."""

from __future__ import annotations

from kcm.actors.controllers.shared.option_checks import at_least_one
from kcm.actors.controllers.shared.served_kinds import KINDS_ONLY, ServedKinds
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.evaluations import AutoscalerSettings
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.metrics import Monitor
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.metrics_apis import MetricsApis
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.options import HorizontalPodAutoscalerOptions
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.pods import CpuInitialization
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.reconciler import (
    NEW_AUTOSCALERS,
    QUEUE,
    AutoscalerReconciler,
)
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.sources import MetricSources
from kcm.actors.options import Options
from kcm.actors.options.versions import BINARY
from kcm.actors.reconciliation import Watch, itself
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.protocols.resources import HORIZONTAL_POD_AUTOSCALERS, PODS

SHORTEST_PERIOD = 0.01  # seconds; with a period of 0 the manager would do nothing but evaluate autoscalers


def _workers(options: Options) -> int:
    return options[HorizontalPodAutoscalerOptions].concurrent_syncs


def _build(context: ControllerContext) -> AutoscalerReconciler:
    options, gates = context.options[HorizontalPodAutoscalerOptions], context.options.feature_gates
    period = max(options.sync_period, SHORTEST_PERIOD)
    served = ServedKinds()
    return AutoscalerReconciler(
        tables=context.tables,
        clock=context.clock,
        log=context.log,
        monitor=Monitor(context.metrics),
        settings=AutoscalerSettings(
            period=period,
            window=options.downscale_stabilization,
            tolerance=options.tolerance,
            scales_to_zero=gates["HPAScaleToZero"],
            configurable_tolerance=gates["HPAConfigurableTolerance"],
            evaluates_new_specs_at_once=context.options.versions.emulation > BINARY,
        ),
        served=served,
        sources=MetricSources(
            pods=context.tables[PODS],
            apis=MetricsApis(served=served, clock=context.clock, period=period),
            clock=context.clock,
            cpu_initialization=CpuInitialization(options.cpu_initialization_period, options.initial_readiness_delay),
            pod_level_resources=gates["PodLevelResources"],
        ),
    )


SPEC = ControllerSpec(
    name="horizontal-pod-autoscaler-controller",
    aliases=("horizontalpodautoscaling",),
    never_blocks=True,
    client="horizontal-pod-autoscaler",
    component="horizontal-pod-autoscaler",
    options=HorizontalPodAutoscalerOptions,
    checks=(at_least_one("concurrent-horizontal-pod-autoscaler-syncs", _workers),),
    queues=(
        Queue(QUEUE, concurrency=_workers, terminal=()),
        Queue(
            NEW_AUTOSCALERS,
            watches=(Watch(HORIZONTAL_POD_AUTOSCALERS, to=itself),),
            reconcile=AutoscalerReconciler.schedule,
            concurrency=1,
            terminal=(),
        ),
    ),
    reads=(PODS,),
    discovers=KINDS_ONLY,
    build=_build,
)
