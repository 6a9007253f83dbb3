"""Validation of pod specs and pod templates.

This module validates containers, volume mounts, ports and tolerations. Other modules of the package validate volumes,
environment, handlers, resources, security, scheduling, network and Windows options.

Source: kubernetes pkg/apis/core/validation/validation.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from kcm.runtime.apiserver.kinds.pod_spec.annotations import wrong_annotations
from kcm.runtime.apiserver.kinds.pod_spec.clean_specs import CleanSpecs, key_of
from kcm.runtime.apiserver.kinds.pod_spec.containers import wrong_devices, wrong_mount_of_device, wrong_restarts
from kcm.runtime.apiserver.kinds.pod_spec.environment import wrong_sources, wrong_variables
from kcm.runtime.apiserver.kinds.pod_spec.handlers import port_name_problems, wrong_hooks, wrong_probes
from kcm.runtime.apiserver.kinds.pod_spec.network import wrong_aliases, wrong_hostname, wrong_resolver
from kcm.runtime.apiserver.kinds.pod_spec.resources import (
    wrong_overhead,
    wrong_pod_resources,
    wrong_resource_claims,
    wrong_resources,
)
from kcm.runtime.apiserver.kinds.pod_spec.scheduling import wrong_affinity, wrong_gates, wrong_spread
from kcm.runtime.apiserver.kinds.pod_spec.security import (
    wrong_container_context,
    wrong_host_users,
    wrong_pod_context,
)
from kcm.runtime.apiserver.kinds.pod_spec.volumes import wrong_path, wrong_source
from kcm.runtime.apiserver.kinds.pod_spec.windows import wrong_host_processes, wrong_on_linux, wrong_on_windows
from kcm.runtime.apiserver.rules.names import (
    dns_label,
    dns_subdomain,
    label_key,
    label_value,
)
from kcm.runtime.apiserver.rules.object_meta import validate_annotations, validate_labels
from kcm.runtime.cel.effort import pass_time

CONTAINER_COST = 20  # cost of validating a container, in units of about one microsecond
MOST_SECONDS = 2**31 - 1

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
# Upstream accepts Lt and Gt only with a feature gate that is off by default. They are accepted here, so that the same
# gate of the controller manager can be tried.
_OPERATORS = ("Equal", "Exists", "Lt", "Gt")
# Fields that an ephemeral container cannot have, in the order of the Go type.
_NOT_EPHEMERAL = (
    *("ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules"),
    *("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"),
)
_MAIN_CONTAINER_FIELDS = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RESOURCE_FIELDS = ("resourceClaims", "resources", "overhead")
_PLAIN_MOUNT = {"name", "mountPath", "readOnly"}
_NO_EPHEMERAL = "cannot be set for an Ephemeral Container"
_clean_specs = CleanSpecs()


def validate_pod_template(template: Object, field: str) -> list[FieldError]:
    meta = template["metadata"]
    errors = validate_labels(meta.get("labels") or {}, f"{field}.labels")
    errors += validate_annotations(meta.get("annotations") or {}, f"{field}.annotations")
    if meta.get("annotations"):
        errors += wrong_annotations(meta["annotations"], template["spec"], f"{field}.annotations")
    errors += validate_pod_spec(template["spec"], f"{field}.spec")
    if template["spec"].get("ephemeralContainers"):
        errors.append(
            forbidden(f"{field}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")
        )
    return errors


def validate_pod_spec(spec: Object, field: str) -> list[FieldError]:
    """Validate a pod spec whose defaults are set. Specs without errors are cached."""
    key = key_of(spec)
    if key in _clean_specs:
        return []
    errors = _wrong_spec(spec, field)
    if not errors:
        _clean_specs.add(key)
    return errors


def _wrong_spec(spec: Object, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    volumes = _validate_volumes(spec.get("volumes") or [], f"{field}.volumes", errors)
    has_security_context = _validate_containers(spec, volumes, field, errors)
    if not spec.keys().isdisjoint(_RESOURCE_FIELDS):
        errors += _wrong_claims_and_resources(spec, field)
    containers = spec.get("containers") or []
    errors += _duplicate_host_ports(containers, f"{field}.containers")
    if spec.get("hostNetwork"):
        errors += _wrong_host_ports(containers, f"{field}.containers")
    _one_of(spec, "restartPolicy", _RESTART_POLICIES, field, errors)
    _one_of(spec, "dnsPolicy", _DNS_POLICIES, field, errors)
    if spec.get("nodeSelector"):
        errors += validate_labels(spec["nodeSelector"], f"{field}.nodeSelector")
    errors += wrong_pod_context(spec, f"{field}.securityContext")
    errors += _wrong_scheduling(spec, field)
    errors += wrong_host_users(spec, field)
    errors += _wrong_names(spec, field)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= MOST_SECONDS:
        errors.append(
            invalid(f"{field}.activeDeadlineSeconds", deadline, f"must be between 1 and {MOST_SECONDS}, inclusive")
        )
    for i, toleration in enumerate(spec.get("tolerations") or ()):
        validate_toleration(toleration, f"{field}.tolerations[{i}]", errors)
    errors += wrong_aliases(spec.get("hostAliases") or (), f"{field}.hostAliases")
    if (runtime := spec.get("runtimeClassName")) is not None:
        errors += [invalid(f"{field}.runtimeClassName", runtime, text) for text in dns_subdomain(runtime)]
    if "os" in spec:
        errors += _wrong_os(spec, field)
    if "hostnameOverride" in spec:
        errors += wrong_hostname(spec, f"{field}.hostnameOverride")
    if has_security_context or "windowsOptions" in spec["securityContext"]:
        errors += wrong_host_processes(spec, field)
    return errors


def _validate_containers(spec: Object, volumes: set[str], field: str, errors: list[FieldError]) -> bool:
    """Validate all containers; return whether a container that is not ephemeral has a securityContext.

    volumes: names of the valid volumes of the pod
    errors: receives the errors
    """
    containers, init = spec.get("containers") or [], spec.get("initContainers") or []
    if not containers:
        errors.append(required(f"{field}.containers"))
    names: set[str] = set()
    has_security_context = False
    for part, listed in (("containers", containers), ("initContainers", init)):
        for i, container in enumerate(listed):
            at = f"{field}.{part}[{i}]"
            has_security_context = has_security_context or "securityContext" in container
            _validate_container(container, spec, volumes, names, at, errors)
            image = container.get("image") or ""
            if image != image.strip():
                errors.append(invalid(f"{at}.image", image, "must not have leading or trailing whitespace"))
            if part == "containers" or container.get("restartPolicy") == "Always":
                grace = spec.get("terminationGracePeriodSeconds")
                if "lifecycle" in container:
                    errors += wrong_hooks(container["lifecycle"], f"{at}.lifecycle", grace=grace)
                errors += wrong_probes(container, at, grace=grace)
            else:
                detail = "may not be set for init containers without restartPolicy=Always"
                errors += [forbidden(f"{at}.{name}", detail) for name in _MAIN_CONTAINER_FIELDS if name in container]
    if spec.get("ephemeralContainers"):
        _validate_ephemeral_containers(spec, volumes, names, field, errors)
    return has_security_context


def _wrong_names(spec: Object, field: str) -> Iterator[FieldError]:
    for name in ("serviceAccountName", "nodeName", "priorityClassName"):
        if value := spec.get(name):
            yield from (invalid(f"{field}.{name}", value, text) for text in dns_subdomain(value))
    for name in ("hostname", "subdomain"):
        if value := spec.get(name):
            yield from (invalid(f"{field}.{name}", value, text) for text in dns_label(value))


def _wrong_os(spec: Object, field: str) -> Iterator[FieldError]:
    name = spec["os"].get("name") or ""
    if not name:
        yield required(f"{field}.os.name")
    elif name not in ("linux", "windows"):
        yield not_supported(f"{field}.os", name, ("linux", "windows"))
    yield from wrong_on_windows(spec, field) if name == "windows" else wrong_on_linux(spec, field)


def _wrong_claims_and_resources(spec: Object, field: str) -> Iterator[FieldError]:
    """Validate resourceClaims, resources and overhead of the pod."""
    claims = spec.get("resourceClaims") or ()
    yield from wrong_resource_claims(claims, f"{field}.resourceClaims")
    if spec.get("resources") is not None:
        yield from wrong_pod_resources(spec, f"{field}.resources", [claim.get("name") or "" for claim in claims])
    if spec.get("overhead"):
        yield from wrong_overhead(spec["overhead"], f"{field}.overhead")


def _wrong_scheduling(spec: Object, field: str) -> Iterator[FieldError]:
    """Validate affinity, dnsConfig, gates and topology spread constraints, in upstream's order."""
    if spec.get("affinity"):
        yield from wrong_affinity(spec["affinity"], f"{field}.affinity")
    yield from wrong_resolver(spec, f"{field}.dnsConfig")
    for i, gate in enumerate(spec.get("readinessGates") or ()):
        type_ = gate.get("conditionType") or ""
        for text in label_key(type_):
            yield invalid(f"{field}.readinessGates[{i}].conditionType", type_, text)
    if spec.get("schedulingGates"):
        yield from wrong_gates(spec["schedulingGates"], f"{field}.schedulingGates")
    if spec.get("topologySpreadConstraints"):
        yield from wrong_spread(spec["topologySpreadConstraints"], f"{field}.topologySpreadConstraints")


