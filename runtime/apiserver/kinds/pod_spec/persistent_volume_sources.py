"""Validation of the spec of PersistentVolumes, which inline volumes of VolumeAttachments have too.

Source: kubernetes pkg/apis/core/validation/validation.go, ValidatePersistentVolumeSpec (v1.36). Difference: only the
sources hostPath, nfs, fc, local and csi are validated in detail.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kcm.protocols.quantities import parse_quantity
from kcm.runtime.apiserver.errors.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from kcm.runtime.apiserver.kinds.pod_spec.persistent_volumes import VOLUME_MODES, wrong_access_modes
from kcm.runtime.apiserver.kinds.pod_spec.scheduling import wrong_node_selector
from kcm.runtime.apiserver.kinds.pod_spec.volumes import parent_steps, wrong_fibre_channel, wrong_host_path, wrong_nfs
from kcm.runtime.apiserver.rules.names import dns_label, dns_subdomain

# In upstream's order of validation.
SOURCES = (
    *("hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte"),
    *("cephfs", "iscsi", "cinder", "fc", "flexVolume", "azureFile", "vsphereVolume", "photonPersistentDisk"),
    *("portworxVolume", "azureDisk", "scaleIO", "local", "storageos", "csi"),
)
_RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
_LONGEST_DRIVER = 63
_SECRETS = (
    *("controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"),
)

Part = Mapping[str, Any]


def source_of(spec: Part) -> dict[str, Any]:
    return {name: spec[name] for name in SOURCES if spec.get(name) is not None}


def wrong_volume_spec(spec: Part, field: str, *, inline: bool = False) -> Iterator[FieldError]:
    """Validate the spec of a volume. inline: it is part of a VolumeAttachment, and must be that of a CSI volume."""
    if inline:
        yield from _wrong_inline_spec(spec, field)
    modes = spec.get("accessModes") or ()
    if not modes:
        yield required(f"{field}.accessModes")
    yield from wrong_access_modes(modes, f"{field}.accessModes")
    if not inline:
        yield from _wrong_capacity(spec.get("capacity") or {}, f"{field}.capacity")
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy and not inline and policy not in _RECLAIM_POLICIES:
        yield not_supported(f"{field}.persistentVolumeReclaimPolicy", policy, _RECLAIM_POLICIES)
    affinity = spec.get("nodeAffinity")
    if affinity is not None and not inline:
        if affinity.get("required") is None:
            yield required(f"{field}.nodeAffinity.required", "must specify required node constraints")
        else:
            yield from wrong_node_selector(affinity["required"], f"{field}.nodeAffinity.required")
    yield from wrong_volume_source(spec, field)
    path = (spec.get("hostPath") or {}).get("path")
    if path and posixpath.normpath(path) == "/" and policy == "Recycle":
        detail = "may not be 'recycle' for a hostPath mount of '/'"
        yield forbidden(f"{field}.persistentVolumeReclaimPolicy", detail)
    if (class_ := spec.get("storageClassName")) and not inline:
        yield from (invalid(f"{field}.storageClassName", class_, text) for text in dns_subdomain(class_))
    mode = spec.get("volumeMode")
    if mode is not None and not inline and mode not in VOLUME_MODES:
        yield not_supported(f"{field}.volumeMode", mode, VOLUME_MODES)
    yield from _wrong_attributes_class(spec, field)


def _wrong_capacity(capacity: Part, field: str) -> Iterator[FieldError]:
    if not capacity:
        yield required(field)
    if capacity.keys() != {"storage"}:
        yield not_supported(field, dict(sorted(capacity.items())) or None, ("storage",))
    for name, amount in capacity.items():
        size = parse_quantity(amount)
        if size < 0:
            yield invalid(f"{field}[{name}]", int(size), "must be a valid resource quantity")
        if size <= 0:
            yield invalid(f"{field}[{name}]", amount, "must be greater than zero")


def _wrong_attributes_class(spec: Part, field: str) -> Iterator[FieldError]:
    name, at = spec.get("volumeAttributesClassName"), f"{field}.volumeAttributesClassName"
    if name is None:
        return
    if not name:
        yield required(at, "an empty string is disallowed")
    else:
        yield from (invalid(at, name, text) for text in dns_subdomain(name))
    if spec.get("csi") is None:
        yield required(f"{field}.csi", "has to be specified when using volumeAttributesClassName")


def _wrong_inline_spec(spec: Part, field: str) -> Iterator[FieldError]:
    inline = "in the context of inline volumes"
    for name in ("claimRef", "capacity", "nodeAffinity", "storageClassName"):
        if spec.get(name):
            yield forbidden(f"{field}.{name}", f"may not be specified {inline}")
    if spec.get("nodeAffinity") == {}:
        yield forbidden(f"{field}.nodeAffinity", f"may not be specified {inline}")
    if spec.get("csi") is None:
        yield required(f"{field}.csi", f"has to be specified {inline}")
    if (spec.get("persistentVolumeReclaimPolicy") or "Retain") != "Retain":
        yield forbidden(f"{field}.persistentVolumeReclaimPolicy", f"may only be Retain {inline}")
    if (spec.get("volumeMode") or "Filesystem") != "Filesystem":
        yield forbidden(f"{field}.volumeMode", f"may not specify volumeMode other than Filesystem {inline}")


def wrong_volume_source(spec: Part, field: str) -> Iterator[FieldError]:
    given = source_of(spec)
    for i, (name, source) in enumerate(given.items()):
        if i and name != "flexVolume":
            yield forbidden(f"{field}.{name}", "may not specify more than 1 volume type")
        elif (check := _CHECKS.get(name)) is not None:
            yield from check(source, f"{field}.{name}")
        if name == "local" and not i and spec.get("nodeAffinity") is None:
            yield required(f"{field}.nodeAffinity", "Local volume requires node affinity")
    if not given:
        yield required(field, "must specify a volume type")


def _local(source: Part, field: str) -> Iterator[FieldError]:
    path = source.get("path") or ""
    if not path:
        yield required(f"{field}.path")
    yield from parent_steps(path, f"{field}.path")


def _csi(source: Part, field: str) -> Iterator[FieldError]:
    yield from wrong_driver_name(source.get("driver") or "", f"{field}.driver")
    if not source.get("volumeHandle"):
        yield required(f"{field}.volumeHandle")
    for name in _SECRETS:
        if source.get(name) is not None:
            yield from _secret(source[name], f"{field}.{name}")


def wrong_driver_name(driver: str, field: str) -> Iterator[FieldError]:
    if not driver:
        yield required(field)
        return
    if len(driver) > _LONGEST_DRIVER:
        yield too_long(field, _LONGEST_DRIVER)
    yield from (invalid(field, driver, text) for text in dns_subdomain(driver.lower()))


def _secret(reference: Part, field: str) -> Iterator[FieldError]:
    for name, rule in (("name", dns_subdomain), ("namespace", dns_label)):
        value = reference.get(name) or ""
        if not value:
            yield required(f"{field}.{name}")
        else:
            yield from (invalid(f"{field}.{name}", value, text) for text in rule(value))


_CHECKS: Mapping[str, Callable[[Part, str], Iterator[FieldError]]] = {
    "hostPath": wrong_host_path,
    "nfs": wrong_nfs,
    "fc": wrong_fibre_channel,
    "local": _local,
    "csi": _csi,
}
