"""Validation of the volume source of PersistentVolumes.

Source: kubernetes pkg/apis/core/validation/validation.go, ValidatePersistentVolumeSpec (v1.36). Difference: only the
sources hostPath, nfs, fc, local and csi are validated in detail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid, required, too_long
from kcm.runtime.apiserver.kinds.pod_spec.volumes import parent_steps, wrong_fibre_channel, wrong_host_path, wrong_nfs
from kcm.runtime.apiserver.rules.names import dns_label, dns_subdomain

# In upstream's order of validation.
SOURCES = (
    *("hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte"),
    *("cephfs", "iscsi", "cinder", "fc", "flexVolume", "azureFile", "vsphereVolume", "photonPersistentDisk"),
    *("portworxVolume", "azureDisk", "scaleIO", "local", "storageos", "csi"),
)
_LONGEST_DRIVER = 63
_SECRETS = (
    *("controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"),
)

Part = Mapping[str, Any]


def source_of(spec: Part) -> dict[str, Any]:
    return {name: spec[name] for name in SOURCES if spec.get(name) is not None}


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
