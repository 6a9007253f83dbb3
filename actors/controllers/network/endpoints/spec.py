"""ControllerSpec of the endpoints controller."""

from __future__ import annotations

import math

from msgspec.structs import replace

from kcm.actors.controllers.network.endpoints.options import EndpointsOptions
from kcm.actors.controllers.network.endpoints.reconciler import QUEUE, EndpointsReconciler
from kcm.actors.controllers.network.shared.selected_pods import PODS_CHANGED, SERVICE_FACTS, SERVICES_BY_SELECTOR
from kcm.actors.options import Options
from kcm.actors.reconciliation import Interest, Watch, itself
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Pass, Queue
from kcm.protocols.messages.watches import EventType
from kcm.protocols.resources import ENDPOINTS, SERVICES

RETRIES = 15


def build(context: ControllerContext) -> EndpointsReconciler:
    return EndpointsReconciler(tables=context.tables, log=context.log)


def workers(options: Options) -> int:
    return options[EndpointsOptions].concurrent_syncs


SPEC = ControllerSpec(
    name="endpoints-controller",
    aliases=("endpoint",),
    never_blocks=True,
    client="endpoint-controller",
    component="endpoint-controller",
    queues=(
        Queue(
            QUEUE,
            watches=(
                Watch(SERVICES, to=itself),
                Watch(ENDPOINTS, to=itself, interest=Interest(types=(EventType.DELETED,))),
                replace(PODS_CHANGED, delay=lambda options: options[EndpointsOptions].updates_batch_period),
            ),
            concurrency=workers,
            max_retries=RETRIES,
            terminal=(),
        ),
    ),
    passes=(Pass("leftovers", every=math.inf, run=EndpointsReconciler.sweep),),
    indexes=(SERVICES_BY_SELECTOR,),
    facts=(SERVICE_FACTS,),
    build=build,
    options=EndpointsOptions,
)
