"""ControllerSpec of the persistent volume binder."""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.controllers.storage.persistentvolume_binder.claims import PROVISIONINGS
from kcm.actors.controllers.storage.persistentvolume_binder.matching import (
    UNCLAIMED_VOLUMES,
    VOLUME_FACTS,
    VOLUMES_BY_CLAIM,
)
from kcm.actors.controllers.storage.persistentvolume_binder.metrics import BinderMetrics
from kcm.actors.controllers.storage.persistentvolume_binder.options import PersistentVolumeBinderOptions
from kcm.actors.controllers.storage.persistentvolume_binder.reconciler import PersistentVolumeBinder
from kcm.actors.controllers.storage.persistentvolume_binder.recycler import (
    RECYCLERS,
    RECYCLERS_CHANGED,
    volume_of_recycler,
)
from kcm.actors.controllers.storage.persistentvolume_binder.recycler_pod import check_templates, recyclers
from kcm.actors.controllers.storage.persistentvolume_binder.volumes import CLAIM_QUEUE, DELETIONS, RECYCLINGS
from kcm.actors.controllers.storage.shared.pods_by_claim import PODS_BY_CLAIM
from kcm.actors.reconciliation import Change, Interest, Read, Watch, itself
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Facts, Pass, Queue
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key
from kcm.protocols.resources import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES
from kcm.protocols.volumes import claim_facts, key_of_reference, volume_name_of
from kcm.runtime.scheduling.backoff import Backoff
from kcm.runtime.tables.tables import Tables

ON_DELETE = Interest(types=(EventType.DELETED,))
CLAIM_FACTS = Facts(PERSISTENT_VOLUME_CLAIMS, claim_facts)
OPERATIONS = Backoff(first=0.5, most=122.0)  # of the queues for provisioning, deletion and recycling


def _its_claim(change: Change, _tables: Tables) -> Iterable[Key]:
    reference = (change.new.get("spec") or {}).get("claimRef")
    return () if reference is None else (key_of_reference(reference),)


def _its_volume(change: Change, _tables: Tables) -> Iterable[Key]:
    name = volume_name_of(change.new)
    return (name,) if name else ()


def _build(context: ControllerContext) -> PersistentVolumeBinder:
    options = context.options[PersistentVolumeBinderOptions]
    return PersistentVolumeBinder(
        tables=context.tables,
        clock=context.clock,
        log=context.log,
        metrics=BinderMetrics(metrics=context.metrics, clock=context.clock),
        recyclers=recyclers(options),
        provisions=options.enable_dynamic_provisioning,
        host_path=options.enable_hostpath_provisioner,
    )


SPEC = ControllerSpec(
    name="persistentvolume-binder-controller",
    aliases=("persistentvolume-binder",),
    never_blocks=True,
    client="persistent-volume-binder",
    component="persistentvolume-controller",
    queues=(
        Queue(
            CLAIM_QUEUE,
            watches=(
                Watch(PERSISTENT_VOLUME_CLAIMS, to=itself),
                Watch(PERSISTENT_VOLUMES, to=_its_claim, interest=ON_DELETE),
            ),
            reconcile=PersistentVolumeBinder.sync_claim,
            concurrency=1,
            terminal=(),
        ),
        Queue(
            "volumes",
            watches=(
                Watch(PERSISTENT_VOLUMES, to=itself),
                Watch(PERSISTENT_VOLUME_CLAIMS, to=_its_volume, interest=ON_DELETE),
            ),
            reconcile=PersistentVolumeBinder.sync_volume,
            concurrency=1,
            terminal=(),
        ),
        Queue(
            PROVISIONINGS,
            reconcile=PersistentVolumeBinder.provision,
            backoff=OPERATIONS,
            terminal=(),
        ),
        Queue(DELETIONS, reconcile=PersistentVolumeBinder.delete, backoff=OPERATIONS, terminal=()),
        Queue(
            RECYCLINGS,
            watches=(Watch(PODS, to=volume_of_recycler, interest=RECYCLERS_CHANGED),),
            reconcile=PersistentVolumeBinder.recycle,
            backoff=OPERATIONS,
            terminal=(),
        ),
    ),
    passes=(
        Pass(
            "counts",
            every=lambda options: options[PersistentVolumeBinderOptions].sync_period,
            run=PersistentVolumeBinder.count,
        ),
    ),
    reads=(STORAGE_CLASSES, Read(NODES)),
    indexes=(PODS_BY_CLAIM, VOLUMES_BY_CLAIM, UNCLAIMED_VOLUMES, RECYCLERS),
    facts=(VOLUME_FACTS, CLAIM_FACTS),
    resync=lambda options: options[PersistentVolumeBinderOptions].sync_period,
    options=PersistentVolumeBinderOptions,
    start_checks=(check_templates,),
    build=_build,
)
