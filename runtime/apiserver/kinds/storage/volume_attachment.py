"""VolumeAttachments (storage.k8s.io/v1): validation and table columns.

Source: kubernetes pkg/registry/storage/volumeattachment/strategy.go, pkg/printers/internalversion/printers.go
(printVolumeAttachment) (v1.36).
"""

from __future__ import annotations

from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid, required, too_long
from kcm.runtime.apiserver.kinds.pod_spec.persistent_volume_sources import wrong_driver_name, wrong_volume_spec
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer, boolean
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import age_cell, name_cell, part
from kcm.runtime.apiserver.rules.names import dns_subdomain
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE
from kcm.runtime.apiserver.schema.inner_forms import inner_form

_MOST_METADATA, _LONGEST_MESSAGE = 262_144, 1024  # bytes
_ERRORS = ("attachError", "detachError")


def validate(attachment: Object) -> list[FieldError]:
    spec = attachment["spec"]
    attacher, node, source = spec.get("attacher") or "", spec.get("nodeName") or "", part(spec, "source")
    errors = list(wrong_driver_name(attacher, "spec.attacher"))
    volume, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
    one_of = "exactly one of inlineVolumeSpec and persistentVolumeName"
    if volume is None and inline is None:
        errors.append(required("spec.source", f"must specify {one_of}"))
    elif volume is not None and inline is not None:
        errors.append(forbidden("spec.source", f"must specify {one_of}"))
    elif volume is not None:
        if not volume:
            at = "spec.source.persistentVolumeName"
            errors.append(required(at, "must specify non empty persistentVolumeName"))
        errors += [invalid("spec.source.persistentVolumeName", volume, text) for text in dns_subdomain(volume)]
    elif inline is not None:
        errors += wrong_volume_spec(inline, "spec.source.inlineVolumeSpec", inline=True)
    return errors + [invalid("spec.nodeName", node, text) for text in dns_subdomain(node)]


def prepare_for_status_update(new: Object, _old: Object) -> None:
    """Write the time of an error without one as null, as upstream encodes it."""
    for name in _ERRORS:
        error = part(new, "status").get(name)
        if error is not None:
            error.setdefault("time", None)


def validate_status_update(new: Object, _old: Object) -> list[FieldError]:
    status = part(new, "status")
    errors = []
    metadata = part(status, "attachmentMetadata")
    if sum(len(name.encode()) + len(value.encode()) for name, value in metadata.items()) > _MOST_METADATA:
        errors.append(too_long("status.attachmentMetadata", _MOST_METADATA))
    for name in _ERRORS:
        error = part(status, name)
        if len((error.get("message") or "").encode()) > _LONGEST_MESSAGE:
            errors.append(too_long(f"status.{name}.message", _MOST_METADATA))  # the wrong number, as upstream
        code = error.get("errorCode")
        if code is not None and code < 0:
            errors.append(invalid(f"status.{name}.errorCode", code, "must be between 0 and 2147483647, inclusive"))
    return errors


def validate_update(new: Object, old: Object) -> list[FieldError]:
    if new["spec"] == old["spec"]:
        return []
    spec = new["spec"]
    source = part(spec, "source")
    inline = inner_form(source.get("inlineVolumeSpec"), "*core.PersistentVolumeSpec")
    shown = {
        "Attacher": spec.get("attacher") or "",
        "Source": {"PersistentVolumeName": source.get("persistentVolumeName"), "InlineVolumeSpec": inline},
        "NodeName": spec.get("nodeName") or "",
    }
    return [invalid("spec", shown, IMMUTABLE)]


def cells(attachment: Object, now: float) -> list[Any]:
    spec = part(attachment, "spec")
    return [
        name_cell(attachment),
        spec.get("attacher") or "",
        part(spec, "source").get("persistentVolumeName") or "",
        spec.get("nodeName") or "",
        bool(part(attachment, "status").get("attached")),
        age_cell(attachment, now),
    ]


RESOURCE = ResourceDefinition(
    group="storage.k8s.io",
    version="v1",
    plural="volumeattachments",
    kind="VolumeAttachment",
    namespaced=False,
    subresources=("status",),
    strategy=Strategy(
        validate=validate,
        validate_update=validate_update,
        empty_status={"attached": False},
        status_update_keeps=("labels", "annotations", "finalizers", "ownerReferences"),
        prepare_for_status_update=prepare_for_status_update,
        validate_status_update=validate_status_update,
        validate_name=dns_subdomain,
        allow_unconditional_update=False,
        has_status=True,
        return_deleted_object=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Attacher", format="name"),
            Column("PV"),
            Column("Node"),
            boolean("Attached"),
            AGE,
        ),
        cells=cells,
    ),
)
