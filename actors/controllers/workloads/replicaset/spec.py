"""The ControllerSpec and the metrics of the ReplicaSet controller."""

from __future__ import annotations

from kcm.actors.controllers.workloads.replicaset.kind import REPLICASET, ReplicaKind, watches
from kcm.actors.controllers.workloads.replicaset.options import ReplicaSetOptions
from kcm.actors.controllers.workloads.replicaset.reconciler import ReplicaSetReconciler
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.runtime.metrics.registry import Family

AGE_RATIO = Family(
    name="replicaset_controller_sorting_deletion_age_ratio",
    kind="histogram",
    help="The ratio of chosen deleted pod's ages to the current youngest pod's age (at the time). Should "
    "be <2. The intent of this metric is to measure the rough efficacy of the LogarithmicScaleDown "
    "feature gate's effect on the sorting (and deletion) of pods when a replicaset scales down. This "
    "only considers Ready pods when calculating and reporting.",
    buckets=tuple(0.25 * 2.0**exponent for exponent in range(6)),
)


def build(context: ControllerContext, kind: ReplicaKind = REPLICASET) -> ReplicaSetReconciler:
    return ReplicaSetReconciler(
        tables=context.tables,
        clock=context.clock,
        observe_age_ratio=context.metrics.histogram(AGE_RATIO).observe,
        log=context.log,
        kind=kind.with_feature_gates(context.options.feature_gates),
    )


SPEC = ControllerSpec(
    name="replicaset-controller",
    aliases=("replicaset",),
    never_blocks=True,
    client="replicaset-controller",
    component="replicaset-controller",
    queues=(
        Queue(
            "replicaset",
            watches=watches(REPLICASET),
            concurrency=lambda options: options[ReplicaSetOptions].concurrent_syncs,
            terminal=(),
        ),
    ),
    build=build,
    options=ReplicaSetOptions,
)
