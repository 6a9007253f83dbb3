"""Attach/detach controller: attaches volumes to the nodes of the pods that use them, and detaches unused volumes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kcm.actors.controllers.storage.attach_detach.operation_executor import NODE_QUEUE
from kcm.actors.controllers.storage.attach_detach.reconciler import POD_QUEUE, VOLUME_QUEUE, AttachDetach
from kcm.actors.controllers.storage.attach_detach.volume_specs import ANY, PODS_WITH_VOLUMES, VOLUMES
from kcm.actors.controllers.storage.persistentvolume_binder.matching import VOLUME_FACTS
from kcm.actors.controllers.storage.persistentvolume_binder.spec import CLAIM_FACTS
from kcm.actors.controllers.storage.shared.pods_by_claim import PODS_BY_CLAIM
from kcm.actors.options import ControllerOptions, Options
from kcm.actors.reconciliation import Change, Interest, Watch, itself
from kcm.actors.reconciliation.derived import PODS_BY_NODE
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Pass, Queue
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key
from kcm.protocols.resources import (
    CSI_DRIVERS,
    CSI_NODES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    VOLUME_ATTACHMENTS,
)
from kcm.protocols.volumes import key_of_reference
from kcm.runtime.flags.declaration import flag
from kcm.runtime.flags.values import DURATION
from kcm.runtime.tables.tables import Tables

__all__ = ["SPEC", "AttachDetachOptions"]

POPULATE_PERIOD = 60.0  # seconds
SEEN = (EventType.ADDED, EventType.MODIFIED)


class AttachDetachOptions(ControllerOptions, frozen=True, kw_only=True):
    configz_block = "AttachDetachController"

    reconcile_sync_period: float = flag(
        60.0,
        "Interval at which volumes that are recorded as attached are compared with their VolumeAttachments.",
        name="attach-detach-reconcile-sync-period",
        kind=DURATION,
        config="ReconcilerSyncLoopPeriod",
    )
    disable_reconcile_sync: bool = flag(
        False,
        "Disable the comparison of attached volumes with their VolumeAttachments.",
        name="disable-attach-detach-reconcile-sync",
        config="DisableAttachDetachReconcilerSync",
    )
    disable_force_detach_on_timeout: bool = flag(
        False,
        "Keep volumes attached to nodes that are not ready, until the nodes no longer use them or have the "
        "out-of-service taint. By default they are detached by force after 6 minutes.",
        config="DisableForceDetachOnTimeout",
    )


def _check_period(options: Options) -> Iterator[str]:
    attach = options[AttachDetachOptions]
    if not attach.disable_reconcile_sync and attach.reconcile_sync_period < 1:
        yield "duration time must be greater than one second as set via command line option reconcile-sync-loop-period"


def _its_claim(change: Change, _tables: Tables) -> Iterable[Key]:
    reference = (change.new.get("spec") or {}).get("claimRef")
    return () if reference is None else (key_of_reference(reference),)


def _build(context: ControllerContext) -> AttachDetach:
    options = context.options[AttachDetachOptions]
    return AttachDetach(
        tables=context.tables,
        clock=context.clock,
        log=context.log,
        metrics=context.metrics,
        force_on_timeout=not options.disable_force_detach_on_timeout,
        verifies=not options.disable_reconcile_sync,
    )


SPEC = ControllerSpec(
    name="persistentvolume-attach-detach-controller",
    aliases=("attachdetach",),
    never_blocks=True,
    client="attachdetach-controller",
    component="attachdetach-controller",
    queues=(
        Queue(
            "pvcs",
            watches=(
                Watch(PERSISTENT_VOLUME_CLAIMS, to=itself, interest=Interest(types=SEEN, changed=("phase", "volume"))),
                Watch(PERSISTENT_VOLUMES, to=_its_claim, interest=Interest(types=SEEN, changed=("claim_uid",))),
            ),
            reconcile=AttachDetach.sync_claim,
            concurrency=1,
            terminal=(),
        ),
        Queue(
            POD_QUEUE,
            watches=(
                Watch(
                    PODS,
                    to=itself,
                    interest=Interest(changed=("node", "phase", "stopped"), indexed=((VOLUMES, ANY),)),
                ),
            ),
            reconcile=AttachDetach.sync_pod,
            concurrency=1,
            terminal=(),
        ),
        Queue(
            NODE_QUEUE,
            watches=(
                Watch(
                    NODES,
                    to=itself,
                    interest=Interest(changed=("attaches_for", "out_of_service", "ready", "volumes_in_use")),
                ),
            ),
            reconcile=AttachDetach.sync_node,
            concurrency=10,
            terminal=(),
        ),
        Queue(
            VOLUME_QUEUE,
            reconcile=AttachDetach.sync_volume,
            concurrency=20,
            terminal=(),
        ),
        Queue(
            "volume_attachment_changes",
            watches=(Watch(VOLUME_ATTACHMENTS, to=itself),),
            reconcile=AttachDetach.sync_attachment,
            concurrency=1,
            terminal=(),
        ),
    ),
    passes=(
        Pass("desired state", every=POPULATE_PERIOD, run=AttachDetach.populate),
        Pass(
            "reconcile sync",
            every=lambda options: max(1.0, options[AttachDetachOptions].reconcile_sync_period),
            run=AttachDetach.verify,
        ),
    ),
    reads=(CSI_NODES, CSI_DRIVERS),
    indexes=(PODS_BY_CLAIM, PODS_BY_NODE, PODS_WITH_VOLUMES),
    facts=(VOLUME_FACTS, CLAIM_FACTS),
    options=AttachDetachOptions,
    checks=(_check_period,),
    build=_build,
)
