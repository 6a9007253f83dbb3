"""Causes of PersistentVolumeClaims, PersistentVolumes, VolumeAttachments and ResourceClaims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kcm.actors.controllers.storage.persistentvolume_binder.matching import mismatch
from kcm.actors.explanation.case import MOST_FOLLOWED, Case, condition_line, event_line
from kcm.actors.explanation.cause import Cause
from kcm.actors.explanation.evidence import event_time
from kcm.actors.explanation.nodes import node_trouble
from kcm.actors.explanation.scheduling import claims_of, device_claims_of
from kcm.protocols import resources as r
from kcm.protocols.objects import Object, is_deleting, name_of
from kcm.protocols.volumes import (
    FIRST_CONSUMER,
    PROVISIONER,
    class_of,
    default_class,
    is_of,
    key_of_reference,
    names_class,
    phase_of,
    resize_status_of,
    volume_name_of,
)

SETTLING = 30.0  # seconds in which a provisioner or an attacher responds
RECENT = 900.0  # seconds in which a failure counts
NO_PROVISIONER = "kubernetes.io/no-provisioner"

# PersistentVolumeClaims.


def claim_pending(case: Case) -> str:
    phase = phase_of(case.obj)
    if phase != "Bound":
        return f"its phase is {phase or 'not set'}"
    status = resize_status_of(case.obj)
    return f"its expansion has the status {status}" if status.endswith("Infeasible") else ""


def claim_causes(case: Case) -> Iterator[Cause]:
    phase = phase_of(case.obj)
    if phase == "Bound":
        status = resize_status_of(case.obj)
        if status.endswith("Infeasible"):
            failed = case.event("VolumeResizeFailed", "FileSystemResizeFailed")
            yield case.cause(
                "volume-expansion",
                f"it cannot be expanded: {(failed or {}).get('message') or status}",
                f"status.allocatedResourceStatuses.storage {status}",
                event_line(failed),
            )
        return
    if phase == "Lost":
        lost = case.event("ClaimLost", "ClaimMisbound")
        name = volume_name_of(case.obj)
        yield case.cause(
            "volume-lost", f"its volume {name} does not exist, or belongs to another claim", event_line(lost)
        )
        return
    if volume_name_of(case.obj):
        yield from _named_volume(case, volume_name_of(case.obj))
        return
    if not class_of(case.obj):
        yield from _without_class(case)
        return
    yield from _of_class(case)


def _named_volume(case: Case, name: str) -> Iterator[Cause]:
    volume = case.evidence.get(r.PERSISTENT_VOLUMES, name)
    if volume is None:
        if case.evidence.is_missing(r.PERSISTENT_VOLUMES, name):
            yield case.cause("volume-missing", f"the volume {name} that it names does not exist", since=case.created)
        return
    reference = (volume.get("spec") or {}).get("claimRef")
    if reference and not is_of(volume, case.obj):
        other = key_of_reference(reference)
        phase, owner = phase_of(volume), f"the claim {other}"
        if other == case.key:
            owner = f"the earlier claim of the same name, which was deleted, and is {phase}"
        elif phase == "Released":
            owner = f"the claim {other}, which was deleted, and is {phase}"
        yield case.cause(
            "volume-taken",
            f"the volume {name} that it names belongs to {owner}",
            f"spec.claimRef of persistentvolume {name}: {other}, uid {reference.get('uid')}",
            since=case.created,
        )
    elif reason := mismatch(volume, case.obj):
        yield case.cause(
            "volume-mismatch",
            f"it cannot be bound to the volume {name}: {reason}",
            event_line(case.event("VolumeMismatch")),
            since=case.created,
        )


def _without_class(case: Case) -> Iterator[Cause]:
    if not names_class(case.obj) and default_class(case.evidence.list(r.STORAGE_CLASSES)) is not None:
        return  # the binder sets it
    reason = "it names no StorageClass" + ("" if names_class(case.obj) else ", and none is the default")
    yield case.cause(
        "claim-no-volume",
        f"no PersistentVolume matches it, and {reason}",
        *_mismatches(case),
        event_line(case.event("FailedBinding")),
        since=case.created,
    )


def _mismatches(case: Case) -> Iterator[str]:
    """Yield why volumes of the same class cannot be bound to the claim."""
    shown = 0
    for volume in case.evidence.list(r.PERSISTENT_VOLUMES):
        if class_of(volume) != class_of(case.obj) or shown >= MOST_FOLLOWED:
            continue
        reference = (volume.get("spec") or {}).get("claimRef")
        reason = f"belongs to {key_of_reference(reference)}" if reference else mismatch(volume, case.obj)
        shown += 1
        yield f"persistentvolume {name_of(volume)}: {reason or _unselected(case) or phase_of(volume)}"


def _unselected(case: Case) -> str:
    return "is not selected by spec.selector" if case.spec.get("selector") else ""


def _of_class(case: Case) -> Iterator[Cause]:
    name = class_of(case.obj)
    class_ = case.evidence.get(r.STORAGE_CLASSES, name)
    newest = case.event("ProvisioningFailed", "ExternalProvisioning")
    failed = newest if newest is not None and newest.get("reason") == "ProvisioningFailed" else None
    if class_ is None:
        if case.evidence.is_missing(r.STORAGE_CLASSES, name):
            yield case.cause(
                "storage-class-missing",
                f"its StorageClass {name} does not exist",
                *_mismatches(case),
                event_line(failed),
                since=case.created,
            )
        return
    provisioner = str(class_.get("provisioner") or "")
    if class_.get("volumeBindingMode") == FIRST_CONSUMER and not _selected_node(case.obj):
        yield from _without_consumer(case)
        return
    if provisioner == NO_PROVISIONER:
        yield case.cause(
            "claim-no-volume",
            f"no PersistentVolume of the class {name} matches it, and the class has no provisioner",
            *_mismatches(case),
            since=case.created,
        )
        return
    waits = case.event("ExternalProvisioning")
    failed_at = (event_time(failed) or 0.0) if failed is not None else 0.0
    created_later = failed is not None and f'"{name}" not found' in str(failed.get("message"))  # the class, since then
    if failed is not None and not created_later and case.now - failed_at < RECENT:
        yield case.cause(
            "provisioning-failed",
            f"the provisioner {provisioner} cannot create its volume: {failed.get('message')}",
            event_line(failed),
            since=case.created,
        )
    elif case.created is not None and case.now - case.created > SETTLING:
        asked = (case.annotations.get(PROVISIONER) or "") == provisioner
        if asked:
            yield case.cause(
                "provisioner-silent",
                f"the provisioner {provisioner} of its class {name} has not created a volume",
                f"annotation {PROVISIONER}: {provisioner}",
                event_line(waits),
                since=case.created,
            )


def _selected_node(claim: Object) -> bool:
    annotations = (claim.get("metadata") or {}).get("annotations") or {}
    return "volume.kubernetes.io/selected-node" in annotations


def _without_consumer(case: Case) -> Iterator[Cause]:
    users = [pod for pod in case.evidence.list(r.PODS, case.namespace) if _uses(case, pod)]
    if users:
        for pod in users[:MOST_FOLLOWED]:
            yield from case.follow(r.PODS, pod)
        return
    if not case.path:
        yield case.cause(
            "claim-waits-for-pod",
            "its volume is created or chosen when a pod uses it: volumeBindingMode WaitForFirstConsumer",
            event_line(case.event("WaitForFirstConsumer")),
            since=case.created,
        )


def _uses(case: Case, pod: Object) -> bool:
    return case.name in claims_of(_case_of(case, pod)) and not is_deleting(pod)


def _case_of(case: Case, pod: Object) -> Case:
    return Case(r.PODS, pod, case.evidence, lambda _: ())


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
            f"its claim {claim} was deleted, and the provisioner has not deleted the volume",
            event_line(failed),
            since=since,
        )


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


# ResourceClaims.


def device_claim_pending(case: Case) -> str:
    return "" if case.status.get("allocation") else "no devices are allocated to it"


def device_claim_causes(case: Case) -> Iterator[Cause]:
    if case.status.get("allocation"):
        return
    for name in dict.fromkeys(_classes(case.spec)):
        if case.evidence.is_missing(r.DEVICE_CLASSES, name):
            yield case.cause("device-class-missing", f"its DeviceClass {name} does not exist", since=case.created)
            return
    users = [pod for pod in case.evidence.list(r.PODS, case.namespace) if _uses_devices(case, pod)]
    for pod in users[:MOST_FOLLOWED]:
        yield from case.follow(r.PODS, pod)
    if not users and not case.path:
        yield case.cause(
            "device-claim-waits-for-pod", "its devices are allocated when a pod uses it", since=case.created
        )


def _classes(spec: Mapping[str, Any]) -> Iterator[str]:
    for request in (spec.get("devices") or {}).get("requests") or ():
        for part in (request.get("exactly") or {}, *(request.get("firstAvailable") or ())):
            if name := part.get("deviceClassName"):
                yield name


def _uses_devices(case: Case, pod: Object) -> bool:
    return case.name in device_claims_of(_case_of(case, pod)) and not is_deleting(pod)


def claims_from_templates(case: Case) -> Iterator[Cause]:
    """Yield why the ResourceClaims of a pod cannot be created from their templates."""
    statuses: Sequence[Mapping[str, Any]] = case.status.get("resourceClaimStatuses") or ()
    made = {status.get("name") for status in statuses}
    for claim in case.spec.get("resourceClaims") or ():
        template = claim.get("resourceClaimTemplateName")
        if template and claim.get("name") not in made:
            if case.evidence.is_missing(r.RESOURCE_CLAIM_TEMPLATES, f"{case.namespace}/{template}"):
                yield case.cause(
                    "device-template-missing",
                    f"its ResourceClaimTemplate {template} does not exist",
                    event_line(case.event("FailedResourceClaimCreation")),
                )