def _duplicate_host_ports(containers: list[Object], field: str) -> Iterator[FieldError]:
    taken: set[str] = set()
    for i, container in enumerate(containers):
        for j, port in enumerate(container.get("ports") or ()):
            if port.get("hostPort"):
                shown = f"{port.get('protocol') or ''}/{port.get('hostIP') or ''}/{port['hostPort']}"
                if shown in taken:
                    yield duplicate(f"{field}[{i}].ports[{j}].hostPort", shown)
                taken.add(shown)


def _wrong_host_ports(containers: list[Object], field: str) -> Iterator[FieldError]:
    for i, container in enumerate(containers):
        for j, port in enumerate(container.get("ports") or ()):
            # hostPort may be missing in a template; it is set when a pod is created from it.
            if port.get("hostPort") and port["hostPort"] != port.get("containerPort", 0):
                detail = "must match `containerPort` when `hostNetwork` is true"
                yield invalid(f"{field}[{i}].ports[{j}].hostPort", port["hostPort"], detail)


def _validate_volumes(volumes: list[Object], field: str, errors: list[FieldError]) -> set[str]:
    """Validate volumes, append the errors to `errors`, and return the names of the valid volumes."""
    names: set[str] = set()
    for i, volume in enumerate(volumes):
        name, before = volume.get("name") or "", len(errors)
        if not name:
            errors.append(required(f"{field}[{i}].name"))
        else:
            errors += [invalid(f"{field}[{i}].name", name, text) for text in dns_label(name)]
        if name in names:
            errors.append(duplicate(f"{field}[{i}].name", name))
        errors += wrong_source(volume, f"{field}[{i}]")
        if len(errors) == before:
            names.add(name)
    return names


