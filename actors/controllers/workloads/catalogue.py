"""The workload controllers: names, clients and event sources as upstream has them.

Source: kubernetes v1.36 cmd/kube-controller-manager/names/controller_names.go, app/{apps,core}.go.
"""

from __future__ import annotations

from actors.controllers.workloads.deployment import DeploymentReconciler
from actors.controllers.workloads.deployment.options import DeploymentOptions
from actors.controllers.workloads.deployment.reconciler import WATCHES
from actors.controllers.workloads.replicaset import (
    REPLICASET,
    ReplicaKind,
    ReplicaSetOptions,
    ReplicaSetReconciler,
    watches,
)
from actors.controllers.workloads.replicationcontroller import REPLICATION_CONTROLLER, ReplicationControllerOptions
from actors.options import Options
from actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from runtime.metrics.registry import Family

AGE_RATIO = Family(
    name="replicaset_controller_sorting_deletion_age_ratio",
    kind="histogram",
    help="The ratio of chosen deleted pod's ages to the current youngest pod's age (at the time).",
    buckets=tuple(0.25 * 2.0**exponent for exponent in range(6)),
)


def _replicas(context: ControllerContext, kind: ReplicaKind) -> ReplicaSetReconciler:
    return ReplicaSetReconciler(
        tables=context.tables,
        clock=context.clock,
        observe_age_ratio=context.metrics.histogram(AGE_RATIO).observe,
        log=context.log,
        kind=kind,
    )


def _deployment_resync(options: Options) -> float | None:
    """--deployment-controller-sync-period of old releases; where it is not given events are enough, as upstream."""
    return options[DeploymentOptions].sync_period if "deployment-controller-sync-period" in options.given else None


WORKLOADS: tuple[ControllerSpec, ...] = (
    ControllerSpec(
        name="replicationcontroller-controller",
        aliases=("replicationcontroller", "replication"),
        options=ReplicationControllerOptions,
        client="replication-controller",
        component="replication-controller",
        queues=(
            Queue(
                "replicationmanager",
                watches=watches(REPLICATION_CONTROLLER),
                concurrency=lambda options: options[ReplicationControllerOptions].concurrent_syncs,
            ),
        ),
        build=lambda context: _replicas(context, REPLICATION_CONTROLLER),
    ),
    ControllerSpec(
        name="replicaset-controller",
        aliases=("replicaset",),
        options=ReplicaSetOptions,
        client="replicaset-controller",
        component="replicaset-controller",
        queues=(
            Queue(
                "replicaset",
                watches=watches(REPLICASET),
                concurrency=lambda options: options[ReplicaSetOptions].concurrent_syncs,
            ),
        ),
        build=lambda context: _replicas(context, REPLICASET),
    ),
    ControllerSpec(
        name="deployment-controller",
        aliases=("deployment",),
        options=DeploymentOptions,
        client="deployment-controller",
        component="deployment-controller",
        queues=(
            Queue(
                "deployment",
                watches=WATCHES,
                concurrency=lambda options: options[DeploymentOptions].concurrent_syncs,
                max_retries=15,
            ),
        ),
        build=lambda context: DeploymentReconciler(tables=context.tables, clock=context.clock),
        resync=_deployment_resync,
    ),
)
