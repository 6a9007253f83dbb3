"""Hollow attacher: attaches and detaches volumes of hollow nodes, in appearance, as an external attacher does.

At the start it creates the CSIDriver of the hollow driver. It acknowledges the VolumeAttachments of this driver, and of
the drivers that a hollow node registers by annotation. Keys: the name of a VolumeAttachment; a volume's name.

Source: kubernetes-csi/external-attacher pkg/controller/{controller,csi_handler}.go. Differs: an attachment to a second
node of a volume that only one node may use, and one beyond the node's limit, fail here, as they fail at a cloud.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kcm.actors.hollow import behaviour
from kcm.actors.hollow.intervals import MANY, look_again
from kcm.actors.reconciliation import (
    Because,
    Change,
    Index,
    Reconciliation,
    RequeueAfter,
    Step,
    Watch,
    create,
    delete,
    itself,
    must,
    patch,
    record,
)
from kcm.actors.reconciliation.object_steps import ensure_finalizer, remove_finalizer
from kcm.actors.reconciliation.specs import ControllerSpec, Pass, Queue
from kcm.protocols.csi import ATTACHER, attached_volume, csi_source, finalizer_of, is_attached, is_single_node
from kcm.protocols.hollow_nodes import is_hollow
from kcm.protocols.messages.outcomes import AlreadyExists, Conflict, NotFound
from kcm.protocols.objects import (
    Key,
    Object,
    annotations_of,
    finalizers_of,
    is_deleting,
    name_of,
    resource_version_of,
    uid_of,
)
from kcm.protocols.resources import CSI_DRIVERS, NODES, PERSISTENT_VOLUMES, VOLUME_ATTACHMENTS
from kcm.protocols.times import format_time
from kcm.runtime.scheduling.backoff import Backoff
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.tables import Tables

BACKOFF = Backoff(first=0.5, most=300.0)  # Source: the default flags of external-attacher
RESOURCE_EXHAUSTED = 8  # gRPC code
VOLUME, ON_NODE = "volume", "node"


class FailedCall(NamedTuple):
    """Reason why a volume cannot be attached or detached. code: gRPC code, if the driver returned one."""

    message: str
    code: int | None = None


class _Attempt(NamedTuple):
    """Progress of attaching or detaching the volume of one VolumeAttachment.

    uid: uid of the VolumeAttachment.
    detaches: whether the volume is detached; otherwise it is attached.
    since: Unix seconds at which this work began.
    failures: number of failed calls of the driver.
    until: Unix seconds before which the driver is not called again.
    """

    uid: str
    detaches: bool
    since: float
    failures: int = 0
    until: float = 0.0


def csi_driver(*, attach: bool) -> Object:
    """Build the CSIDriver of the hollow driver. attach: whether its volumes must be attached."""
    return {"metadata": {"name": behaviour.DRIVER}, "spec": {"attachRequired": attach, "podInfoOnMount": False}}


def spec_of(attachment: Mapping[str, Any]) -> tuple[str, str]:
    """Return the driver and the node of a VolumeAttachment."""
    spec = attachment.get("spec") or {}
    return spec.get("attacher") or "", spec.get("nodeName") or ""


def attach_failure(
    attachment: Object, volume: Object | None, node: Object | None, others: Iterable[Object]
) -> FailedCall | None:
    """Return why a volume cannot be attached now, or None.

    others: VolumeAttachments of the same volume or node whose volume is attached, or may be.
    """
    driver, node_name = spec_of(attachment)
    named = attached_volume(attachment)
    if named and volume is None:
        return FailedCall(f'could not get PersistentVolume: persistentvolume "{named}" not found')
    if volume is not None and is_deleting(volume):
        return FailedCall(f'PersistentVolume "{named}" is marked for deletion')
    if node is None:
        return FailedCall(f'csinode.storage.k8s.io "{node_name}" not found')
    if not behaviour.has_csi_driver(node, driver):
        return FailedCall(f"CSINode {node_name} does not contain driver {driver}")
    if text := behaviour.first_text(behaviour.ATTACH_ERROR, volume, node):
        return FailedCall(f"rpc error: code = Internal desc = {text}")
    count = 0
    for other in others:
        other_driver, where = spec_of(other)
        if other_driver != driver or name_of(other) == name_of(attachment):
            continue
        count += where == node_name
        if where != node_name and named == attached_volume(other) and volume is not None and is_single_node(volume):
            return FailedCall(f"rpc error: code = FailedPrecondition desc = volume {named} is attached to node {where}")
    limit = next(known.limit for known in behaviour.csi_drivers(node) if known.name == driver)
    if limit is not None and count >= limit:
        why = f"node {node_name} has {count} of at most {limit} volumes attached"
        return FailedCall(f"rpc error: code = ResourceExhausted desc = {why}", RESOURCE_EXHAUSTED)
    return None


class HollowAttacher:
    """External attacher of the hollow cluster. It remembers when it began to attach or detach each volume."""

    def __init__(self, *, tables: Tables, clock: Clock, attach: bool) -> None:
        """Initialise the attacher. attach: whether volumes of the hollow driver must be attached."""
        self._attachments, self._volumes = tables[VOLUME_ATTACHMENTS], tables[PERSISTENT_VOLUMES]
        self._nodes, self._drivers = tables[NODES], tables[CSI_DRIVERS]
        self._clock, self._attach = clock, attach
        self._attempts: dict[Key, _Attempt] = {}
        self._reported: dict[Key, tuple[str, ...]] = {}  # by volume, messages about its invalid annotations

    def make_driver(self) -> Reconciliation:
        """Create the CSIDriver, once at the start. Replace it if its immutable field attachRequired is different."""
        wanted = csi_driver(attach=self._attach)
        present = self._drivers.get(behaviour.DRIVER)
        if present is not None and (present.get("spec") or {}).get("attachRequired") is not self._attach:
            yield from must(delete(CSI_DRIVERS, present, depends_on=()), but=(NotFound, Conflict))
            present = None
        if present is None:
            yield from must(create(CSI_DRIVERS, wanted), but=(AlreadyExists,))
        return None

    # Queue of VolumeAttachments.

    def reconcile(self, key: Key) -> Reconciliation:
        attachment = self._attachments.get(key)
        if attachment is None:
            self._attempts.pop(key, None)
            return None
        driver, node_name = spec_of(attachment)
        finalizer = finalizer_of(driver)
        node = self._nodes.get(node_name)
        if not (driver == behaviour.DRIVER or _serves(node, driver) or finalizer in finalizers_of(attachment)):
            yield Because(f"is left to another attacher: node {node_name} does not register driver {driver}")
            return None
        detaches = is_deleting(attachment)
        if (detaches and finalizer not in finalizers_of(attachment)) or (not detaches and is_attached(attachment)):
            self._attempts.pop(key, None)
            return None
        now = self._clock.now()
        attempt = self._attempts.get(key)
        if attempt is None or (attempt.uid, attempt.detaches) != (uid_of(attachment), detaches):
            attempt = self._attempts[key] = _Attempt(uid_of(attachment), detaches, now)
        volume = self._volumes.get(attached_volume(attachment)) if attached_volume(attachment) else None
        if not detaches:
            attachment = yield from self._protect(attachment, volume, node_name, finalizer)
        seconds = behaviour.DETACH_SECONDS if detaches else behaviour.ATTACH_SECONDS
        due = max(attempt.until, attempt.since + behaviour.longest(seconds, volume, node))
        if now < due:
            again = f" again after {attempt.failures} failed calls" if attempt.failures else ""
            yield Because(f"{'detaches' if detaches else 'attaches'} it{again} in {due - now:.0f} s")
            return look_again(due=due, now=now)
        failed = self._detach_failure(volume, node) if detaches else self._attach_failure(attachment, volume, node)
        if failed is not None:
            return (yield from self._refuse(key, attachment, attempt, failed, now))
        if detaches:
            status: Object = {"attached": False, "detachError": None, "attachmentMetadata": None}
            yield Because(f"is deleted: detaches it from node {node_name}")
            yield from self._write(attachment, status)
            yield from remove_finalizer(self._attachments, attachment, finalizer)
        else:
            yield Because(f"attaches it to node {node_name}")
            yield from self._write(attachment, {"attached": True, "attachError": None})
        self._attempts.pop(key, None)
        return None

    def _protect(self, attachment: Object, volume: Object | None, node: str, finalizer: str) -> Step[Object]:
        """Add the finalizers to the volume and its VolumeAttachment, and the ID of the node."""
        if volume is not None and not is_deleting(volume):
            yield from ensure_finalizer(self._volumes, volume, finalizer)
        if finalizer in finalizers_of(attachment) and annotations_of(attachment).get(ATTACHER) == node:
            return attachment
        names = [*dict.fromkeys((*finalizers_of(attachment), finalizer))]
        meta = {
            "resourceVersion": resource_version_of(attachment),
            "finalizers": names,
            "annotations": {ATTACHER: node},
        }
        yield from must(patch(VOLUME_ATTACHMENTS, name_of(attachment), {"metadata": meta}))
        return self._attachments.get(name_of(attachment)) or attachment

    def _attach_failure(self, attachment: Object, volume: Object | None, node: Object | None) -> FailedCall | None:
        named, (_, node_name) = attached_volume(attachment), spec_of(attachment)
        found = (
            *(self._attachments.indexed(VOLUME, named) if named else ()),
            *self._attachments.indexed(ON_NODE, node_name),
        )
        others = {name_of(other): other for other in found if is_attached(other)}
        return attach_failure(attachment, volume, node, others.values())

    @staticmethod
    def _detach_failure(volume: Object | None, node: Object | None) -> FailedCall | None:
        text = behaviour.first_text(behaviour.DETACH_ERROR, volume, node)
        return FailedCall(f"rpc error: code = Internal desc = {text}") if text else None

    def _refuse(
        self, key: Key, attachment: Object, attempt: _Attempt, failed: FailedCall, now: float
    ) -> Step[RequeueAfter]:
        """Write the error, unless it is written already, and retry with backoff."""
        delay = BACKOFF.delay(attempt.failures)
        yield Because(
            f"cannot {'detach' if attempt.detaches else 'attach'} it: {failed.message}; again in {delay:.0f} s"
        )
        field = "detachError" if attempt.detaches else "attachError"
        known = (attachment.get("status") or {}).get(field) or {}
        if (known.get("message"), known.get("errorCode")) != (failed.message, failed.code):
            error: Object = {"message": failed.message, "time": format_time(now)}
            if failed.code is not None:
                error["errorCode"] = failed.code
            yield from self._write(attachment, {field: error})
        until = now + delay
        self._attempts[key] = attempt._replace(failures=attempt.failures + 1, until=until)
        return look_again(due=until, now=now)

    def _write(self, attachment: Object, status: Mapping[str, Any]) -> Step[None]:
        body = {"metadata": {"uid": uid_of(attachment)}, "status": status}
        put = patch(VOLUME_ATTACHMENTS, name_of(attachment), body, subresource="status")
        yield from must(put, but=(NotFound, Conflict))

    # Queue of volumes.

    def release(self, key: Key) -> Reconciliation:
        """Remove the finalizer of a deleted volume that has no VolumeAttachment. Report its invalid annotations."""
        volume = self._volumes.get(key)
        known = self._reported.pop(key, ())
        if volume is not None and (messages := behaviour.invalid_volume_annotations(volume)):
            self._reported[key] = messages
            for message in messages:
                if message not in known:
                    yield record(PERSISTENT_VOLUMES, volume, "Warning", "InvalidAnnotation", message)
        source = None if volume is None else csi_source(volume)
        if volume is None or source is None or not is_deleting(volume):
            return None
        attached = self._attachments.indexed(VOLUME, key)
        if attached:
            yield Because(
                f"keeps the finalizer {finalizer_of(source.driver)}: {len(attached)} VolumeAttachments name it"
            )
            return None
        yield from remove_finalizer(self._volumes, volume, finalizer_of(source.driver))
        return None


def _serves(node: Object | None, driver: str) -> bool:
    """Report whether a node is hollow and registers the driver."""
    return node is not None and is_hollow(node) and behaviour.has_csi_driver(node, driver)


def _volume_of(attachment: Object) -> Iterable[str]:
    name = attached_volume(attachment)
    return (name,) if name else ()


def _node_of(attachment: Object) -> Iterable[str]:
    return (spec_of(attachment)[1],)


def _of_volume(change: Change, tables: Tables) -> Iterable[Key]:
    return [entry.key for entry in tables[VOLUME_ATTACHMENTS].indexed_entries(VOLUME, change.key)]


def _of_node(change: Change, tables: Tables) -> Iterable[Key]:
    """Return the VolumeAttachments of a node whose annotations have changed."""
    old = change.old
    if old is not None and not change.deleted and annotations_of(old) == annotations_of(change.new):
        return ()
    return [entry.key for entry in tables[VOLUME_ATTACHMENTS].indexed_entries(ON_NODE, change.key)]


def volume_of_attachment(change: Change, _tables: Tables) -> Iterable[Key]:
    name = attached_volume(change.new)
    return (name,) if name and change.deleted else ()


ATTACHMENTS_BY_VOLUME = Index(VOLUME_ATTACHMENTS, VOLUME, _volume_of)
ATTACHMENTS_BY_NODE = Index(VOLUME_ATTACHMENTS, ON_NODE, _node_of)


def attacher_spec(*, attach: bool) -> ControllerSpec:
    """Return the spec of the hollow attacher. attach: whether volumes of the hollow driver must be attached."""
    return ControllerSpec(
        name="hollow-attacher-controller",
        never_blocks=True,
        client="hollow-attacher",
        component=behaviour.DRIVER,
        queues=(
            Queue(
                "hollow-attachments",
                watches=(
                    Watch(VOLUME_ATTACHMENTS, to=itself),
                    Watch(PERSISTENT_VOLUMES, to=_of_volume),
                    Watch(NODES, to=_of_node),
                ),
                reconcile=HollowAttacher.reconcile,
                concurrency=MANY,
                terminal=(),
            ),
            Queue(
                "hollow-attached-volumes",
                watches=(
                    Watch(PERSISTENT_VOLUMES, to=itself),
                    Watch(VOLUME_ATTACHMENTS, to=volume_of_attachment),
                ),
                reconcile=HollowAttacher.release,
                concurrency=MANY,
                terminal=(),
            ),
        ),
        reads=(CSI_DRIVERS,),
        passes=(Pass("driver", every=math.inf, run=HollowAttacher.make_driver),),
        indexes=(ATTACHMENTS_BY_VOLUME, ATTACHMENTS_BY_NODE),
        build=lambda context: HollowAttacher(tables=context.tables, clock=context.clock, attach=attach),
    )