def _validate_container(
    container: Object, spec: Object, volumes: set[str], names: set[str], field: str, errors: list[FieldError]
) -> None:
    pass_time(CONTAINER_COST)
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
    if "env" in container:
        errors += wrong_variables(container["env"], f"{field}.env", volumes)
    if "envFrom" in container:
        errors += wrong_sources(container["envFrom"], f"{field}.envFrom")
    if "volumeMounts" in container:
        _validate_mounts(container, volumes, f"{field}.volumeMounts", errors)
    _one_of(container, "imagePullPolicy", _PULL_POLICIES, field, errors)
    if container["resources"]:
        claims = [claim.get("name") or "" for claim in spec["resourceClaims"]] if "resourceClaims" in spec else ()
        errors += wrong_resources(container["resources"], f"{field}.resources", claims)
    if "resizePolicy" in container:
        errors += _wrong_resize_policies(container["resizePolicy"], f"{field}.resizePolicy", spec)
    if "volumeDevices" in container:
        errors += wrong_devices(container, spec, f"{field}.volumeDevices")
    if not container.keys().isdisjoint(("restartPolicy", "restartPolicyRules")):
        errors += wrong_restarts(container, field)
    if "securityContext" in container:
        host_users = spec.get("hostUsers") is not False
        errors += wrong_container_context(
            container["securityContext"], f"{field}.securityContext", host_users=host_users
        )


