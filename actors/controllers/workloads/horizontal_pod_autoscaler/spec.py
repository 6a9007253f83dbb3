"""How the horizontal pod autoscaler presents itself to the system."""

from __future__ import annotations

from kcm.actors.controllers.shared.option_checks import at_least_one
from kcm.actors.controllers.shared.served_kinds import KINDS_ALONE, ServedKinds
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.evaluations import Settings
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.metrics import Monitor
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.metrics_apis import MetricsApis
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.options import HorizontalPodAutoscalerOptions
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.pods import Youth
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.reconciler import (
    ARRIVALS,
    QUEUE,
    HorizontalPodAutoscaling,
)
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.sources import Sources
from kcm.actors.options import Options
from kcm.actors.reconciliation import Watch, itself
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.protocols.resources import HORIZONTAL_POD_AUTOSCALERS, PODS

SHORTEST_PERIOD = 0.01  # seconds: with none at all the manager would do nothing else


def _workers(options: Options) -> int:
    return options[HorizontalPodAutoscalerOptions].concurrent_syncs


def _build(context: ControllerContext) -> HorizontalPodAutoscaling:
    options, gates = context.options[HorizontalPodAutoscalerOptions], context.options.feature_gates
    period = max(options.sync_period, SHORTEST_PERIOD)
    served = ServedKinds()
    return HorizontalPodAutoscaling(
        tables=context.tables,
        clock=context.clock,
        log=context.log,
        monitor=Monitor(context.metrics),
        settings=Settings(
            period=period,
            window=options.downscale_stabilization,
            tolerance=options.tolerance,
            scales_to_zero=gates["HPAScaleToZero"],
            tolerates=gates["HPAConfigurableTolerance"],
        ),
        served=served,
        sources=Sources(
            pods=context.tables[PODS],
            apis=MetricsApis(served=served, clock=context.clock, period=period),
            clock=context.clock,
            youth=Youth(options.cpu_initialization_period, options.initial_readiness_delay),
            of_whole_pods=gates["PodLevelResources"],
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
            ARRIVALS,
            watches=(Watch(HORIZONTAL_POD_AUTOSCALERS, to=itself),),
            reconcile=HorizontalPodAutoscaling.note,
            concurrency=1,
            terminal=(),
        ),
    ),
    reads=(PODS,),
    discovers=KINDS_ALONE,
    build=_build,
)
