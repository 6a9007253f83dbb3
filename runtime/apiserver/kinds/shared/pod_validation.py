"""Pods and pod templates: what is required, what must be unique, what may change.

Source: kubernetes pkg/apis/core/validation/validation.go (v1.36). Volumes' sources, probes, security contexts and
affinities are not looked into.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from protocols.objects import Object
from protocols.quantities import parse_quantity
from runtime.apiserver.errors.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from runtime.apiserver.kinds.shared.names import (
    dns_label,
    dns_subdomain,
    label_key,
    label_value,
    too_many_characters,
)
from runtime.apiserver.kinds.shared.object_meta import validate_annotations, validate_labels

MOST = 2**31 - 1

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OPERATORS = ("Equal", "Exists", "Lt", "Gt")
_port_characters = re.compile("[-a-z0-9]+")
_environment_name = re.compile("[ -<>-~]+")


def validate_pod_template(template: Object, field: str) -> list[FieldError]:
    meta = template["metadata"]
    errors = validate_labels(meta.get("labels") or {}, f"{field}.labels")
    errors += validate_annotations(meta.get("annotations") or {}, f"{field}.annotations")
    errors += validate_pod_spec(template["spec"], f"{field}.spec")
    if template["spec"].get("ephemeralContainers"):
        errors.append(
            forbidden(f"{field}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")
        )
    return errors


def validate_pod_spec(spec: Object, field: str) -> list[FieldError]:
    """spec: with its defaults."""
    errors: list[FieldError] = []
    volumes = _validate_volumes(spec.get("volumes") or [], f"{field}.volumes", errors)
    containers, init = spec.get("containers") or [], spec.get("initContainers") or []
    if not containers:
        errors.append(required(f"{field}.containers"))
    names: set[str] = set()
    for part, listed in (("containers", containers), ("initContainers", init)):
        for i, container in enumerate(listed):
            _validate_container(container, volumes, names, f"{field}.{part}[{i}]", errors)
    _one_of(spec, "restartPolicy", _RESTART_POLICIES, field, errors)
    _one_of(spec, "dnsPolicy", _DNS_POLICIES, field, errors)
    if spec.get("nodeSelector"):
        errors += validate_labels(spec["nodeSelector"], f"{field}.nodeSelector")
    for name in ("serviceAccountName", "nodeName", "priorityClassName"):
        if value := spec.get(name):
            errors += [invalid(f"{field}.{name}", value, text) for text in dns_subdomain(value)]
    for name in ("hostname", "subdomain"):
        if value := spec.get(name):
            errors += [invalid(f"{field}.{name}", value, text) for text in dns_label(value)]
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= MOST:
        errors.append(invalid(f"{field}.activeDeadlineSeconds", deadline, f"must be between 1 and {MOST}, inclusive"))
    for i, toleration in enumerate(spec.get("tolerations") or ()):
        _validate_toleration(toleration, f"{field}.tolerations[{i}]", errors)
    return errors


def _validate_volumes(volumes: list[Object], field: str, errors: list[FieldError]) -> set[str]:
    """Returns the names of the valid volumes."""
    names: set[str] = set()
    for i, volume in enumerate(volumes):
        name, before = volume.get("name") or "", len(errors)
        if not name:
            errors.append(required(f"{field}[{i}].name"))
        else:
            errors += [invalid(f"{field}[{i}].name", name, text) for text in dns_label(name)]
        if name in names:
            errors.append(duplicate(f"{field}[{i}].name", name))
        sources = sorted(volume.keys() - {"name"})
        errors += [
            forbidden(f"{field}[{i}].{source}", "may not specify more than 1 volume type") for source in sources[1:]
        ]
        if len(errors) == before:
            names.add(name)
    return names


def _validate_container(
    container: Object, volumes: set[str], names: set[str], field: str, errors: list[FieldError]
) -> None:
    name = container.get("name") or ""
    if not name:
        errors.append(required(f"{field}.name"))
    else:
        errors += [invalid(f"{field}.name", name, text) for text in dns_label(name)]
    if name in names:
        errors.append(duplicate(f"{field}.name", name))
    names.add(name)
    if not container.get("image"):
        errors.append(required(f"{field}.image"))
    _one_of(container, "terminationMessagePolicy", ("File", "FallbackToLogsOnError"), field, errors)
    if "ports" in container:
        _validate_ports(container["ports"], f"{field}.ports", errors)
    for i, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            errors.append(required(f"{field}.env[{i}].name"))
        elif not _environment_name.fullmatch(variable["name"]):
            detail = "a valid environment variable name must consist only of printable ASCII characters other than '='"
            errors.append(invalid(f"{field}.env[{i}].name", variable["name"], detail))
        if variable.get("value") and variable.get("valueFrom"):
            detail = "may not be specified when `value` is not empty"
            errors.append(invalid(f"{field}.env[{i}].valueFrom", "", detail))
    if "volumeMounts" in container:
        _validate_mounts(container["volumeMounts"], volumes, f"{field}.volumeMounts", errors)
    _one_of(container, "imagePullPolicy", _PULL_POLICIES, field, errors)
    if container["resources"]:
        _validate_resources(container["resources"], f"{field}.resources", errors)


def _validate_ports(ports: list[Object], field: str, errors: list[FieldError]) -> None:
    names: set[str] = set()
    for i, port in enumerate(ports):
        name = port.get("name")
        if name:
            problems = port_name_problems(name)
            errors += [invalid(f"{field}[{i}].name", name, text) for text in problems]
            if name in names:
                errors.append(duplicate(f"{field}[{i}].name", name))
            names.add(name)
        if not port.get("containerPort"):
            errors.append(required(f"{field}[{i}].containerPort"))
        for part in ("containerPort", "hostPort"):
            number = port.get(part)
            if number and not 1 <= number <= 65535:
                errors.append(invalid(f"{field}[{i}].{part}", number, "must be between 1 and 65535, inclusive"))
        _one_of(port, "protocol", _PROTOCOLS, f"{field}[{i}]", errors)


def port_name_problems(name: str) -> list[str]:
    """Source: apimachinery pkg/util/validation, IsValidPortName."""
    problems = [too_many_characters(15)] if len(name) > 15 else []
    if not _port_characters.fullmatch(name):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", name):
        problems.append("must contain at least one letter (a-z)")
    if "--" in name:
        problems.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        problems.append("must not begin or end with a hyphen")
    return problems


def _validate_mounts(mounts: list[Object], volumes: set[str], field: str, errors: list[FieldError]) -> None:
    paths: set[str] = set()
    for i, mount in enumerate(mounts):
        name, path = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            errors.append(required(f"{field}[{i}].name"))
        if name not in volumes:
            errors.append(not_found(f"{field}[{i}].name", name))
        if not path:
            errors.append(required(f"{field}[{i}].mountPath"))
        if path in paths:
            errors.append(invalid(f"{field}[{i}].mountPath", path, "must be unique"))
        paths.add(path)


def _validate_resources(resources: Object, field: str, errors: list[FieldError]) -> None:
    """Quantities are well-formed: the schema has checked them."""
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            if parse_quantity(amount) < 0:
                errors.append(invalid(f"{field}.{part}[{name}]", amount, "must be greater than or equal to 0"))
    for name, amount in requests.items():
        if "/" in name and not name.startswith("kubernetes.io/") and limits.get(name) != amount:
            errors.append(_no_overcommit(name, amount, limits.get(name), field))
        elif name in limits and parse_quantity(amount) > parse_quantity(limits[name]):
            detail = f"must be less than or equal to {name} limit of {limits[name]}"
            errors.append(invalid(f"{field}.requests", amount, detail))


def _no_overcommit(name: str, amount: str, limit: str | None, field: str) -> FieldError:
    """Extended resources cannot be overcommitted: limit and request must be equal."""
    if limit is None:
        return required(f"{field}.limits", "Limit must be set for non overcommitable resources")
    return invalid(f"{field}.requests", amount, f"must be equal to {name} limit of {limit}")


def _validate_toleration(toleration: Object, field: str, errors: list[FieldError]) -> None:
    key, operator, effect = (toleration.get(part) or "" for part in ("key", "operator", "effect"))
    if key:
        errors += [invalid(f"{field}.key", key, text) for text in label_key(key)]
    elif operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        errors.append(invalid(f"{field}.operator", operator, detail))
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        errors.append(invalid(f"{field}.effect", effect, detail))
    value = toleration.get("value") or ""
    if operator in ("", "Equal"):
        problems = label_value(value)
        if problems:
            errors.append(invalid(f"{field}.operator", value, ";".join(problems)))
    elif operator == "Exists":
        if value:
            errors.append(invalid(f"{field}.operator", value, "value must be empty when `operator` is 'Exists'"))
    elif operator not in _OPERATORS:
        errors.append(not_supported(f"{field}.operator", operator, _OPERATORS[:2]))
    if effect and effect not in TAINT_EFFECTS:
        errors.append(not_supported(f"{field}.effect", effect, TAINT_EFFECTS))


def _one_of(obj: Object, name: str, supported: Iterable[str], field: str, errors: list[FieldError]) -> None:
    value: Any = obj.get(name)
    if not value:
        errors.append(required(f"{field}.{name}"))
    elif value not in supported:
        errors.append(not_supported(f"{field}.{name}", value, supported))
