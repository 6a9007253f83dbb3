"""VolumeAttributesClass protection controller: protects a VolumeAttributesClass from deletion while it is in use.

Input: VolumeAttributesClasses, volumes, claims. Output: the finalizer kubernetes.io/vac-protection. It is added to each
class that is not being deleted. It is removed from a class that is being deleted, once no volume and no claim refers to
the class. Key: name of a class.

Source: kubernetes v1.36 pkg/controller/volume/vacprotection/vac_protection_controller.go. As upstream, if a claim is
created while its class is being deleted, the finalizer may be removed before the controller observes the claim.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kcm.actors.controllers.shared.protection_finalizers import (
    is_deletion_candidate,
    with_finalizer,
    without_finalizer,
)
from kcm.actors.reconciliation import Because, Change, Interest, Reconciliation, Watch, itself, must, update
from kcm.actors.reconciliation.specs import ControllerSpec, Index, Queue
from kcm.protocols.messages.outcomes import NotFound
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, is_deleting
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, VOLUME_ATTRIBUTES_CLASSES
from kcm.protocols.volumes import ATTRIBUTES_CLASS_PROTECTION, attributes_class_of
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

SEEN = Interest(types=(EventType.ADDED, EventType.MODIFIED))
CLASSES = "attributes classes"


def classes_of(obj: Mapping[str, Any]) -> set[Key]:
    """Return the names of the VolumeAttributesClasses that a volume or claim refers to.

    These are the class in its spec, the current class in its status, and the target of a modification in progress.
    """
    status = obj.get("status") or {}
    names = {
        attributes_class_of(obj),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    }
    return {name for name in names if name}


def classes_left_by(change: Change, _tables: Tables) -> Iterator[Key]:
    """Enqueue the VolumeAttributesClasses that a volume or claim does not refer to any more after this change."""
    if change.deleted:
        yield from sorted(classes_of(change.new))
    elif change.old is not None:
        yield from sorted(classes_of(change.old) - classes_of(change.new))


class AttributesClassProtection:
    """Reconciler of the protection finalizer of VolumeAttributesClasses. Key: name of the class."""

    def __init__(self, *, tables: Tables, log: FilteringBoundLogger) -> None:
        self._classes = tables[VOLUME_ATTRIBUTES_CLASSES]
        self._users = (tables[PERSISTENT_VOLUMES], tables[PERSISTENT_VOLUME_CLAIMS])
        self._log = log

    def reconcile(self, key: Key) -> Reconciliation:
        """Add the protection finalizer to a VolumeAttributesClass, or remove it if the class can be deleted.

        Source: processVAC.
        """
        found = self._classes.get(key)
        if found is None:
            return None
        changed = with_finalizer(found, ATTRIBUTES_CLASS_PROTECTION)
        if changed is None and is_deletion_candidate(found, ATTRIBUTES_CLASS_PROTECTION):
            if any(any(True for _ in users.indexed(CLASSES, key)) for users in self._users):
                yield Because(f"keeps the finalizer {ATTRIBUTES_CLASS_PROTECTION}: volumes or claims refer to it")
                self._log.debug("class is still in use, keeping its finalizer", key=key)
                return None
            changed = without_finalizer(found, ATTRIBUTES_CLASS_PROTECTION)
        if changed is not None:
            unused = is_deleting(found)
            yield Because(
                f"{'is unused: removes' if unused else 'is not protected: adds'} {ATTRIBUTES_CLASS_PROTECTION}"
            )
            yield from must(update(VOLUME_ATTRIBUTES_CLASSES, changed), but=(NotFound,))
        return None


SPEC = ControllerSpec(
    name="volumeattributesclass-protection-controller",
    never_blocks=True,
    client="volumeattributesclass-protection-controller",
    queues=(
        Queue(
            "vacprotection",
            watches=(
                Watch(VOLUME_ATTRIBUTES_CLASSES, to=itself, interest=SEEN),
                Watch(PERSISTENT_VOLUMES, to=classes_left_by),
                Watch(PERSISTENT_VOLUME_CLAIMS, to=classes_left_by),
            ),
            concurrency=1,
            terminal=(),
        ),
    ),
    indexes=(Index(PERSISTENT_VOLUMES, CLASSES, classes_of), Index(PERSISTENT_VOLUME_CLAIMS, CLASSES, classes_of)),
    build=lambda context: AttributesClassProtection(tables=context.tables, log=context.log),
)
