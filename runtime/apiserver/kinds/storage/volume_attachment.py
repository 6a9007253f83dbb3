"""VolumeAttachments (storage.k8s.io/v1): validation and table columns.

Source: kubernetes pkg/registry/storage/volumeattachment/strategy.go, pkg/printers/internalversion/printers.go
(printVolumeAttachment) (v1.36).
"""

from __future__ import annotations

from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, required
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer, boolean
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import age_cell, name_cell, part
from kcm.runtime.apiserver.rules.names import dns_subdomain
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE


def validate(attachment: Object) -> list[FieldError]:
    spec = attachment["spec"]
    attacher, node, source = spec.get("attacher") or "", spec.get("nodeName") or "", part(spec, "source")
    errors = [] if attacher else [required("spec.attacher")]
    if attacher:
        errors += [invalid("spec.attacher", attacher, text) for text in dns_subdomain(attacher.lower())]
    volume, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
    one_of = "exactly one of inlineVolumeSpec and persistentVolumeName"
    if volume is None and inline is None:
        errors.append(required("spec.source", f"must specify {one_of}"))
    elif volume is not None and inline is not None:
        errors.append(invalid("spec.source", source, f"must specify {one_of}"))
    elif volume is not None:
        if not volume:
            at = "spec.source.persistentVolumeName"
            errors.append(required(at, "must specify non empty persistentVolumeName"))
        errors += [invalid("spec.source.persistentVolumeName", volume, text) for text in dns_subdomain(volume)]
    return errors + [invalid("spec.nodeName", node, text) for text in dns_subdomain(node)]


def validate_update(new: Object, old: Object) -> list[FieldError]:
    if new["spec"] == old["spec"]:
        return []
    spec = new["spec"]
    source = part(spec, "source")
    named = (("PersistentVolumeName", "persistentVolumeName"), ("InlineVolumeSpec", "inlineVolumeSpec"))
    shown = {
        "Attacher": spec.get("attacher") or "",
        "Source": {name: source.get(field) for name, field in named},
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
