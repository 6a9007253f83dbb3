"""Decisions of the attach/detach controller: detachments, progress of operations, reported volumes, event messages.

Source: kubernetes v1.36 pkg/controller/volume/attachdetach/reconciler/reconciler.go, pkg/volume/csi/csi_attacher.go,
pkg/volume/util/operationexecutor/operation_generator.go.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kcm.actors.controllers.storage.attach_detach.state import PodReference
from kcm.actors.controllers.storage.attach_detach.volume_specs import (
    CSI,
    FC,
    ISCSI,
    VolumeSpec,
    source_of,
    split_unique_name,
)
from kcm.protocols.csi import attachment_name, is_attached
from kcm.protocols.objects import Object, is_deleting

MAX_WAIT_FOR_UNMOUNT = 360.0  # seconds after which a volume is detached from a node that is not ready
NOT_ATTACHABLE = "plugin do not support attachment"  # the CSIDriver has changed


class Detachment(NamedTuple):
    """Decision about a volume that its node no longer needs.

    wait: seconds until it may be detached by force, infinite without a limit; 0.0 if it is detached now.
    reason: "" for a normal detachment, which checks that the node does not use the volume; "timeout" or
        "out-of-service" for a forced one.
    """

    wait: float = 0.0
    reason: str = ""


def decide_detachment(
    *, elapsed: float, in_use: bool, ready: bool, out_of_service: bool, force_on_timeout: bool
) -> Detachment:
    """Decide whether a volume is detached from its node, and whether by force.

    elapsed: seconds since the detachment was first requested.
    in_use: the kubelet uses the volume, or is assumed to.
    ready: the node's condition Ready is True; False if the node does not exist.
    out_of_service: the node has the taint out-of-service.
    force_on_timeout: not --disable-force-detach-on-timeout.

    Source: reconcile.
    """
    expired = elapsed > MAX_WAIT_FOR_UNMOUNT and force_on_timeout
    if in_use and not out_of_service and (ready or not expired):
        may_be_forced = force_on_timeout and not ready
        return Detachment(wait=MAX_WAIT_FOR_UNMOUNT - elapsed + 0.001 if may_be_forced else math.inf)
    if expired:
        return Detachment(reason="timeout")
    return Detachment(reason="out-of-service" if out_of_service else "")


class AttachmentProgress(NamedTuple):
    """Progress of an attachment or detachment. error: why the operation failed, or ""."""

    done: bool = False
    error: str = ""


def attach_progress(attachment: Mapping[str, Any] | None) -> AttachmentProgress:
    """Return the progress of an attachment.

    attachment: the VolumeAttachment; None if the created object is not in the table yet.

    Source: verifyAttachmentStatus.
    """
    if attachment is None:
        return AttachmentProgress()
    if is_deleting(attachment):
        return AttachmentProgress(error="volume attachment is being deleted")
    if is_attached(attachment):
        return AttachmentProgress(done=True)
    error = (attachment.get("status") or {}).get("attachError")
    return AttachmentProgress() if error is None else AttachmentProgress(error=error.get("message") or "")


def detach_progress(attachment: Mapping[str, Any] | None) -> AttachmentProgress:
    """Return the progress of a detachment. attachment: None if it was deleted. Source: verifyDetachmentStatus."""
    if attachment is None:
        return AttachmentProgress(done=True)
    error = (attachment.get("status") or {}).get("detachError")
    return AttachmentProgress() if error is None else AttachmentProgress(error=error.get("message") or "")


def volume_text(prefix: str, spec: VolumeSpec | None, suffix: str = "") -> str:
    """Return a message about a volume for an event. Source: generateVolumeMsg."""
    return f'{prefix} for volume "{"nil" if spec is None else spec.name}" {suffix}'


def conflict_texts(
    spec: VolumeSpec, scheduled: Iterable[PodReference], users: Iterable[PodReference]
) -> list[tuple[PodReference, str]]:
    """Return the message about a multi-attach error for each scheduled pod.

    users: pods on other nodes that use the volume.
    Messages do not name pods of other namespaces. Source: reportMultiAttachError.
    """
    users, texts = list(users), []
    for pod in scheduled:
        local = [user.name for user in users if user.namespace == pod.namespace]
        others = len(users) - len(local)
        if not users:
            text = "Volume is already exclusively attached to one node and can't be attached to another"
        elif local:
            text = f"Volume is already used by pod(s) {', '.join(local)}"
            text += f" and {others} pod(s) in different namespaces" if others else ""
        else:
            text = f"Volume is already used by {others} pod(s) in different namespaces"
        texts.append((pod, volume_text("Multi-Attach error", spec, text)))
    return texts


def status_with(
    node: Mapping[str, Any], volumes: Iterable[str], device_paths: Mapping[str, str], *, always: bool = False
) -> list[Object] | None:
    """Return volumesAttached of a node that reports these volumes; None if it reports exactly these already.

    always: return the list even if the node reports exactly these volumes.
    Volumes that the node reports already keep their order.
    """
    wanted = dict.fromkeys(volumes)
    before = (node.get("status") or {}).get("volumesAttached") or ()
    if not always and wanted.keys() == {volume.get("name") for volume in before} and len(wanted) == len(before):
        return None
    names = dict.fromkeys(name for volume in before if (name := volume.get("name")) in wanted) | wanted
    return [{"name": name, "devicePath": device_paths.get(name, "")} for name in names]


def new_attachment(name: str, node: str, spec: VolumeSpec) -> Object:
    """Return the VolumeAttachment for a CSI volume on a node."""
    source = {"persistentVolumeName": spec.name} if spec.inline is None else {"inlineVolumeSpec": spec.inline}
    return {"metadata": {"name": name}, "spec": {"attacher": spec.driver, "nodeName": node, "source": source}}


def attachment_of(volume: str, node: str) -> str | None:
    """Return the name of the VolumeAttachment of a volume on a node; None unless the volume is a CSI volume."""
    source = source_of(volume)
    return None if source is None else attachment_name(source, node)


def detach_problem(volume: str) -> str:
    """Return why a volume cannot be detached, or "". Source: GenerateDetachVolumeFunc."""
    names = split_unique_name(volume)
    if names is None:
        return f"cannot split volume unique name {volume} to plugin/volume components"
    if names.plugin not in (CSI, FC, ISCSI):
        return f"no volume plugin matched name: {names.plugin}"
    if names.plugin == CSI and source_of(volume) is None:
        return "volumeName missing expected data"
    return ""
