"""The ControllerSpec and the flags of the Deployment controller."""

from __future__ import annotations

from kcm.actors.controllers.workloads.deployment.reconciler import WATCHES, DeploymentReconciler
from kcm.actors.options import ControllerOptions, Options
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.runtime.flags.declaration import flag
from kcm.runtime.flags.values import DURATION


class DeploymentOptions(ControllerOptions, frozen=True, kw_only=True):
    configz_block = "DeploymentController"

    concurrent_syncs: int = flag(
        5,
        "Number of Deployments that are synced concurrently.",
        name="concurrent-deployment-syncs",
        config="ConcurrentDeploymentSyncs",
    )
    sync_period: float = flag(
        30.0,
        "Interval at which every Deployment is synced again.",
        name="deployment-controller-sync-period",
        kind=DURATION,
    )


def _resync(options: Options) -> float | None:
    # A flag of old releases. Unless it is set, events are enough, as upstream.
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
