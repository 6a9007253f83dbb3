"""The controllers around nodes other than their lifecycle: names, clients and event sources as upstream has them.

Source: kubernetes v1.36 cmd/kube-controller-manager/app/core.go, pkg/controller/{tainteviction,podgc}/metrics,
pkg/controller/nodeipam/ipam/cidrset/metrics.go.
"""

from __future__ import annotations

from actors.controllers.nodes import taint_eviction
from actors.controllers.nodes.node_ipam.checks import ranges_fit, service_range_entries
from actors.controllers.nodes.node_ipam.options import NodeIpamOptions
from actors.controllers.nodes.node_ipam.ranges import node_ranges
from actors.controllers.nodes.node_ipam.reconciler import NodeIpamReconciler
from actors.controllers.nodes.node_lifecycle.options import NodeLifecycleOptions
from actors.controllers.nodes.pod_garbage_collector import (
    PERIOD,
    DeletionMeter,
    PodGarbageCollector,
    PodGarbageCollectorOptions,
    Reason,
)
from actors.controllers.nodes.taint_eviction import TaintEvictionReconciler
from actors.controllers.nodes.ttl import TtlReconciler
from actors.reconciliation import Watch, itself
from actors.reconciliation.specs import ControllerContext, ControllerSpec, Pass, Queue
from protocols.resources import NODES, PODS
from runtime.metrics.registry import Family, Metrics

EVICTIONS = Family(
    name="taint_eviction_controller_pod_deletions_total",
    kind="counter",
    help="Pods deleted for a NoExecute taint of their node.",
)
EVICTION_DURATION = Family(
    name="taint_eviction_controller_pod_deletion_duration_seconds",
    kind="histogram",
    help="From when a pod's time was up to when it was deleted.",
    buckets=(0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0),
)
FORCE_DELETIONS = Family(
    name="pod_gc_collector_force_delete_pods_total",
    kind="counter",
    help="Pods deleted without grace, those included that could not be.",
    labels=("namespace", "reason"),
)
FORCE_DELETION_ERRORS = Family(
    name="pod_gc_collector_force_delete_pod_errors_total",
    kind="counter",
    help="Pods that could not be deleted.",
    labels=("namespace", "reason"),
)


def _taint_eviction(context: ControllerContext) -> TaintEvictionReconciler:
    deletions = context.metrics.counter(EVICTIONS)
    duration = context.metrics.histogram(EVICTION_DURATION)

    def evicted(seconds: float) -> None:
        deletions.inc()
        duration.observe(seconds)

    return TaintEvictionReconciler(tables=context.tables, clock=context.clock, log=context.log, evicted=evicted)


def deletion_meter(metrics: Metrics) -> DeletionMeter:
    def attempted(namespace: str, reason: Reason) -> None:
        metrics.counter(FORCE_DELETIONS, namespace, reason).inc()

    def failed(namespace: str, reason: Reason) -> None:
        metrics.counter(FORCE_DELETION_ERRORS, namespace, reason).inc()

    return DeletionMeter(attempted=attempted, failed=failed)


def _pod_garbage_collector(context: ControllerContext) -> PodGarbageCollector:
    return PodGarbageCollector(
        tables=context.tables,
        clock=context.clock,
        log=context.log,
        meter=deletion_meter(context.metrics),
        threshold=context.options[PodGarbageCollectorOptions].terminated_pod_threshold,
    )


def _node_ipam(context: ControllerContext) -> NodeIpamReconciler:
    options = context.options
    return NodeIpamReconciler(
        tables=context.tables,
        log=context.log,
        metrics=context.metrics,
        ranges=node_ranges(options.cloud, options[NodeIpamOptions]),
    )


NODE_SERVICES: tuple[ControllerSpec, ...] = (
    ControllerSpec(
        name="pod-garbage-collector-controller",
        aliases=("podgc",),
        options=PodGarbageCollectorOptions,
        client="pod-garbage-collector",
        passes=(
            Pass("pods", every=lambda _options: PERIOD, run=PodGarbageCollector.collect, queue="orphaned_pods_nodes"),
        ),
        reads=(PODS, NODES),
        build=_pod_garbage_collector,
    ),
    ControllerSpec(
        name="ttl-controller",
        aliases=("ttl",),
        queues=(Queue("ttlcontroller", watches=(Watch(NODES, to=itself),)),),
        build=lambda context: TtlReconciler(tables=context.tables),
    ),
    ControllerSpec(
        name="node-ipam-controller",
        aliases=("nodeipam",),
        options=NodeIpamOptions,
        checks=(service_range_entries, ranges_fit),
        client="node-controller",
        component="cidrAllocator",
        queues=(Queue("cidrallocator_node", watches=(Watch(NODES, to=itself),), concurrency=lambda _options: 30),),
        build=_node_ipam,
        enabled_if=lambda options: options.cloud.allocate_node_cidrs,
    ),
    ControllerSpec(
        name="taint-eviction-controller",
        client="node-controller",
        queues=(Queue("noexec_taint_pod", watches=taint_eviction.WATCHES, concurrency=lambda _options: 8),),
        build=_taint_eviction,
        enabled_if=lambda options: options[NodeLifecycleOptions].enable_taint_manager,
    ),
)
