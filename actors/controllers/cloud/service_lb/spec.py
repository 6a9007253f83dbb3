"""ControllerSpec of service-lb-controller.

Source: kubernetes v1.36 staging/src/k8s.io/cloud-provider/app/core.go, controllers/service/metrics.go.
"""

from __future__ import annotations

from kcm.actors.controllers.cloud.service_lb.options import ServiceLoadBalancerOptions
from kcm.actors.controllers.cloud.service_lb.reconciler import (
    QUEUE,
    ServiceLoadBalancerReconciler,
    ServiceMetrics,
    all_nodes,
    services_to_sync,
)
from kcm.actors.reconciliation import Interest, Watch
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.protocols.resources import NODES, SERVICES
from kcm.runtime.cloud.providers import has_provider
from kcm.runtime.metrics.registry import Family
from kcm.runtime.scheduling.backoff import Backoff

BUCKETS = tuple(2.0**exponent for exponent in range(15))  # seconds
SYNCS = Family(
    name="service_controller_loadbalancer_sync_total",
    kind="counter",
    help="A metric counting the amount of times any load balancer has been configured, as an effect of service/node "
    "changes on the cluster",
)
ERRORS = Family(
    name="service_controller_nodesync_error_total",
    kind="counter",
    help="A metric counting the amount of times any load balancer has been configured and errored, as an effect of "
    "node changes on the cluster",
)
PASSES = Family(
    name="service_controller_nodesync_latency_seconds",
    kind="histogram",
    help="A metric measuring the latency for nodesync which updates loadbalancer hosts on cluster node updates.",
    buckets=BUCKETS,
)
UPDATES = Family(
    name="service_controller_update_loadbalancer_host_latency_seconds",
    kind="histogram",
    help="A metric measuring the latency for updating each load balancer hosts.",
    buckets=BUCKETS,
)
BACKOFF = Backoff(first=5.0, most=300.0)


def _build(context: ControllerContext) -> ServiceLoadBalancerReconciler:
    metrics = context.metrics
    return ServiceLoadBalancerReconciler(
        tables=context.tables,
        clock=context.clock,
        log=context.log,
        cluster=context.options.cloud.cluster_name,
        metrics=ServiceMetrics(
            synced=metrics.counter(SYNCS).inc,
            failed=metrics.counter(ERRORS).inc,
            observe_pass=metrics.histogram(PASSES).observe,
            observe_update=metrics.histogram(UPDATES).observe,
        ),
    )


SPEC = ControllerSpec(
    name="service-lb-controller",
    aliases=("service",),
    never_blocks=True,
    client="service-controller",
    component="service-controller",
    queues=(
        Queue(
            QUEUE,
            watches=(Watch(SERVICES, to=services_to_sync),),
            concurrency=lambda options: options[ServiceLoadBalancerOptions].concurrent_syncs,
            terminal=(),
            backoff=BACKOFF,
            retry_qps=-1.0,
        ),
        Queue(
            "node",
            watches=(Watch(NODES, to=all_nodes, interest=Interest(changed=("balancer_excluded", "provider_id"))),),
            reconcile=ServiceLoadBalancerReconciler.reconcile_nodes,
            concurrency=1,
            terminal=(),
            backoff=BACKOFF,
            retry_qps=-1.0,
        ),
    ),
    build=_build,
    options=ServiceLoadBalancerOptions,
    enabled_if=lambda options: has_provider(options.cloud.cloud_provider),
    needs="--cloud-provider, other than 'external'",
)
