"""ControllerSpec of the EndpointSlice controller."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from kcm.actors.controllers.network.endpointslice.metrics import SliceMetrics
from kcm.actors.controllers.network.endpointslice.options import EndpointSliceOptions, check_limits
from kcm.actors.controllers.network.endpointslice.reconciler import MANAGER, QUEUE, EndpointSliceReconciler
from kcm.actors.controllers.network.shared.selected_pods import PODS_CHANGED, SERVICE_FACTS, SERVICES_BY_SELECTOR
from kcm.actors.controllers.network.shared.slices import SLICES_BY_MANAGER, SLICES_BY_SERVICE, managed_by, slice_change
from kcm.actors.options import Options
from kcm.actors.reconciliation import Change, Interest, Watch, itself
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.protocols.resources import ENDPOINT_SLICES, NODES, SERVICES
from kcm.runtime.scheduling.backoff import Backoff
from kcm.runtime.tables.tables import Tables

RETRIES = 15
TOPOLOGY = "nodes"


def all_nodes(_change: Change, _tables: Tables) -> Iterable[str]:
    return (TOPOLOGY,)


def build(context: ControllerContext) -> EndpointSliceReconciler:
    options = context.options[EndpointSliceOptions]
    return EndpointSliceReconciler(
        tables=context.tables,
        clock=context.clock,
        metrics=SliceMetrics(context.metrics, max_endpoints=options.max_endpoints),
        log=context.log,
        max_endpoints=options.max_endpoints,
        batch_period=options.updates_batch_period,
    )


def workers(options: Options) -> int:
    return options[EndpointSliceOptions].concurrent_syncs


SPEC = ControllerSpec(
    name="endpointslice-controller",
    never_blocks=True,
    aliases=("endpointslice",),
    component="endpoint-slice-controller",
    queues=(
        Queue(
            QUEUE,
            watches=(
                Watch(SERVICES, to=itself),
                replace(PODS_CHANGED, delay=lambda options: options[EndpointSliceOptions].updates_batch_period),
            ),
            concurrency=workers,
            max_retries=RETRIES,
            terminal=(),
            backoff=Backoff(first=1.0, most=1000.0),
        ),
        Queue(
            "endpoint_slice_changes",
            watches=(Watch(ENDPOINT_SLICES, to=slice_change, interest=managed_by(MANAGER)),),
            reconcile=EndpointSliceReconciler.reconcile_slice,
            terminal=(),
        ),
        Queue(
            "endpoint_slice_topology",
            watches=(Watch(NODES, to=all_nodes, interest=Interest(changed=("ready", "topology_zone"))),),
            reconcile=EndpointSliceReconciler.reconcile_topology,
            concurrency=1,
            terminal=(),
        ),
    ),
    indexes=(SERVICES_BY_SELECTOR, SLICES_BY_SERVICE, SLICES_BY_MANAGER),
    facts=(SERVICE_FACTS,),
    build=build,
    options=EndpointSliceOptions,
    checks=(check_limits,),
)
