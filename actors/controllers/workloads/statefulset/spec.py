"""The ControllerSpec and the watches of the StatefulSet controller."""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.controllers.shared.option_checks import at_least_one
from kcm.actors.controllers.workloads.statefulset.identity import parent_and_ordinal
from kcm.actors.controllers.workloads.statefulset.metrics import StatefulSetMetrics
from kcm.actors.controllers.workloads.statefulset.options import StatefulSetOptions
from kcm.actors.controllers.workloads.statefulset.reconciler import StatefulSetReconciler
from kcm.actors.options import Options
from kcm.actors.options.versions import BINARY
from kcm.actors.reconciliation import ORPHANS, Change, Interest, Watch, its_controller, itself
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, make_key, split_key
from kcm.protocols.pods import COUNTED_FACTS
from kcm.protocols.resources import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS, STATEFULSETS
from kcm.runtime.tables.tables import Tables


def set_of_its_name(change: Change, tables: Tables) -> Iterable[Key]:
    """Enqueue the set whose name matches the name of an orphaned pod."""
    namespace, name = split_key(change.key)
    key = make_key(namespace, parent_and_ordinal(name)[0])
    if change.controller is None and not change.deleted and tables[STATEFULSETS].entry(key) is not None:
        yield key


def sets_of_claim(change: Change, tables: Tables) -> Iterable[Key]:
    """Enqueue the sets to which a claim may belong by its name, "<template>-<set>-<ordinal>".

    Template and set names may contain hyphens, so that several sets are possible.
    """
    namespace, name = split_key(change.key)
    words = parent_and_ordinal(name)[0].split("-")
    for i in range(1, len(words)):
        key = make_key(namespace, "-".join(words[i:]))
        if tables[STATEFULSETS].entry(key) is not None:
            yield key


def _concurrency(options: Options) -> int:
    return options[StatefulSetOptions].concurrent_syncs


def build(context: ControllerContext) -> StatefulSetReconciler:
    return StatefulSetReconciler(
        tables=context.tables,
        clock=context.clock,
        metrics=StatefulSetMetrics(context.metrics),
        several_unavailable=context.options.feature_gates["MaxUnavailableStatefulSet"],
        on_delete_completes=context.options.versions.emulation > BINARY,
    )


SPEC = ControllerSpec(
    name="statefulset-controller",
    aliases=("statefulset",),
    never_blocks=True,
    client="statefulset-controller",
    component="statefulset-controller",
    queues=(
        Queue(
            "statefulset",
            watches=(
                Watch(STATEFULSETS, to=itself),
                Watch(
                    PODS,
                    to=its_controller(STATEFULSETS),
                    interest=Interest(owner_kinds=(STATEFULSETS.kind,), changed=COUNTED_FACTS),
                ),
                Watch(PODS, to=set_of_its_name, interest=Interest(owner_kinds=(ORPHANS,), changed=("labels",))),
                Watch(PERSISTENT_VOLUME_CLAIMS, to=sets_of_claim, interest=Interest(types=(EventType.DELETED,))),
            ),
            concurrency=_concurrency,
            terminal=(),
        ),
    ),
    reads=(CONTROLLER_REVISIONS,),
    build=build,
    options=StatefulSetOptions,
    checks=(at_least_one("concurrent-statefulset-syncs", _concurrency),),
)
