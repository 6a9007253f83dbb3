"""ControllerSpec of the resourcequota controller."""

from __future__ import annotations

import math

from kcm.actors.controllers.apimachinery.resourcequota.evaluators import is_counted, is_metadata_enough
from kcm.actors.controllers.apimachinery.resourcequota.options import ResourceQuotaOptions
from kcm.actors.controllers.apimachinery.resourcequota.reconciler import (
    DELAYED,
    PRIMARY,
    PRIORITY,
    ResourceQuotaReconciler,
)
from kcm.actors.controllers.apimachinery.resourcequota.watches import (
    DELAYED_WATCHES,
    DELETIONS,
    FACTS,
    INDEX,
    PRIMARY_WATCHES,
    PRIORITY_WATCHES,
    keys_of_discovered,
)
from kcm.actors.options import Options
from kcm.actors.reconciliation.discovered import Discovered
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Pass, Queue


def _workers(options: Options) -> int:
    return options[ResourceQuotaOptions].concurrent_syncs


def _period(options: Options) -> float:
    """Return the seconds between two recounts of all quotas; infinity if recounts are disabled.

    With infinity the pass still runs once, after the start.
    """
    period = options[ResourceQuotaOptions].sync_period
    return period if period > 0 else math.inf


def _build(context: ControllerContext) -> ResourceQuotaReconciler:
    return ResourceQuotaReconciler(tables=context.tables, clock=context.clock, log=context.log)


SPEC = ControllerSpec(
    name="resourcequota-controller",
    aliases=("resourcequota",),
    never_blocks=True,
    queues=(
        Queue(PRIMARY, watches=PRIMARY_WATCHES, concurrency=_workers, terminal=()),
        Queue(PRIORITY, watches=PRIORITY_WATCHES, concurrency=_workers, terminal=()),
        Queue(DELAYED, watches=DELAYED_WATCHES, reconcile=ResourceQuotaReconciler.recount_later, terminal=()),
    ),
    passes=(Pass("recount", every=_period, run=ResourceQuotaReconciler.enqueue_all),),
    discovers=Discovered(
        select=is_counted, to=keys_of_discovered, interest=DELETIONS, queue=PRIMARY, metadata_only=is_metadata_enough
    ),
    facts=(FACTS,),
    indexes=(INDEX,),
    build=_build,
    options=ResourceQuotaOptions,
)
