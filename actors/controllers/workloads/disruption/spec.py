"""ControllerSpec of the disruption controller."""

from __future__ import annotations

from kcm.actors.controllers.shared.option_checks import at_least_one
from kcm.actors.controllers.shared.served_kinds import KINDS_ONLY
from kcm.actors.controllers.workloads.disruption.matching import (
    BUDGET_FACTS,
    budgets_of_pod,
    budgets_of_workload,
    pod_with_multiple_budgets,
    workload_facts,
)
from kcm.actors.controllers.workloads.disruption.reconciler import (
    QUEUE,
    RECHECK_QUEUE,
    STALE_QUEUE,
    DisruptionReconciler,
)
from kcm.actors.controllers.workloads.disruption.stale_targets import MARKED_PODS, PODS_MARKED
from kcm.actors.options import ControllerOptions
from kcm.actors.reconciliation import Interest, Watch, itself
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Facts, Queue
from kcm.protocols.messages.watches import EventType
from kcm.protocols.resources import (
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICASETS,
    REPLICATION_CONTROLLERS,
    STATEFULSETS,
)
from kcm.runtime.flags.declaration import flag

BUDGET_CHANGES = Interest(changed=("state",))
POD_CHANGES = Interest(changed=("labels", "deleting", "ready"))  # the fields that the counts depend on

WORKLOADS = (REPLICATION_CONTROLLERS, REPLICASETS, DEPLOYMENTS, STATEFULSETS)
RESIZED = Interest(types=(EventType.MODIFIED,), changed=("replicas",))


class DisruptionOptions(ControllerOptions, frozen=True, kw_only=True):
    """Flags that kube-controller-manager has from 1.37 on."""

    concurrent_syncs: int = flag(
        1, "Number of PodDisruptionBudgets that are synced concurrently.", name="concurrent-disruption-syncs"
    )
    concurrent_stale_pod_syncs: int = flag(
        1,
        "Number of pods whose stale condition DisruptionTarget is reset concurrently.",
        name="concurrent-disruption-stalepod-syncs",
    )


def _build(context: ControllerContext) -> DisruptionReconciler:
    return DisruptionReconciler(tables=context.tables, clock=context.clock, log=context.log)


SPEC = ControllerSpec(
    name="disruption-controller",
    aliases=("disruption",),
    never_blocks=True,
    client="disruption-controller",
    component="controllermanager",
    queues=(
        Queue(
            QUEUE,
            watches=(
                Watch(POD_DISRUPTION_BUDGETS, to=itself, interest=BUDGET_CHANGES),
                Watch(PODS, to=budgets_of_pod, interest=POD_CHANGES),
                *(Watch(resource, to=budgets_of_workload, interest=RESIZED) for resource in WORKLOADS),
            ),
            concurrency=lambda options: options[DisruptionOptions].concurrent_syncs,
            terminal=(),
        ),
        Queue(RECHECK_QUEUE, reconcile=DisruptionReconciler.recheck, concurrency=1, terminal=()),
        Queue(
            STALE_QUEUE,
            watches=(PODS_MARKED,),
            reconcile=DisruptionReconciler.clear_stale_target,
            concurrency=lambda options: options[DisruptionOptions].concurrent_stale_pod_syncs,
            terminal=(),
        ),
        Queue(
            "disruption_overlaps",
            watches=(Watch(PODS, to=pod_with_multiple_budgets, interest=POD_CHANGES),),
            reconcile=DisruptionReconciler.report_multiple_budgets,
            concurrency=1,
            terminal=(),
        ),
    ),
    indexes=(MARKED_PODS,),
    facts=(BUDGET_FACTS, *(Facts(resource, workload_facts) for resource in WORKLOADS)),
    discovers=KINDS_ONLY,
    options=DisruptionOptions,
    checks=(
        at_least_one("concurrent-disruption-syncs", lambda options: options[DisruptionOptions].concurrent_syncs),
        at_least_one(
            "concurrent-disruption-stalepod-syncs",
            lambda options: options[DisruptionOptions].concurrent_stale_pod_syncs,
        ),
    ),
    build=_build,
)
