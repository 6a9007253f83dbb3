"""StorageVersions (internal.apiserver.k8s.io/v1alpha1): validation and table columns.

Every kube-apiserver reports in them the versions in which it encodes and decodes each resource. Upstream serves them
with --runtime-config=internal.apiserver.k8s.io/v1alpha1 and the feature gates APIServerIdentity and StorageVersionAPI.

Source: kubernetes pkg/registry/apiserverinternal/storageversion/strategy.go,
pkg/apis/apiserverinternal/validation/validation.go, pkg/printers/internalversion/printers.go (printStorageVersion)
(v1.36). Difference: the feature gates are not required.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, duplicate, invalid, required
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import UNSET, age_cell, items, name_cell, part, shortened
from kcm.runtime.apiserver.rules.conditions import fill_times
from kcm.runtime.apiserver.rules.names import dns1035_label, dns_subdomain, label_key

_EMPTY = "must be non-empty"
_NOT_A_VERSION = (
    "an apiVersion is a DNS-1035 label, which must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    "validation is '[a-z]([-a-z0-9]*[a-z0-9])?') with an optional DNS subdomain prefix and '/' (e.g. "
    "'example.com/MyVersion')"
)


def set_defaults(storage_version: Object) -> None:
    fill_times(storage_version, "lastTransitionTime")


def validate_name(name: str) -> list[str]:
    group, dot, resource = name.rpartition(".")
    if not dot:
        return ["name must be in the form of <group>.<resource>"]
    return [
        *(f"the group segment {text}" for text in dns_subdomain(group)),
        *(f"the resource segment {text}" for text in dns1035_label(resource)),
    ]


def validate_status_update(new: Object, _old: Object) -> list[FieldError]:
    return [*_status_errors(new.get("status") or {})]


def _status_errors(status: Mapping[str, Any]) -> Iterator[FieldError]:
    servers = items(status, "storageVersions")
    ids: set[str] = set()
    for i, server in enumerate(servers):
        field, server_id = f"status.storageVersions[{i}]", server.get("apiServerID") or ""
        if server_id in ids:
            yield duplicate(f"{field}.apiServerID", server_id)
        ids.add(server_id)
        yield from _server_errors(server, field)
    yield from _common_errors(status, servers)
    yield from _condition_errors(items(status, "conditions"))


def _server_errors(server: Mapping[str, Any], field: str) -> Iterator[FieldError]:
    server_id, encoding = server.get("apiServerID") or "", server.get("encodingVersion") or ""
    yield from (invalid(f"{field}.apiServerID", server_id, text) for text in dns_subdomain(server_id))
    if problems := _api_version_problems(encoding):
        yield invalid(f"{field}.encodingVersion", encoding, ",".join(problems))
    decodable = items(server, "decodableVersions")
    for i, version in enumerate(decodable):
        if problems := _api_version_problems(version):
            yield invalid(f"{field}.decodableVersions[{i}]", version, ",".join(problems))
    if encoding not in decodable:
        text = f"decodableVersions must include encodingVersion {encoding}"
        yield invalid(f"{field}.decodableVersions", list(decodable) or None, text)
    for i, version in enumerate(items(server, "servedVersions")):
        if problems := _api_version_problems(version):
            yield invalid(f"{field}.servedVersions[{i}]", version, ",".join(problems))
        if version not in decodable:
            text = (
                f"individual served version : {version} must be included in decodableVersions : [{' '.join(decodable)}]"
            )
            yield invalid(f"{field}.servedVersions[{i}]", version, text)


def _common_errors(status: Mapping[str, Any], servers: Sequence[Mapping[str, Any]]) -> Iterator[FieldError]:
    field, given = "status.commonEncodingVersion", status.get("commonEncodingVersion")
    versions = {server.get("encodingVersion") or "" for server in servers}
    if len(versions) != 1:
        if given is not None:
            yield invalid(
                field,
                given,
                "should be nil if servers do not agree on the same encoding version, or if there is no server "
                "reporting the supported versions yet",
            )
        return
    (common,) = versions
    if given is None:
        yield invalid(field, None, f"the common encoding version is {common}")
    elif given != common:
        yield invalid(field, given, f"the actual common encoding version is {common}")


def _condition_errors(conditions: Sequence[Mapping[str, Any]]) -> Iterator[FieldError]:
    seen: dict[str, int] = {}
    for i, condition in enumerate(conditions):
        field, type_, state = f"status[{i}]", condition.get("type") or "", condition.get("status") or ""
        if type_ in seen:
            text = f"the type of the condition is not unique, it also appears in conditions[{seen[type_]}]"
            yield invalid(f"{field}.type", type_, text)
        seen[type_] = i
        yield from (invalid(f"{field}.type", type_, text) for text in label_key(type_))
        yield from (invalid(f"{field}.status", state, text) for text in label_key(state))
        for name in ("reason", "message"):
            if not condition.get(name):
                yield required(f"{field}.{name}")


def _api_version_problems(text: str) -> list[str]:
    """Return the problems of an apiVersion. Source: isValidAPIVersion."""
    group, slash, version = text.rpartition("/")
    if "/" in group:
        return [_NOT_A_VERSION]
    problems = []
    if slash:
        problems += [f"group part: {problem}" for problem in (dns_subdomain(group) if group else [_EMPTY])]
    return problems + [f"version part: {problem}" for problem in (dns1035_label(version) if version else [_EMPTY])]


def cells(storage_version: Object, now: float) -> list[Any]:
    status = part(storage_version, "status")
    servers = [
        f"{server.get('apiServerID') or ''}={server.get('encodingVersion') or ''}"
        for server in items(status, "storageVersions")
    ]
    common = status.get("commonEncodingVersion")
    return [
        name_cell(storage_version),
        UNSET if common is None else common,
        shortened(servers),
        age_cell(storage_version, now),
    ]


RESOURCE = ResourceDefinition(
    group="internal.apiserver.k8s.io",
    version="v1alpha1",
    plural="storageversions",
    kind="StorageVersion",
    namespaced=False,
    subresources=("status",),
    strategy=Strategy(
        validate_name=validate_name,
        set_defaults=set_defaults,
        allow_unconditional_update=False,
        has_status=True,
        validate_status_update=validate_status_update,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("CommonEncodingVersion"),
            Column("StorageVersions"),
            AGE,
        ),
        cells=cells,
    ),
)
