"""Causes of PersistentVolumeClaims."""

from __future__ import annotations

from collections.abc import Iterator

from kcm.actors.controllers.storage.persistentvolume_binder.matching import mismatch
from kcm.actors.explanation.case import MOST_FOLLOWED, Case, condition_line, event_line
from kcm.actors.explanation.cause import Cause
from kcm.actors.explanation.evidence import event_time
from kcm.actors.explanation.placement import claims_of
from kcm.protocols import resources as r
from kcm.protocols.objects import Object, is_deleting, labels_of, name_of
from kcm.protocols.selectors import label_selector_of
from kcm.protocols.volumes import (
    FIRST_CONSUMER,
    PROVISIONER,
    attributes_class_of,
    capacity_of_claim,
    capacity_of_volume,
    class_of,
    default_class,
    is_of,
    key_of_reference,
    names_class,
    phase_of,
    requested_storage,
    resize_status_of,
    volume_name_of,
)

SETTLING = 30.0  # seconds in which a provisioner responds
RECENT = 900.0  # seconds in which a failure counts
FILE_SYSTEM = "FileSystemResizePending"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


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
                f"it cannot be expanded from {capacity_of_claim(case.obj)} to {requested_storage(case.obj)}: "
                f"{(failed or {}).get('message') or status}",
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
            f"it cannot be bound to the volume {name} ({_offered(volume)}): {reason}; it requests "
            f"{_requested(case.obj)}",
            event_line(case.event("VolumeMismatch")),
            since=case.created,
        )


def _without_class(case: Case) -> Iterator[Cause]:
    if not names_class(case.obj) and default_class(case.evidence.list(r.STORAGE_CLASSES)) is not None:
        return  # the binder sets it
    reason = "it names no StorageClass" + ("" if names_class(case.obj) else ", and none is the default")
    yield case.cause(
        "claim-no-volume",
        f"no PersistentVolume matches it ({_requested(case.obj)}), and {reason}",
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
        reason = reason or _unselected(case, volume) or phase_of(volume)
        shown += 1
        yield f"persistentvolume {name_of(volume)} ({_offered(volume)}): {reason}"


def _requested(claim: Object) -> str:
    """Return the size and the access modes that a claim requests."""
    modes = ", ".join((claim.get("spec") or {}).get("accessModes") or ())
    return f"{requested_storage(claim)}, {modes}"


def _offered(volume: Object) -> str:
    modes = ", ".join((volume.get("spec") or {}).get("accessModes") or ())
    return f"{capacity_of_volume(volume)}, {modes}"


def unmatched_claims(case: Case) -> Iterator[str]:
    """Yield what the claims of a pod without a volume request, and why volumes do not match them."""
    for name in claims_of(case):
        claim = case.evidence.get(r.PERSISTENT_VOLUME_CLAIMS, f"{case.namespace}/{name}")
        if claim is not None and not volume_name_of(claim):
            yield f"persistentvolumeclaim {name} requests {_requested(claim)} of class {class_of(claim) or 'none'}"
            yield from _mismatches(Case(r.PERSISTENT_VOLUME_CLAIMS, claim, case.evidence, lambda _: ()))


def _classes(case: Case) -> str:
    """Return the names of the StorageClasses, of which a claim could name one."""
    names = [name_of(found) for found in case.evidence.list(r.STORAGE_CLASSES)]
    return f"StorageClasses: {', '.join(names[:MOST_FOLLOWED]) or 'none'}" + (
        " and more" if names[MOST_FOLLOWED:] else ""
    )


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
                _classes(case),
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
            f"no PersistentVolume of the class {name} matches it ({_requested(case.obj)}), and the class has no "
            "provisioner",
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
            "its volume is created or chosen when a pod uses it: volumeBindingMode WaitForFirstConsumer of "
            f"storageclass {class_of(case.obj)}",
            event_line(case.event("WaitForFirstConsumer")),
            since=case.created,
        )


def _uses(case: Case, pod: Object) -> bool:
    return case.name in claims_of(_case_of(case, pod)) and not is_deleting(pod)


def _case_of(case: Case, pod: Object) -> Case:
    return Case(r.PODS, pod, case.evidence, lambda _: ())
