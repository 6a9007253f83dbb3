"""Validation of a container's environment variables and their sources (env, envFrom).

Source: kubernetes pkg/apis/core/validation/validation.go, ValidateEnv, ValidateEnvFrom (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from kcm.protocols.objects import Object
from kcm.protocols.quantities import parse_quantity
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, not_found, not_supported, required
from kcm.runtime.apiserver.rules.data import key_problems
from kcm.runtime.apiserver.rules.names import dns_label, dns_subdomain, label_key

_ENV_FIELDS = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"),
    *("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
)
_CONVERTIBLE = frozenset((*_ENV_FIELDS, "metadata.annotations", "metadata.labels", "spec.restartPolicy"))
_AMOUNTS = ("cpu", "ephemeral-storage", "memory")
_RESOURCES = tuple(f"{part}.{name}" for part in ("limits", "requests") for name in _AMOUNTS)
_HUGE = ("limits.hugepages-", "requests.hugepages-")
_DIVISORS = {
    "cpu": ("1m", "1"),
    "memory": ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"),
}
_name = re.compile("[ -<>-~]+")
_subscript = re.compile(r"(metadata\.(?:labels|annotations))\['(.*)'\]", re.DOTALL)

Part = Mapping[str, Any]


def wrong_variables(variables: Iterable[Object], field: str, volumes: Container[str]) -> Iterator[FieldError]:
    """Validate the environment variables of a container (`env`).

    volumes: names of the pod's volumes, which fileKeyRef may refer to
    """
    for i, variable in enumerate(variables):
        at = f"{field}[{i}]"
        if not variable.get("name"):
            yield required(f"{at}.name")
        elif not _name.fullmatch(variable["name"]):
            detail = "a valid environment variable name must consist only of printable ASCII characters other than '='"
            yield invalid(f"{at}.name", variable["name"], detail)
        if variable.get("valueFrom") is not None:
            yield from _source(variable, variable["valueFrom"], f"{at}.valueFrom")
            if (key := variable["valueFrom"].get("fileKeyRef")) is not None:
                yield from _file_key(key, f"{at}.valueFrom.fileKeyRef", volumes)


def _file_key(reference: Part, field: str, volumes: Container[str]) -> Iterator[FieldError]:
    key, volume, path = (reference.get(name) or "" for name in ("key", "volumeName", "path"))
    if not key:
        yield required(f"{field}.key")
    elif not _name.fullmatch(key):
        detail = "a valid environment variable name must consist only of printable ASCII characters other than '='"
        yield invalid(f"{field}.key", key, detail)
    if not volume:
        yield required(f"{field}.volumeName")
    else:
        yield from (invalid(f"{field}.volumeName", volume, text) for text in dns_label(volume))
    if volume not in volumes:
        yield not_found(f"{field}.volumeName", volume)
    if not path:
        yield required(f"{field}.path")
    elif ".." in path.split("/"):
        yield invalid(f"{field}.path", path, "must not contain '..'")


def _source(variable: Part, source: Part, field: str) -> Iterator[FieldError]:
    given = [name for name, value in source.items() if value is not None]
    if "fieldRef" in given:
        yield from wrong_field_reference(source["fieldRef"], f"{field}.fieldRef", _ENV_FIELDS)
    if "resourceFieldRef" in given:
        yield from wrong_resource_reference(source["resourceFieldRef"], f"{field}.resourceFieldRef", in_volume=False)
    for name in ("configMapKeyRef", "secretKeyRef"):
        if name in given:
            yield from _key(source[name], f"{field}.{name}")
    if not given:
        names = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        yield invalid(field, "", f"must specify one of: {names}")
    elif variable.get("value"):
        yield invalid(field, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield invalid(field, "", "may not have more than one field specified at a time")


def _key(reference: Part, field: str) -> Iterator[FieldError]:
    name, key = reference.get("name") or "", reference.get("key") or ""
    for text in dns_subdomain(name):
        yield invalid(f"{field}.name", name, text)
    if not key:
        yield required(f"{field}.key")
    else:
        for text in key_problems(key):
            yield invalid(f"{field}.key", key, text)


def wrong_sources(sources: Iterable[Object], field: str) -> Iterator[FieldError]:
    """Validate the sources of environment variables of a container (`envFrom`)."""
    for i, source in enumerate(sources):
        prefix = source.get("prefix") or ""
        if prefix and not _name.fullmatch(prefix):
            detail = "a valid environment variable name must consist only of printable ASCII characters other than '='"
            yield invalid(f"{field}[{i}].prefix", prefix, detail)
        given = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for name in given:
            named = source[name].get("name") or ""
            if not named:
                yield required(f"{field}[{i}].{name}.name")
            else:
                for text in dns_subdomain(named):
                    yield invalid(f"{field}[{i}].{name}.name", named, text)
        if not given:
            yield invalid(field, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            yield invalid(field, "", "may not have more than one field specified at a time")


def wrong_field_reference(reference: Part, field: str, supported: tuple[str, ...]) -> Iterator[FieldError]:
    """Validate a reference to a field of the pod (fieldRef).

    supported: field paths that are allowed; references to a single label or annotation are always allowed
    """
    version, path = reference.get("apiVersion") or "", reference.get("fieldPath") or ""
    if not version:
        yield required(f"{field}.apiVersion")
        return
    if not path:
        yield required(f"{field}.fieldPath")
        return
    at = f"{field}.fieldPath"
    subscript = _subscript.fullmatch(path)
    if subscript is not None:
        key = subscript[2].lower() if subscript[1] == "metadata.annotations" else subscript[2]
        for text in label_key(key):
            yield invalid(field, subscript[2], text)
    elif version != "v1":
        yield invalid(at, path, f"error converting fieldPath: unsupported pod version: {version}")
    elif path not in _CONVERTIBLE:
        yield invalid(at, path, f"error converting fieldPath: field label not supported: {path}")
    elif path not in supported:
        yield not_supported(at, path, supported)


def wrong_resource_reference(reference: Part, field: str, *, in_volume: bool) -> Iterator[FieldError]:
    """Validate a reference to a resource of a container (resourceFieldRef).

    in_volume: whether the reference is in a volume, and so must name its container
    """
    resource, divisor = reference.get("resource") or "", reference.get("divisor") or "0"
    if in_volume and not reference.get("containerName"):
        yield required(f"{field}.containerName")
        return
    if not resource:
        yield required(f"{field}.resource")
        return
    if resource not in _RESOURCES and not resource.startswith(_HUGE):
        yield not_supported(f"{field}.resource", resource, _RESOURCES)
    kind = resource.partition(".")[2]
    allowed = _DIVISORS["cpu"] if kind == "cpu" else _DIVISORS["memory"]
    value = parse_quantity(divisor)
    if value != 0 and value not in {parse_quantity(text) for text in allowed}:
        shown = "1m and 1" if kind == "cpu" else ", ".join(allowed)
        detail = f"only divisor's values {shown} are supported with the {kind} resource"
        yield invalid(f"{field}.divisor", resource, detail)
