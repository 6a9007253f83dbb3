"""The ControllerSpec of the DaemonSet controller."""

from __future__ import annotations

from kcm.actors.controllers.shared.option_checks import at_least_one
from kcm.actors.controllers.workloads.daemonset.options import DaemonSetOptions
from kcm.actors.controllers.workloads.daemonset.reconciler import QUEUE, DaemonSetReconciler
from kcm.actors.controllers.workloads.daemonset.watches import NODE_WATCHES, WATCHES
from kcm.actors.options import Options
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue


def _workers(options: Options) -> int:
    return options[DaemonSetOptions].concurrent_syncs


def _build(context: ControllerContext) -> DaemonSetReconciler:
    return DaemonSetReconciler(
        tables=context.tables,
        clock=context.clock,
        log=context.log,
        comparing=context.options.feature_gates["TaintTolerationComparisonOperators"],
    )


SPEC = ControllerSpec(
    name="daemonset-controller",
    aliases=("daemonset",),
    never_blocks=True,
    client="daemon-set-controller",
    component="daemonset-controller",
    queues=(
        Queue(QUEUE, watches=WATCHES, concurrency=_workers, terminal=()),
        Queue(
            "daemonset-node-updates",
            watches=NODE_WATCHES,
            reconcile=DaemonSetReconciler.node_changed,
            concurrency=_workers,
            terminal=(),
        ),
    ),
    build=_build,
    options=DaemonSetOptions,
    checks=(at_least_one("concurrent-daemonset-syncs", _workers),),
)
