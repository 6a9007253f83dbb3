"""PersistentVolume protection controller: protects a volume from deletion while it is bound.

Input: volumes. Output: the finalizer kubernetes.io/pv-protection. It is added to each volume that is not being deleted,
and removed from a volume that is being deleted, once the volume is not bound. Key: name of a volume.

Source: kubernetes v1.36 pkg/controller/volume/pvprotection/pv_protection_controller.go.
"""

from __future__ import annotations

from kcm.actors.controllers.shared.protection_finalizers import (
    is_deletion_candidate,
    with_finalizer,
    without_finalizer,
)
from kcm.actors.reconciliation import Because, Interest, Reconciliation, Watch, itself, must, update
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.protocols.messages.outcomes import NotFound
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key
from kcm.protocols.resources import PERSISTENT_VOLUMES
from kcm.protocols.volumes import VOLUME_PROTECTION, phase_of
from kcm.runtime.tables.tables import Tables

SEEN = Interest(types=(EventType.ADDED, EventType.MODIFIED))


class VolumeProtection:
    """Reconciler of the protection finalizer of PersistentVolumes. Key: name of the volume."""

    def __init__(self, *, tables: Tables) -> None:
        self._volumes = tables[PERSISTENT_VOLUMES]

    def reconcile(self, key: Key) -> Reconciliation:
        """Add the protection finalizer to a volume, or remove it from an unbound volume that is being deleted.

        Source: processPV.
        """
        volume = self._volumes.get(key)
        if volume is None:
            return None
        changed = with_finalizer(volume, VOLUME_PROTECTION)
        if changed is not None:
            yield Because(f"lacks the finalizer {VOLUME_PROTECTION}: adds it")
        elif phase_of(volume) != "Bound":
            changed = without_finalizer(volume, VOLUME_PROTECTION)
            if changed is not None:
                yield Because(f"is not bound: removes its finalizer {VOLUME_PROTECTION}")
        elif is_deletion_candidate(volume, VOLUME_PROTECTION):
            yield Because(f"keeps the finalizer {VOLUME_PROTECTION}: it is bound")
        if changed is not None:
            yield from must(update(PERSISTENT_VOLUMES, changed), but=(NotFound,))
        return None


SPEC = ControllerSpec(
    name="persistentvolume-protection-controller",
    aliases=("pv-protection",),
    never_blocks=True,
    client="pv-protection-controller",
    queues=(
        Queue(
            "pvprotection", watches=(Watch(PERSISTENT_VOLUMES, to=itself, interest=SEEN),), concurrency=1, terminal=()
        ),
    ),
    build=lambda context: VolumeProtection(tables=context.tables),
)
