"""ControllerSpec of the namespace controller."""

from __future__ import annotations

from kcm.actors.controllers.apimachinery.namespace.options import NamespaceOptions
from kcm.actors.controllers.apimachinery.namespace.reconciler import NamespaceController, in_terminating, terminating
from kcm.actors.options import Options
from kcm.actors.reconciliation import Change, Interest, Watch
from kcm.actors.reconciliation.discovered import Discovered
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.protocols.messages.discovery import ServedResource
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key
from kcm.protocols.resources import NAMESPACES, PODS, Resource
from kcm.runtime.scheduling.backoff import Backoff
from kcm.runtime.tables.tables import Tables

DELETIONS = Interest(types=(EventType.DELETED,))


def _build(context: ControllerContext) -> NamespaceController:
    return NamespaceController(tables=context.tables, clock=context.clock, log=context.log)


def _is_namespaced(served: ServedResource) -> bool:
    return served.namespaced


def _terminating_namespace(_resource: Resource, change: Change, tables: Tables) -> tuple[Key, ...]:
    return in_terminating(change, tables)


def _workers(options: Options) -> int:
    return options[NamespaceOptions].concurrent_syncs


SPEC = ControllerSpec(
    name="namespace-controller",
    aliases=("namespace",),
    qps=lambda options: 20 * options.client_limits.qps,
    burst=lambda options: 100 * options.client_limits.burst,
    queues=(
        Queue(
            "namespace",
            watches=(
                Watch(NAMESPACES, to=terminating),
                Watch(PODS, to=in_terminating, interest=DELETIONS, metadata_only=True),
            ),
            concurrency=_workers,
            backoff=Backoff(first=0.005, most=60.0),
            terminal=(),
        ),
    ),
    discovers=Discovered(select=_is_namespaced, to=_terminating_namespace, interest=DELETIONS, only_shared=True),
    resync=lambda options: options[NamespaceOptions].sync_period,
    build=_build,
    never_blocks=True,
    options=NamespaceOptions,
)