def _wrong_resize_policies(policies: list[Object], field: str, spec: Object) -> Iterator[FieldError]:
    seen: set[str] = set()
    for policy in policies:
        name, restart = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if name in seen:
            yield duplicate(field, name)
        seen.add(name)
        if name not in ("cpu", "memory"):
            yield not_supported(field, name, ("cpu", "memory")) if name else required(field)
        if restart not in ("NotRequired", "RestartContainer"):
            yield not_supported(field, restart, ("NotRequired", "RestartContainer")) if restart else required(field)
        if restart != "NotRequired" and spec.get("restartPolicy") == "Never":
            yield invalid(field, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")


def _validate_ephemeral_containers(
    spec: Object, volumes: set[str], names: set[str], field: str, errors: list[FieldError]
) -> None:
    """Validate ephemeral containers.

    names: names of the other containers, which targetContainerName may refer to; receives the names of the ephemeral
    ones
    """
    others = frozenset(names)
    for i, container in enumerate(spec["ephemeralContainers"]):
        at = f"{field}.ephemeralContainers[{i}]"
        _validate_container(container, spec, volumes, names, at, errors)
        if (target := container.get("targetContainerName")) and target not in others:
            errors.append(not_found(f"{at}.targetContainerName", target))
        forbidden_fields = (name for name in _NOT_EPHEMERAL if container.get(name))
        errors += [forbidden(f"{at}.{name}", _NO_EPHEMERAL) for name in forbidden_fields]
        for j, mount in enumerate(container.get("volumeMounts") or ()):
            paths = (name for name in ("subPath", "subPathExpr") if mount.get(name))
            errors += [forbidden(f"{at}.volumeMounts[{j}].{name}", _NO_EPHEMERAL) for name in paths]


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


def _validate_mounts(container: Object, volumes: set[str], field: str, errors: list[FieldError]) -> None:
    paths: set[str] = set()
    devices = container.get("volumeDevices") or ()
    for i, mount in enumerate(container["volumeMounts"]):
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
        if devices:
            errors += wrong_mount_of_device(name, path, devices, f"{field}[{i}]")
        if mount.keys() - _PLAIN_MOUNT:
            errors += _wrong_mount(mount, container, field, f"{field}[{i}]")


def _wrong_mount(mount: Object, container: Object, field: str, at: str) -> Iterator[FieldError]:
    """Validate subPath, propagation and read-only mode of a volume mount.

    Most errors name the path without the index of the mount (`field`), as upstream's.
    """
    below, expression = mount.get("subPath") or "", mount.get("subPathExpr") or ""
    yield from wrong_path(below, f"{field}.subPath")
    if expression:
        if below:
            yield invalid(f"{at}.subPathExpr", expression, "subPathExpr and subPath are mutually exclusive")
        yield from wrong_path(expression, f"{field}.subPathExpr")
    propagation, recursively = mount.get("mountPropagation"), mount.get("recursiveReadOnly")
    if propagation is not None:
        if propagation not in _PROPAGATIONS:
            yield not_supported(f"{field}.mountPropagation", propagation, _PROPAGATIONS)
        elif propagation == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
            detail = "Bidirectional mount propagation is available only to privileged containers"
            yield forbidden(f"{field}.mountPropagation", detail)
    at = f"{field}.recursiveReadOnly"
    if recursively in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            yield forbidden(at, "may only be specified when readOnly is true")
        if propagation not in (None, "None"):
            yield forbidden(at, "may only be specified when mountPropagation is None or not specified")
    elif recursively not in (None, "Disabled"):
        yield not_supported(at, recursively, ("Disabled", "Enabled", "IfPossible"))


def validate_toleration(toleration: Object, field: str, errors: list[FieldError]) -> None:
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
