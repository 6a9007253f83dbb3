"""Validation of the volumes of a pod.

Source: kubernetes pkg/apis/core/validation/validation.go, validateVolumeSource (v1.36). Difference: of the in-tree
storage drivers, only nfs, iscsi, fc, azureDisk and flexVolume are validated in detail.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kcm.protocols.objects import Object
from kcm.protocols.quantities import parse_quantity
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid, not_supported, required
from kcm.runtime.apiserver.kinds.pod_spec.claim_specs import wrong_claim_spec
from kcm.runtime.apiserver.kinds.pod_spec.environment import wrong_field_reference, wrong_resource_reference
from kcm.runtime.apiserver.rules.object_meta import validate_annotations, validate_labels

# In upstream's order of validation.
SOURCES = (
    *("emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi"),
    *("glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc"),
    *(
        "flexVolume",
        "configMap",
        "azureFile",
        "vsphereVolume",
        "photonPersistentDisk",
        "portworxVolume",
        "azureDisk",
        "storageos",
    ),
    *("projected", "scaleIO", "csi", "ephemeral", "image"),
)
PATH_TYPES = (*("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"),)
_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_DOWNWARD_FIELDS = (
    *("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"),
)
_TEN_MINUTES, _MOST_SECONDS = 600, 1 << 32
_LAST_LUN = 255
_INITIATORS = {
    "iqn": re.compile("iqn\\.\\d{4}-\\d{2}\\.[a-zA-Z0-9.-]+:[^,;*&$|\\s]+"),
    "eui": re.compile("eui.[a-zA-Z0-9]{16}"),
    "naa": re.compile("naa.[a-zA-Z0-9]{32}"),
}
_CACHING, _AZURE_KINDS = ("None", "ReadOnly", "ReadWrite"), ("Dedicated", "Managed", "Shared")

Part = Mapping[str, Any]


def wrong_source(volume: Object, field: str) -> Iterator[FieldError]:
    given = [name for name in SOURCES if volume.get(name) is not None]
    for i, name in enumerate(given):
        if i:
            yield forbidden(f"{field}.{name}", "may not specify more than 1 volume type")
        elif (check := _CHECKS.get(name)) is not None:
            yield from check(volume[name], f"{field}.{name}")
    if not given:
        yield required(field, "must specify a volume type")


def _flex_volume(source: Part, field: str) -> Iterator[FieldError]:
    if not source.get("driver"):
        yield required(f"{field}.driver")
    for key in source.get("options") or {}:
        if f".{key.partition('/')[0].lower() if '/' in key else key.lower()}".endswith((".kubernetes.io", ".k8s.io")):
            yield invalid(f"{field}.options[{key}]", key, "kubernetes.io and k8s.io namespaces are reserved")


def wrong_path(path: str, field: str) -> Iterator[FieldError]:
    """Validate that a path is relative and has no element ".."."""
    if path.startswith("/"):
        yield invalid(field, path, "must be a relative path")
    yield from parent_steps(path, field)


def parent_steps(path: str, field: str) -> Iterator[FieldError]:
    """Yield an error if a path contains the element ".."."""
    if ".." in path.split("/"):
        yield invalid(field, path, "must not contain '..'")


def _file_path(path: str, field: str) -> Iterator[FieldError]:
    """Validate that a path is relative, has no element "..", and does not begin with ".."."""
    yield from wrong_path(path, field)
    if path.startswith("..") and path.split("/")[0] != "..":
        yield invalid(field, path, "must not start with '..'")


def _empty_dir(source: Part, field: str) -> Iterator[FieldError]:
    size = source.get("sizeLimit")
    if size is not None and parse_quantity(size) < 0:
        yield forbidden(f"{field}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def wrong_host_path(source: Part, field: str) -> Iterator[FieldError]:
    path = source.get("path") or ""
    if not path:
        yield required(f"{field}.path")
        return
    yield from parent_steps(path, f"{field}.path")
    type_ = source.get("type")
    if type_ is not None and type_ not in PATH_TYPES:
        yield not_supported(f"{field}.type", type_, PATH_TYPES)


def wrong_nfs(source: Part, field: str) -> Iterator[FieldError]:
    if not source.get("server"):
        yield required(f"{field}.server")
    path = source.get("path") or ""
    if not path:
        yield required(f"{field}.path")
    elif not path.startswith("/"):
        yield invalid(f"{field}.path", path, "must be an absolute path")


def _mode(source: Part, name: str, field: str) -> Iterator[FieldError]:
    mode = source.get(name)
    if mode is not None and not 0 <= mode <= 0o777:
        yield invalid(f"{field}.{name}", mode, _MODE)


def _items(source: Part, field: str) -> Iterator[FieldError]:
    for i, item in enumerate(source.get("items") or ()):
        yield from _key_to_path(item, f"{field}.items[{i}]")


def _key_to_path(item: Part, field: str) -> Iterator[FieldError]:
    if not item.get("key"):
        yield required(f"{field}.key")
    path = item.get("path") or ""
    if not path:
        yield required(f"{field}.path")
    yield from _file_path(path, f"{field}.path")
    yield from _mode(item, "mode", field)


def _secret(source: Part, field: str) -> Iterator[FieldError]:
    if not source.get("secretName"):
        yield required(f"{field}.secretName")
    yield from _mode(source, "defaultMode", field)
    yield from _items(source, field)


def _config_map(source: Part, field: str) -> Iterator[FieldError]:
    if not source.get("name"):
        yield required(f"{field}.name")
    yield from _mode(source, "defaultMode", field)
    yield from _items(source, field)


def _claim(source: Part, field: str) -> Iterator[FieldError]:
    if not source.get("claimName"):
        yield required(f"{field}.claimName")


def _downward(source: Part, field: str) -> Iterator[FieldError]:
    yield from _mode(source, "defaultMode", field)
    for item in source.get("items") or ():
        yield from _downward_file(item, field)


def _downward_file(item: Part, field: str) -> Iterator[FieldError]:
    path = item.get("path") or ""
    if not path:
        yield required(f"{field}.path")
    yield from _file_path(path, f"{field}.path")
    if item.get("fieldRef") is not None:
        yield from wrong_field_reference(item["fieldRef"], f"{field}.fieldRef", _DOWNWARD_FIELDS)
        if item.get("resourceFieldRef") is not None:
            yield invalid(field, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
    elif item.get("resourceFieldRef") is not None:
        yield from wrong_resource_reference(item["resourceFieldRef"], f"{field}.resourceFieldRef", in_volume=True)
    else:
        yield required(field, "one of fieldRef and resourceFieldRef is required")
    yield from _mode(item, "mode", field)


def _projected(source: Part, field: str) -> Iterator[FieldError]:
    yield from _mode(source, "defaultMode", field)
    paths: set[str] = set()
    for i, projection in enumerate(source.get("sources") or ()):
        yield from _projection(projection, field, f"{field}.sources[{i}]", paths)


def _projection(projection: Part, field: str, at: str, paths: set[str]) -> Iterator[FieldError]:
    """Validate one source of a projected volume.

    field: path of the projected volume
    at: path of the source
    paths: file paths of the sources before this one, to find conflicts; receives the paths of this source
    """
    given = 0
    for name in ("secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle"):
        part = projection.get(name)
        if part is None:
            continue
        if given:
            yield forbidden(at, "may not specify more than 1 volume type per source")
        given += 1
        if name in ("secret", "configMap"):
            if not part.get("name"):
                yield required(f"{at}.{name}.name")
            items = part.get("items") or ()
            for j, item in enumerate(items):
                yield from _key_to_path(item, f"{at}.{name}.items[{j}]")
            for item in items:
                if item.get("path"):
                    yield from _conflicts(item["path"], part.get("name") or "", field, paths)
        elif name == "downwardAPI":
            for item in part.get("items") or ():
                yield from _downward_file(item, f"{at}.downwardAPI")
                if item.get("path"):
                    yield from _conflicts(item["path"], item["path"], field, paths)
        elif name == "serviceAccountToken":
            yield from _token(part, at, field, paths)


def _token(part: Part, at: str, field: str, paths: set[str]) -> Iterator[FieldError]:
    seconds = part.get("expirationSeconds") or 0
    where = f"{at}.serviceAccountToken.expirationSeconds"
    if seconds < _TEN_MINUTES:
        yield invalid(where, seconds, "may not specify a duration less than 10 minutes")
    if seconds > _MOST_SECONDS:
        yield invalid(where, seconds, "may not specify a duration larger than 2^32 seconds")
    path = part.get("path") or ""
    if not path:
        yield required(f"{field}.path")
    elif path in paths:
        yield invalid(field, path, "conflicting duplicate paths")
    paths.add(path)


def _conflicts(path: str, name: str, field: str, paths: set[str]) -> Iterator[FieldError]:
    if path in paths:
        yield invalid(field, name, "conflicting duplicate paths")
    paths.add(path)


def _csi(source: Part, field: str) -> Iterator[FieldError]:
    if not source.get("driver"):
        yield required(f"{field}.driver")
    reference = source.get("nodePublishSecretRef")
    if reference is not None and not reference.get("name"):
        yield required(f"{field}.nodePublishSecretRef.name")


def wrong_fibre_channel(source: Part, field: str) -> Iterator[FieldError]:
    names, ids, lun = source.get("targetWWNs"), source.get("wwids"), source.get("lun")
    if not names and not ids:
        yield required(f"{field}.targetWWNs", "must specify either targetWWNs or wwids, but not both")
    if not names:
        return
    if ids:
        yield invalid(f"{field}.targetWWNs", names, "targetWWNs and wwids can not be specified simultaneously")
    if lun is None:
        yield required(f"{field}.lun", "lun is required if targetWWNs is specified")
    elif not 0 <= lun <= _LAST_LUN:
        yield invalid(f"{field}.lun", lun, f"must be between 0 and {_LAST_LUN}, inclusive")


def wrong_iscsi(source: Part, field: str) -> Iterator[FieldError]:
    if not source.get("targetPortal"):
        yield required(f"{field}.targetPortal")
    iqn, lun = source.get("iqn") or "", source.get("lun") or 0
    if not iqn:
        yield required(f"{field}.iqn")
    else:
        yield from _initiator(iqn, f"{field}.iqn")
    if not 0 <= lun <= _LAST_LUN:
        yield invalid(f"{field}.lun", lun, f"must be between 0 and {_LAST_LUN}, inclusive")
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and source.get("secretRef") is None:
        yield required(f"{field}.secretRef")
    if source.get("initiatorName") is not None:
        yield from _initiator(source["initiatorName"], f"{field}.initiatorname")


def _initiator(name: str, field: str) -> Iterator[FieldError]:
    if not name.startswith(tuple(_INITIATORS)):
        yield invalid(field, name, "must be valid format starting with iqn, eui, or naa")
    elif not _INITIATORS[name[:3]].fullmatch(name):
        yield invalid(field, name, "must be valid format")


def _azure_disk(source: Part, field: str) -> Iterator[FieldError]:
    for name in ("diskName", "diskURI"):
        if not source.get(name):
            yield required(f"{field}.{name}")
    where, kind = source.get("diskURI") or "", source.get("kind")
    for name, known in (("cachingMode", _CACHING), ("kind", _AZURE_KINDS)):
        if source.get(name) is not None and source[name] not in known:
            yield not_supported(f"{field}.{name}", source[name], known)
    managed = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
    if kind == "Managed" and not where.startswith("/subscriptions/"):
        yield not_supported(f"{field}.diskURI", where, (managed,))
    if kind not in (None, "Managed") and not where.startswith("https://"):
        blob = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
        yield not_supported(f"{field}.diskURI", where, (blob,))


def _ephemeral(source: Part, field: str) -> Iterator[FieldError]:
    template, at = source.get("volumeClaimTemplate"), f"{field}.volumeClaimTemplate"
    if template is None:
        yield required(at)
        return
    meta = template.get("metadata") or {}
    yield from validate_annotations(meta.get("annotations") or {}, f"{at}.metadata.annotations")
    yield from validate_labels(meta.get("labels") or {}, f"{at}.metadata.labels")
    yield from wrong_claim_spec(template.get("spec") or {}, f"{at}.spec")


def _image(source: Part, field: str) -> Iterator[FieldError]:
    if not source.get("reference"):
        yield required(f"{field}.reference")
    policy = source.get("pullPolicy") or ""
    policies = ("Always", "IfNotPresent", "Never")
    if policy not in policies:
        yield not_supported(f"{field}.pullPolicy", policy, policies)


_CHECKS: Mapping[str, Callable[[Part, str], Iterator[FieldError]]] = {
    "flexVolume": _flex_volume,
    "emptyDir": _empty_dir,
    "hostPath": wrong_host_path,
    "secret": _secret,
    "nfs": wrong_nfs,
    "persistentVolumeClaim": _claim,
    "downwardAPI": _downward,
    "configMap": _config_map,
    "projected": _projected,
    "csi": _csi,
    "fc": wrong_fibre_channel,
    "iscsi": wrong_iscsi,
    "azureDisk": _azure_disk,
    "ephemeral": _ephemeral,
    "image": _image,
}
