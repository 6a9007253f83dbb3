"""Causes of PersistentVolumes and VolumeAttachments."""

from __future__ import annotations

from collections.abc import Iterator

from kcm.actors.explanation.case import Case, condition_line, event_line
from kcm.actors.explanation.cause import Cause
from kcm.actors.explanation.nodes import node_trouble
from kcm.actors.explanation.placement import claims_of
from kcm.protocols import resources as r
from kcm.protocols.volumes import key_of_reference, phase_of, volume_name_of

SETTLING = 30.0  # seconds in which a provisioner or an attacher responds

# PersistentVolumes.


def volume_pending(case: Case) -> str:
    phase = phase_of(case.obj)
    return f"its phase is {phase}" if phase in ("Failed", "Released", "Pending") else ""


def volume_causes(case: Case) -> Iterator[Cause]:
    phase, policy = phase_of(case.obj), case.spec.get("persistentVolumeReclaimPolicy") or "Retain"
    claim = key_of_reference(case.spec.get("claimRef") or {})
    since = case.status.get("lastPhaseTransitionTime")
    failed = case.event("VolumeFailedDelete", "VolumeFailedRecycle")
    if phase == "Failed":
        why = case.status.get("message") or (failed or {}).get("message")
        yield case.cause("volume-failed", f"the volume has failed: {why}", event_line(failed), since=since)
    elif phase == "Released" and policy == "Retain":
        yield case.cause(
            "volume-released",
            f"its claim {claim} was deleted, and it is kept (Retain) until spec.claimRef is removed",
            f"status.phase {phase}",
            since=since,
        )
    elif phase == "Released" and (age := case.evidence.age(since)) is not None and age > SETTLING:
        yield case.cause(
            "volume-not-deleted",
            f"its claim {claim} was deleted, and the provisioner {_deleter(case)} has not deleted the volume",
            event_line(failed),
            since=since,
        )


def _deleter(case: Case) -> str:
    """Return the name of the provisioner that must delete a volume."""
    driver = (case.spec.get("csi") or {}).get("driver")
    return str(case.annotations.get("pv.kubernetes.io/provisioned-by") or driver or "of its class")


# VolumeAttachments.


def attachment_pending(case: Case) -> str:
    return "" if case.status.get("attached") else "the volume is not attached"


def attachment_causes(case: Case) -> Iterator[Cause]:
    if case.status.get("attached"):
        return
    error = case.status.get("attachError") or {}
    driver, node = case.spec.get("attacher"), case.spec.get("nodeName")
    volume = (case.spec.get("source") or {}).get("persistentVolumeName") or "of a pod"
    if error:
        yield case.cause(
            "volume-attach",
            f"{driver} cannot attach volume {volume} to {node}: {error.get('message')}",
            f"status.attachError: {error.get('message')}",
            since=error.get("time"),
        )
    elif case.created is not None and case.now - case.created > SETTLING:
        yield case.cause("attacher-silent", f"{driver} has not attached volume {volume} to {node}", since=case.created)


def attachments_of(case: Case) -> Iterator[Cause]:
    """Yield the causes of the attachments of the volumes that a pod waits for, also those to lost nodes."""
    volumes = set()
    for name in claims_of(case):
        claim = case.evidence.get(r.PERSISTENT_VOLUME_CLAIMS, f"{case.namespace}/{name}")
        if claim is not None and volume_name_of(claim):
            volumes.add(volume_name_of(claim))
    if not volumes:
        return
    for attachment in case.evidence.list(r.VOLUME_ATTACHMENTS):
        spec = attachment.get("spec") or {}
        volume = (spec.get("source") or {}).get("persistentVolumeName")
        if volume in volumes:
            yield from _attached_elsewhere(case, volume, spec.get("nodeName") or "")
            yield from case.follow(r.VOLUME_ATTACHMENTS, attachment)


def _attached_elsewhere(case: Case, volume: str, holder: str) -> Iterator[Cause]:
    """Yield the trouble of another node to which the volume is attached, if it has any."""
    node = case.evidence.get(r.NODES, holder) if holder != case.spec.get("nodeName") else None
    trouble = node_trouble(node) if node is not None else None
    if trouble is not None:
        code, text, condition = trouble
        yield case.cause(
            code,
            f"volume {volume} is attached to node {holder}, which {text}",
            condition_line(condition),
            since=(condition or {}).get("lastTransitionTime"),
            about=f"node {holder}",
            commands=(f"kubectl describe node {holder}", "kubectl get volumeattachments"),
        )
