"""How the Deployment controller presents itself to the system."""

from __future__ import annotations

from kcm.actors.controllers.workloads.deployment.options import DeploymentOptions
from kcm.actors.controllers.workloads.deployment.reconciler import WATCHES, DeploymentReconciler
from kcm.actors.options import Options
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue


def _resync(options: Options) -> float | None:
    """--deployment-controller-sync-period of old releases; where it is not given events are enough, as upstream."""
    return options[DeploymentOptions].sync_period if "deployment-controller-sync-period" in options.given else None


def _build(context: ControllerContext) -> DeploymentReconciler:
    counts_terminating = context.options.feature_gates["DeploymentReplicaSetTerminatingReplicas"]
    return DeploymentReconciler(tables=context.tables, clock=context.clock, counts_terminating=counts_terminating)


SPEC = ControllerSpec(
    name="deployment-controller",
    aliases=("deployment",),
    never_blocks=True,
    client="deployment-controller",
    component="deployment-controller",
    queues=(
        Queue(
            "deployment",
            watches=WATCHES,
            concurrency=lambda options: options[DeploymentOptions].concurrent_syncs,
            terminal=(),
            max_retries=15,
        ),
    ),
    build=_build,
    resync=_resync,
    options=DeploymentOptions,
)
