"""Nodes, namespaces, services, ConfigMaps, secrets, leases and events.

Source: kubernetes pkg/apis/core/validation/validation.go, pkg/apis/coordination/validation/validation.go (v1.36).
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re

from protocols.objects import Object
from runtime.apiserver.errors.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from runtime.apiserver.kinds.validation.names import label_key, label_value
from runtime.apiserver.kinds.validation.objectmeta import IMMUTABLE

DATA_LIMIT = 1024 * 1024  # bytes
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_SERVICE_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_data_key = re.compile("[-._a-zA-Z0-9]+")


def validate_node(node: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(node["spec"].get("taints") or ()):
        field = f"metadata.taints[{i}]"  # upstream's path, wrong as it is
        key, value, effect = taint.get("key") or "", taint.get("value") or "", taint.get("effect") or ""
        errors += [invalid(f"{field}.key", key, text) for text in label_key(key)]
        errors += [invalid(f"{field}.value", value, text) for text in label_value(value)]
        if not effect:
            errors.append(required(f"{field}.effect"))
        elif effect not in _EFFECTS:
            errors.append(not_supported(f"{field}.effect", effect, _EFFECTS))
        if (key, effect) in seen:
            errors.append(duplicate(field, taint)._replace(detail="taints must be unique by key and effect pair"))
        seen.add((key, effect))
    detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
    ranges = enumerate(node["spec"].get("podCIDRs") or ())
    errors += [invalid(f"spec.podCIDRs[{i}]", cidr, detail) for i, cidr in ranges if not _is_cidr(cidr)]
    return errors


def _is_cidr(text: str) -> bool:
    try:
        ipaddress.ip_interface(text)
    except ValueError:
        return False
    return "/" in text


def validate_node_update(new: Object, old: Object) -> list[FieldError]:
    """Where a node's pods live, and who provides it, is said once."""
    errors: list[FieldError] = []
    now, then = new["spec"], old.get("spec") or {}
    if then.get("podCIDRs") and then["podCIDRs"] != now.get("podCIDRs"):
        errors.append(forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid'))
    if then.get("providerID") and then["providerID"] != now.get("providerID"):
        errors.append(forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid'))
    return errors


def validate_service(service: Object) -> list[FieldError]:
    spec = service["spec"]
    errors: list[FieldError] = []
    ports = spec.get("ports") or []
    if not ports and spec["type"] != "ExternalName" and spec.get("clusterIP") != "None":
        errors.append(required("spec.ports"))
    if spec["type"] == "ExternalName" and not spec.get("externalName"):
        errors.append(required("spec.externalName"))
    names: set[str] = set()
    for i, port in enumerate(ports):
        number, name = port.get("port") or 0, port.get("name") or ""
        if not 1 <= number <= 65535:
            errors.append(invalid(f"spec.ports[{i}].port", number, "must be between 1 and 65535, inclusive"))
        if not name and len(ports) > 1:
            errors.append(required(f"spec.ports[{i}].name"))
        elif name in names:
            errors.append(duplicate(f"spec.ports[{i}].name", name))
        names.add(name)
    if spec["type"] not in _SERVICE_TYPES:
        errors.append(not_supported("spec.type", spec["type"], _SERVICE_TYPES))
    return errors


def validate_service_update(new: Object, old: Object) -> list[FieldError]:
    """A cluster IP stays while the service has one."""
    now, then = new["spec"], old["spec"]
    kept = then.get("clusterIP") and "ExternalName" not in (now["type"], then["type"])
    if kept and now.get("clusterIP") != then["clusterIP"]:
        return [invalid("spec.clusterIPs[0]", [now.get("clusterIP") or ""], "may not change once set")]
    return []


def validate_config_map(config_map: Object) -> list[FieldError]:
    return _validate_data(config_map.get("data") or {}, "data") + _validate_data(
        config_map.get("binaryData") or {}, "binaryData"
    )


def validate_config_map_update(new: Object, old: Object) -> list[FieldError]:
    return _validate_immutable(new, old, ("data", "binaryData"))


def validate_secret(secret: Object) -> list[FieldError]:
    data = secret.get("data") or {}
    errors = _validate_data(data, "data")
    for key, value in data.items():
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            errors.append(invalid(f"data[{key}]", "<secret contents redacted>", "illegal base64 data"))
    needed = {"kubernetes.io/tls": ("tls.crt", "tls.key"), "kubernetes.io/ssh-auth": ("ssh-privatekey",)}
    errors += [required(f"data[{key}]") for key in needed.get(secret["type"], ()) if key not in data]
    account = (secret["metadata"].get("annotations") or {}).get("kubernetes.io/service-account.name")
    if secret["type"] == "kubernetes.io/service-account-token" and not account:
        errors.append(required("metadata.annotations[kubernetes.io/service-account.name]"))
    return errors


def validate_secret_update(new: Object, old: Object) -> list[FieldError]:
    errors = _validate_immutable(new, old, ("data",))
    if new["type"] != old.get("type"):
        errors.append(invalid("type", new["type"], IMMUTABLE))
    return errors


def validate_lease(lease: Object) -> list[FieldError]:
    spec = lease.get("spec") or {}
    errors: list[FieldError] = []
    if spec.get("leaseDurationSeconds") is not None and spec["leaseDurationSeconds"] <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0"))
    if (spec.get("leaseTransitions") or 0) < 0:
        detail = "must be greater than or equal to 0"
        errors.append(invalid("spec.leaseTransitions", spec["leaseTransitions"], detail))
    return errors


def validate_event(event: Object) -> list[FieldError]:
    """An event lives in the namespace of what it is about; of what has none, in default. One with an eventTime says who
    reports it, and what was done."""
    about, namespace = event.get("involvedObject") or {}, event["metadata"].get("namespace", "")
    of, is_new = about.get("namespace") or "", "eventTime" in event
    errors: list[FieldError] = []
    homes = ("default", "kube-system") if is_new else ("default",)
    if (of and of != namespace and not is_new) or (not of and namespace not in homes):
        errors.append(invalid("involvedObject.namespace", of, "does not match event.namespace"))
    if is_new:
        needed = ("reportingComponent", "reportingInstance", "action", "reason")
        errors += [required(field) for field in needed if not event.get(field)]
    return errors


def validate_new_event(event: Object) -> list[FieldError]:
    """What events.k8s.io/v1 asks for besides; in the stored form."""
    errors = validate_event(event)
    if "eventTime" not in event:
        errors.append(required("eventTime"))
    if event.get("type") not in ("Normal", "Warning"):
        errors.append(invalid("type", "", f"has invalid value: {event.get('type') or ''}"))
    return errors


def _validate_data(data: Object, field: str) -> list[FieldError]:
    rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
    text = f"{rule} (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
    errors = [invalid(f"{field}[{key}]", key, text) for key in data if not _data_key.fullmatch(key)]
    if sum(map(len, data.values())) > DATA_LIMIT:
        errors.append(too_long(field, DATA_LIMIT))
    return errors


def _validate_immutable(new: Object, old: Object, parts: tuple[str, ...]) -> list[FieldError]:
    if not old.get("immutable"):
        return []
    detail = "field is immutable when `immutable` is set"
    changed = [part for part in parts if (new.get(part) or {}) != (old.get(part) or {})]
    errors = [forbidden(part, detail) for part in changed]
    return errors if new.get("immutable") else [forbidden("immutable", detail), *errors]
