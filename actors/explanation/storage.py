"""Causes of PersistentVolumeClaims, PersistentVolumes and VolumeAttachments."""

from __future__ import annotations

from collections.abc import Iterator

from kcm.actors.controllers.storage.persistentvolume_binder.matching import mismatch
from kcm.actors.explanation.case import MOST_FOLLOWED, Case, condition_line, event_line
from kcm.actors.explanation.cause import Cause
from kcm.actors.explanation.evidence import event_time
from kcm.actors.explanation.nodes import node_trouble
from kcm.actors.explanation.placement import claims_of
from kcm.protocols import resources as r
from kcm.protocols.objects import Object, is_deleting, labels_of, name_of
from kcm.protocols.selectors import label_selector_of
from kcm.protocols.volumes import (
    FIRST_CONSUMER,
    PROVISIONER,
    attributes_class_of,
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
FILE_SYSTEM = "FileSystemResizePending"
NO_PROVISIONER = "kubernetes.io/no-provisioner"

# PersistentVolumeClaims.


def claim_pending(case: Case) -> str:
    phase = phase_of(case.obj)
    if phase != "Bound":
        return f"its phase is {phase or 'not set'}"
    status = resize_status_of(case.obj)
    if status.endswith("Infeasible"):
        return f"its expansion has the status {status}"
    if case.condition_is(FILE_SYSTEM, "True") is not None:
        return "its volume is expanded, its file system is not"
    target = _attributes_to_apply(case)
    return f"the VolumeAttributesClass {target} is not applied to it" if target else ""


def _attributes_to_apply(case: Case) -> str:
    """Return the VolumeAttributesClass that is being applied to a bound claim, or does not exist; "" for none."""
    modification = case.status.get("modifyVolumeStatus") or {}
    if modification:
        return str(modification.get("targetVolumeAttributesClassName") or attributes_class_of(case.obj))
    name = attributes_class_of(case.obj)
    if name and name != case.status.get("currentVolumeAttributesClassName"):
        return name if case.evidence.is_missing(r.VOLUME_ATTRIBUTES_CLASSES, name) else ""
    return ""


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
        yield from _file_system(case)
        yield from _attributes(case, _attributes_to_apply(case))
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


def _file_system(case: Case) -> Iterator[Cause]:
    """Yield why the file system of an expanded volume is still smaller: only the kubelet of a pod expands it."""
    condition = case.condition_is(FILE_SYSTEM, "True")
    if condition is None:
        return
    since = condition.get("lastTransitionTime")
    wanted = ((case.spec.get("resources") or {}).get("requests") or {}).get("storage")
    users = [pod for pod in case.evidence.list(r.PODS, case.namespace) if _uses(case, pod)]
    if not users:
        yield case.cause(
            "claim-waits-for-pod",
            f"its volume is expanded to {wanted}, and its file system will be when a pod mounts it: no pod uses it",
            condition_line(condition),
            since=since,
        )
        return
    found = [cause for pod in users[:MOST_FOLLOWED] for cause in case.follow(r.PODS, pod)]
    yield from found
    age = case.evidence.age(since)
    if not found and age is not None and age > SETTLING:
        yield case.cause(
            "volume-expansion",
            f"the kubelet of pod {name_of(users[0])} has not expanded its file system to {wanted}",
            condition_line(condition),
            event_line(case.event("FileSystemResizeFailed")),
            since=since,
        )


def _attributes(case: Case, name: str) -> Iterator[Cause]:
    """Yield why a VolumeAttributesClass is not applied. name: of the class, or "" for none."""
    if not name:
        return
    failed = case.event("VolumeModifyFailed")
    status = (case.status.get("modifyVolumeStatus") or {}).get("status")
    line = f"status.modifyVolumeStatus.status {status}" if status else ""
    if case.evidence.is_missing(r.VOLUME_ATTRIBUTES_CLASSES, name):
        yield case.cause(
            "volume-attributes", f"its VolumeAttributesClass {name} does not exist", line, event_line(failed)
        )
    elif failed is not None or status == "Infeasible":
        why = (failed or {}).get("message") or status
        yield case.cause(
            "volume-attributes", f"the VolumeAttributesClass {name} cannot be applied: {why}", line, event_line(failed)
        )


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
        yield f"persistentvolume {name_of(volume)}: {reason or _unselected(case, volume) or phase_of(volume)}"


def _unselected(case: Case, volume: Object) -> str:
    """Return that the selector of the claim does not match a volume, with the labels of both; "" if it does."""
    selector = label_selector_of(case.spec.get("selector") or {})
    labels = labels_of(volume)
    if selector.matches(labels):
        return ""
    has = ", ".join(f"{key}={value}" for key, value in sorted(labels.items())) or "no labels"
    return f"has {has}, and spec.selector requires {selector}"


def _of_class(case: Case) -> Iterator[Cause]:
    name = class_of(case.obj)
    class_ = case.evidence.get(r.STORAGE_CLASSES, name)
    failed = case.event("ProvisioningFailed")  # the binder repeats ExternalProvisioning, whatever the provisioner does
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
    waits, attributes = case.event("ExternalProvisioning"), attributes_class_of(case.obj)
    failed_at = (event_time(failed) or 0.0) if failed is not None else 0.0
    created_later = failed is not None and f'"{name}" not found' in str(failed.get("message"))  # the class, since then
    if failed is not None and not created_later and case.now - failed_at < RECENT:
        yield case.cause(
            "provisioning-failed",
            f"the provisioner {provisioner} cannot create its volume: {failed.get('message')}",
            event_line(failed),
            _source(case),
            since=case.created,
        )
    elif attributes and case.evidence.is_missing(r.VOLUME_ATTRIBUTES_CLASSES, attributes):
        yield from _attributes(case, attributes)
    elif case.created is not None and case.now - case.created > SETTLING:
        asked = (case.annotations.get(PROVISIONER) or "") == provisioner
        if asked:
            yield case.cause(
                "provisioner-silent",
                f"the provisioner {provisioner} of its class {name} has not created a volume",
                f"annotation {PROVISIONER}: {provisioner}",
                event_line(waits),
                _source(case),
                since=case.created,
            )


def _source(case: Case) -> str:
    """Return what the volume is to be filled from; "" for an empty volume."""
    source = case.spec.get("dataSourceRef") or case.spec.get("dataSource")
    return f"spec.dataSource {source.get('kind')} {source.get('name')}" if source else ""


def _selected_node(claim: Object) -> bool:
    annotations = (claim.get("metadata") or {}).get("annotations") or {}
    return "volume.kubernetes.io/selected-node" in annotations


def _without_consumer(case: Case) -> Iterator[Cause]:
    users = [pod for pod in case.evidence.list(r.PODS, case.namespace) if _uses(case, pod)]
    for pod in users[:MOST_FOLLOWED]:
        if node := (pod.get("spec") or {}).get("nodeName"):
            yield case.cause(
                "scheduler-bypassed",
                f"it waits until the scheduler places a pod that uses it, and pod {name_of(pod)} was not placed by the "
                f"scheduler: its spec.nodeName is {node}",
                f"volumeBindingMode WaitForFirstConsumer of storageclass {class_of(case.obj)}",
                event_line(case.event("WaitForFirstConsumer")),
                since=case.created,
            )
        else:
            yield from case.follow(r.PODS, pod)
    if users:
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
