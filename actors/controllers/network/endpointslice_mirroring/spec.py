"""ControllerSpec of the EndpointSlice mirroring controller."""

from __future__ import annotations

from kcm.actors.controllers.network.endpointslice_mirroring.metrics import MirrorMetrics
from kcm.actors.controllers.network.endpointslice_mirroring.mirrors import MANAGER
from kcm.actors.controllers.network.endpointslice_mirroring.options import EndpointSliceMirroringOptions, check_limits
from kcm.actors.controllers.network.endpointslice_mirroring.reconciler import (
    QUEUE,
    MirroringReconciler,
    endpoints_without_selector,
    services_without_selector,
)
from kcm.actors.controllers.network.shared.selected_pods import SERVICE_FACTS
from kcm.actors.controllers.network.shared.slices import SLICES_BY_MANAGER, SLICES_BY_SERVICE, managed_by, slice_change
from kcm.actors.reconciliation import Interest, Watch
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.protocols.resources import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from kcm.runtime.scheduling.backoff import Backoff

RETRIES = 15


def build(context: ControllerContext) -> MirroringReconciler:
    options = context.options[EndpointSliceMirroringOptions]
    return MirroringReconciler(
        tables=context.tables,
        clock=context.clock,
        metrics=MirrorMetrics(context.metrics),
        log=context.log,
        max_endpoints=options.max_endpoints,
        batch_period=options.updates_batch_period,
    )


SPEC = ControllerSpec(
    name="endpointslice-mirroring-controller",
    aliases=("endpointslicemirroring",),
    never_blocks=True,
    client="endpointslicemirroring-controller",
    component="endpoint-slice-mirroring-controller",
    queues=(
        Queue(
            QUEUE,
            watches=(
                Watch(ENDPOINTS, to=endpoints_without_selector),
                Watch(SERVICES, to=services_without_selector, interest=Interest(changed=("selects",))),
            ),
            concurrency=lambda options: options[EndpointSliceMirroringOptions].concurrent_syncs,
            max_retries=RETRIES,
            terminal=(),
            backoff=Backoff(first=1.0, most=100.0),
        ),
        Queue(
            "endpoint_slice_mirroring_changes",
            watches=(Watch(ENDPOINT_SLICES, to=slice_change, interest=managed_by(MANAGER)),),
            reconcile=MirroringReconciler.reconcile_slice,
            terminal=(),
        ),
    ),
    indexes=(SLICES_BY_SERVICE, SLICES_BY_MANAGER),
    facts=(SERVICE_FACTS,),
    build=build,
    options=EndpointSliceMirroringOptions,
    checks=(check_limits,),
)
