"""Warnings about pods and pod templates: deprecated, duplicate and ineffective settings.

Malformed usage annotations of hollow pods (usage.py) cause warnings too, which upstream does not have.

Source: kubernetes pkg/api/pod/warnings.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import quoted
from kcm.runtime.apiserver.kinds.pod_spec.clean_specs import CleanSpecs, key_of
from kcm.runtime.apiserver.kinds.pod_spec.preparation import APPARMOR
from kcm.runtime.apiserver.kinds.pod_spec.scheduling import PREFERRED, REQUIRED
from kcm.runtime.apiserver.kinds.pod_spec.usage import usage_problems
from kcm.runtime.apiserver.rules.warnings import (
    FRACTIONS,
    NODE_LABELS,
    of_address,
    of_bytes,
    of_claim_spec,
    of_node_term,
)

_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_VOLUMES = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_SHOWN = {"storageos": "storageOS"}
_SECCOMP = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_BYTE_RESOURCES = ("memory", "ephemeral-storage")
_NO_SELECTOR = "labelSelector: a null labelSelector results in matching no pod"
# Pods without any of these fields skip the checks for them, as pods are written often.
_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
_SCHEDULING_FIELDS = ("nodeSelector", "affinity", "topologySpreadConstraints")
_LIST_FIELDS = ("hostAliases", "imagePullSecrets", "overhead", "dnsConfig")

Part = Mapping[str, Any]
_clean_specs = CleanSpecs()


def warnings_of_template(template: Object, field: str) -> Iterable[str]:
    return _warnings_once(template, f"{field}.")


def warnings_of_pod(pod: Object) -> Iterable[str]:
    return _warnings_once(pod, "")


def _warnings_once(obj: Object, at: str) -> Iterable[str]:
    """Return the warnings about a pod or template. Specs without annotations and warnings are cached."""
    if obj.get("metadata", {}).get("annotations"):
        return _warnings(obj, at)
    key = key_of(obj["spec"])
    if key in _clean_specs:
        return ()
    found = [*_warnings(obj, at)]
    if not found:
        _clean_specs.add(key)
    return found


def _warnings(obj: Object, at: str) -> Iterator[str]:
    """Yield the warnings about a pod or template. at: prefix of field paths; "" for a pod."""
    spec, annotations = obj["spec"], obj.get("metadata", {}).get("annotations") or {}
    if not spec.keys().isdisjoint(_SCHEDULING_FIELDS):
        yield from _scheduling_warnings(spec, f"{at}spec")
    if annotations:
        yield from (
            f"{at}metadata.annotations[{key}]: {text}" for key, text in _ANNOTATIONS.items() if key in annotations
        )
        yield from usage_problems(annotations, f"{at}metadata.annotations")
    if spec.get("volumes"):
        yield from _volume_warnings(spec["volumes"], f"{at}spec.volumes")
    if not spec.keys().isdisjoint(_LIST_FIELDS):
        yield from _list_warnings(spec, f"{at}spec")
    if _SECCOMP_POD in annotations and not (spec.get("securityContext") or {}).get("seccompProfile"):
        yield f"{at}metadata.annotations[{_SECCOMP_POD}]: {_SECCOMP}"
    yield from _container_warnings(spec, annotations, at)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        detail = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{at}spec.terminationGracePeriodSeconds: {detail}"
    if "affinity" in spec:
        yield from _pod_term_warnings(spec["affinity"], f"{at}spec.affinity")
    if not spec.keys().isdisjoint(("dnsConfig", "hostAliases")):
        yield from _address_warnings(spec, f"{at}spec")


def _address_warnings(spec: Part, field: str) -> Iterator[str]:
    for i, server in enumerate((spec.get("dnsConfig") or {}).get("nameservers") or ()):
        yield from of_address(server, f"{field}.dnsConfig.nameservers[{i}]")
    for i, alias in enumerate(spec.get("hostAliases") or ()):
        yield from of_address(alias.get("ip") or "", f"{field}.hostAliases[{i}].ip")


def _scheduling_warnings(spec: Part, field: str) -> Iterator[str]:
    for key in spec.get("nodeSelector") or ():
        if key in NODE_LABELS:
            yield f"{field}.nodeSelector[{key}]: {NODE_LABELS[key]}"
    nodes = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    for i, term in enumerate((nodes.get(REQUIRED) or {}).get("nodeSelectorTerms") or ()):
        yield from of_node_term(term, f"{field}.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[{i}]")
    for i, term in enumerate(nodes.get(PREFERRED) or ()):
        at = f"{field}.affinity.nodeAffinity.{PREFERRED}[{i}].preference"
        yield from of_node_term(term.get("preference") or {}, at, values=True)
    for i, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        at, key = f"{field}.topologySpreadConstraints[{i}]", constraint.get("topologyKey") or ""
        if key in NODE_LABELS:
            yield f"{at}.topologyKey: {key} is {NODE_LABELS[key]}"
        if constraint.get("labelSelector") is None:
            yield f"{at}.{_NO_SELECTOR}"


def _pod_term_warnings(affinity: Part, field: str) -> Iterator[str]:
    for part in ("podAffinity", "podAntiAffinity"):
        found = affinity.get(part) or {}
        for i, term in enumerate(found.get(REQUIRED) or ()):
            if term.get("labelSelector") is None:
                yield f"{field}.{part}.{REQUIRED}[{i}].{_NO_SELECTOR}"
        for i, term in enumerate(found.get(PREFERRED) or ()):
            if (term.get("podAffinityTerm") or {}).get("labelSelector") is None:
                yield f"{field}.{part}.{PREFERRED}[{i}].podAffinityTerm.{_NO_SELECTOR}"


def _list_warnings(spec: Part, field: str) -> Iterator[str]:
    for name, key in (("hostAliases", "ip"), ("imagePullSecrets", "name")):
        seen: set[str] = set()
        for i, item in enumerate(spec.get(name) or ()):
            value = item.get(key) or ""
            if value in seen:
                yield f"{field}.{name}[{i}].{key}: duplicate {key} {quoted(value)}"
            seen.add(value)
    for i, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if not secret.get("name"):
            yield f'{field}.imagePullSecrets[{i}].name: invalid empty name ""'
    yield from of_bytes(spec.get("overhead"), _BYTE_RESOURCES, f"{field}.overhead")


class _Port(NamedTuple):
    """Port of a container.

    field: its path, for warnings
    host: hostIP and hostPort
    """

    field: str
    host: tuple[str, int]


def _container_warnings(spec: Part, annotations: Part, at: str) -> Iterator[str]:
    """Yield the warnings about containers. Those about ports come last, as ports of all containers are compared."""
    ports: dict[tuple[int, str], list[_Port]] = {}
    names: dict[str, str] = {}
    port_warnings: list[str] = []
    name_warnings: list[str] = []
    pod_profile = (spec.get("securityContext") or {}).get("appArmorProfile")
    for part in _CONTAINER_LISTS:
        if part not in spec:
            continue
        for i, container in enumerate(spec[part] or ()):
            if annotations:
                yield from _profile_warnings(container, annotations, pod_profile, at)
            if container["resources"]:
                for kind in ("limits", "requests"):
                    amounts = container["resources"].get(kind)
                    if amounts and any(amounts.get(name, "")[-1:] in FRACTIONS for name in _BYTE_RESOURCES):
                        yield from of_bytes(amounts, _BYTE_RESOURCES, f"{at}spec.{part}[{i}].resources.{kind}")
            if "env" in container and len(container["env"]) > 1:
                yield from _variable_warnings(container["env"], f"{at}spec.{part}[{i}].env")
            if "ports" in container:
                for j, port in enumerate(container["ports"]):
                    field = f"{at}spec.{part}[{i}].ports[{j}]"
                    port_warnings += _port_warnings(port, field, ports)
                    name_warnings += _port_name_warnings(port.get("name"), field, names)
    yield from port_warnings
    yield from name_warnings


def _profile_warnings(container: Part, annotations: Part, pod_profile: Part | None, at: str) -> Iterator[str]:
    name, context = container.get("name") or "", container.get("securityContext") or {}
    if f"{_SECCOMP_CONTAINER}{name}" in annotations and not context.get("seccompProfile"):
        yield f"{at}metadata.annotations[{_SECCOMP_CONTAINER}{name}]: {_SECCOMP}"
    key = f"{APPARMOR}{name}"
    if at and key in annotations and not context.get("appArmorProfile") and not pod_profile:
        yield f'{at}metadata.annotations[{key}]: deprecated since v1.30; use the "appArmorProfile" field instead'


def _variable_warnings(variables: Iterable[Part], field: str) -> Iterator[str]:
    seen: set[str] = set()
    for i, variable in enumerate(variables):
        name, value = variable.get("name") or "", variable.get("value") or ""
        reference = f"$({name})"
        hides = variable.get("valueFrom") is not None or value == reference or reference not in value
        if name in seen and hides:
            yield f"{field}[{i}]: hides previous definition of {quoted(name)}, which may be dropped when using apply"
        seen.add(name)


def _port_warnings(port: Part, field: str, known: dict[tuple[int, str], list[_Port]]) -> Iterator[str]:
    """Yield warnings about earlier ports of the pod that conflict with this port.

    known: earlier ports by (containerPort, protocol); receives this port
    """
    address, number = host = (port.get("hostIP") or "", port.get("hostPort") or 0)
    others = known.setdefault((port.get("containerPort") or 0, port.get("protocol") or ""), [])
    for other in others:
        if host == other.host:
            yield f"{field}: duplicate port definition with {other.field}"
        elif not number or not other.host[1]:
            yield f"{field}: overlapping port definition with {other.field}"
        elif number == other.host[1] and bool(address) != bool(other.host[0]):
            yield f"{field}: dangerously ambiguous port definition with {other.field}"
    others.append(_Port(field, host))


def _port_name_warnings(name: str | None, field: str, known: dict[str, str]) -> Iterator[str]:
    if name and name in known:
        yield (
            f"{field}: duplicate port name {quoted(name)} with {known[name]}, services and probes that select ports by "
            f"name will use {known[name]}"
        )
    elif name:
        known[name] = field


def _volume_warnings(volumes: Iterable[Part], field: str) -> Iterator[str]:
    paths: list[str] = []
    for i, volume in enumerate(volumes):
        for name, text in _VOLUMES.items():
            if volume.get(name) is not None:
                yield f"{field}[{i}].{_SHOWN.get(name, name)}: {text}"
        claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if claim is not None:
            yield from of_claim_spec(claim.get("spec") or {}, f"{field}[{i}].ephemeral.volumeClaimTemplate.spec")
        paths += _path_warnings(volume)
    yield from paths


class _Path(NamedTuple):
    """File path in a volume.

    source: source of the file for warnings, such as a ConfigMap; "" if the volume has only one
    """

    path: str
    source: str

    def __str__(self) -> str:
        return f"{quoted(self.path)} ({self.source})" if self.source else quoted(self.path)


def _path_warnings(volume: Part) -> Iterator[str]:
    """Yield warnings about files of one volume whose paths overlap."""
    name = quoted(volume.get("name") or "")
    for kind, source_name, key in (("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName")):
        if (source := volume.get(kind)) is not None:
            yield from _overlaps(name, f"{source_name} {quoted(source.get(key) or '')}", [_items(source, "")])
    if volume.get("downwardAPI") is not None:
        yield from _overlaps(name, "DownwardAPI", [_items(volume["downwardAPI"], "")])
    if volume.get("projected") is not None:
        groups = []
        for source in volume["projected"].get("sources") or ():
            if not source:
                yield f"volume {name} (Projected) has no sources provided"
            groups.append(_projected(source))
        yield from _overlaps(name, "Projected", groups)


def _items(source: Part, source_name: str) -> list[_Path]:
    return [_Path((item.get("path") or "").rstrip("/"), source_name) for item in source.get("items") or ()]


def _projected(source: Part) -> list[_Path]:
    for kind, source_name in (("configMap", "ConfigMap"), ("secret", "Secret")):
        if (part := source.get(kind)) is not None and part.get("items") is not None:
            return _items(part, f"{source_name} {quoted(part.get('name') or '')}")
    if (part := source.get("downwardAPI")) is not None and part.get("items") is not None:
        return _items(part, "DownwardAPI")
    if (part := source.get("serviceAccountToken")) is not None:
        return [_Path((part.get("path") or "").rstrip("/"), "ServiceAccountToken")]
    return []


def _overlaps(volume: str, source: str, groups: Iterable[list[_Path]]) -> Iterator[str]:
    known: list[_Path] = []
    for group in groups:
        for path in group:
            for other in known:
                if path.path and other.path and _overlap(path.path, other.path):
                    yield f"volume {volume} ({source}): overlapping paths: {path} with {other}"
            known.append(path)


def _overlap(path: str, other: str) -> bool:
    return f"{path}/".startswith(f"{other}/") or f"{other}/".startswith(f"{path}/")
