"""ControllerSpec and metrics of the garbage collector."""

from __future__ import annotations

from kcm.actors.controllers.apimachinery.garbage_collector.items import (
    DELETE_QUEUE,
    INTERESTS,
    LOOKUP_QUEUE,
    ORPHAN_QUEUE,
    is_collected,
    keys_of_change,
    namespace_of_item,
)
from kcm.actors.controllers.apimachinery.garbage_collector.options import GarbageCollectorOptions
from kcm.actors.controllers.apimachinery.garbage_collector.reconciler import GarbageCollectorReconciler
from kcm.actors.options import Options
from kcm.actors.reconciliation.discovered import Discovered
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Pass, Queue
from kcm.runtime.metrics.registry import Family

PERIOD = 30.0  # seconds between two checks of the resources that cannot be watched
SYNC_ERRORS = Family(
    name="garbagecollector_controller_resources_sync_error_total",
    kind="counter",
    help="Number of garbage collector resources sync errors",
)


def _workers(options: Options) -> int:
    return options[GarbageCollectorOptions].concurrent_syncs


def _lookups(options: Options) -> int:
    """Return the number of workers that look up owners: a fifth of --concurrent-gc-syncs.

    Lookups share the client's rate limit with deletions, so more workers would delay the deletions.
    """
    return max(1, _workers(options) // 5)


def _build(context: ControllerContext) -> GarbageCollectorReconciler:
    errors = context.metrics.counter(SYNC_ERRORS)
    return GarbageCollectorReconciler(tables=context.tables, clock=context.clock, log=context.log, failed=errors.inc)


SPEC = ControllerSpec(
    name="garbage-collector-controller",
    aliases=("garbagecollector",),
    client="generic-garbage-collector",
    qps=lambda options: 2 * options.client_limits.qps,
    component="garbage-collector-controller",
    queues=(
        Queue(
            DELETE_QUEUE,
            reconcile=GarbageCollectorReconciler.attempt_to_delete,
            concurrency=_workers,
            terminal=(),
            turn_of=namespace_of_item,
        ),
        Queue(
            LOOKUP_QUEUE,
            reconcile=GarbageCollectorReconciler.look_up_owners,
            concurrency=_lookups,
            terminal=(),
            turn_of=namespace_of_item,
        ),
        Queue(
            ORPHAN_QUEUE,
            reconcile=GarbageCollectorReconciler.attempt_to_orphan,
            concurrency=_workers,
            terminal=(),
            turn_of=namespace_of_item,
        ),
    ),
    passes=(Pass("resources", every=PERIOD, run=GarbageCollectorReconciler.check_resources),),
    discovers=Discovered(select=is_collected, to=keys_of_change, interest=INTERESTS),
    build=_build,
    never_blocks=True,
    enabled_if=lambda options: options[GarbageCollectorOptions].enabled,
    needs="--enable-garbage-collector",
    options=GarbageCollectorOptions,
)
