"""Reader of --leader-migration-config: a LeaderMigrationConfiguration, with upstream's error texts.

Source: kubernetes v1.36 controller-manager/pkg/leadermigration/{config,options}; config/{v1,v1beta1,v1alpha1}.
Differs: a lock of type endpoints is an error at the start; upstream exits when it competes for the lock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kcm.actors.engine.elector.migration import DEFAULT_MIGRATION, Migration
from kcm.actors.options import Options
from kcm.runtime.flags.values import quote
from kcm.runtime.process.yaml_texts import json_type

GROUP = "controllermanager.config.k8s.io"
KIND = "LeaderMigrationConfiguration"
SCHEME = "k8s.io/controller-manager/pkg/leadermigration/config/config.go:39"  # part of upstream's text
LEASES, ENDPOINTS = "leases", "endpoints"
# Known fields, with the Go type that upstream's errors name. In v1 the lock is always a Lease.
LEADER_FIELDS = {"name": "string", "component": "string"}
FIELDS = {"kind": "string", "apiVersion": "string", "leaderName": "string", "controllerLeaders": "list"}
OLD_FIELDS = {**FIELDS, "resourceLock": "string"}
VERSIONS = {"v1": FIELDS, "v1beta1": OLD_FIELDS, "v1alpha1": OLD_FIELDS}


class MigrationError(Exception):
    """Invalid configuration of leader migration. The text is upstream's."""


def read_migration(options: Options) -> Migration | None:
    """Return the configuration that the flags select; None without leader migration. Raises MigrationError.

    Leader migration requires --enable-leader-migration and leader election. The file is checked without the latter too.
    """
    chosen = options.leader_migration
    if not chosen.enabled:
        return None
    migration = parse_migration(Path(chosen.config_file)) if chosen.config_file else DEFAULT_MIGRATION
    return migration if options.leader_election.enabled else None


def parse_migration(path: Path) -> Migration:
    """Return the configuration in a file. Raises MigrationError."""
    from kcm.runtime.process.go_yaml import YamlError, read_first  # few runs need it

    try:
        raw = path.read_bytes()
    except OSError as err:
        reason = (err.strerror or str(err)).lower()
        raise MigrationError(
            f"unable to read leader migration configuration from {quote(str(path))}: open {path}: {reason}"
        ) from err
    try:
        document = read_first(raw)
    except YamlError as err:
        raise MigrationError(str(err)) from err
    version = _version_of(document.value, raw.decode(errors="replace"))
    found = _typed(document.value, VERSIONS[version], version)
    strict = []
    if document.repeated:
        strict.append("yaml: unmarshal errors:" + "".join(f"\n  {text}" for text in document.repeated))
    strict += [f"unknown field {quote(name)}" for name in _unknown(found, VERSIONS[version])]
    if strict:
        raise MigrationError(f"strict decoding error: {', '.join(strict)}")
    lock = LEASES if version == "v1" else found.get("resourceLock") or ""
    errors = list(_errors(found, lock))
    if errors:
        raise MigrationError(f"failed to parse leader migration configuration: [{' '.join(errors)}]")
    if lock == ENDPOINTS:
        raise MigrationError(f"endpoints lock is removed, migrate to {LEASES}")
    return Migration(
        lease=found["leaderName"],
        components={leader["name"]: leader["component"] for leader in found.get("controllerLeaders") or ()},
    )


def _version_of(value: Any, text: str) -> str:
    """Return the version of the object. Raises MigrationError if it is another kind of object."""
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise MigrationError(
            f"couldn't get version/kind; json parse error: json: cannot unmarshal {json_type(value)} into Go value of "
            'type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
            'Kind string "json:\\"kind,omitempty\\"" }'
        )
    for field in ("apiVersion", "kind"):
        if value.get(field) is not None and not isinstance(value[field], str):
            raise MigrationError(
                f"couldn't get version/kind; json parse error: json: cannot unmarshal {json_type(value[field])} into "
                f"Go struct field .{field} of type string"
            )
    kind, api_version = value.get("kind") or "", value.get("apiVersion") or ""
    if not kind:
        raise MigrationError(f"Object 'Kind' is missing in '{text}'")
    if not api_version:
        raise MigrationError(f"Object 'apiVersion' is missing in '{text}'")
    if api_version.count("/") > 1:
        raise MigrationError(f"unexpected GroupVersion string: {api_version}")
    group, _, version = api_version.rpartition("/")
    if (group, kind) != (GROUP, KIND) or version not in VERSIONS:
        raise MigrationError(f'no kind "{kind}" is registered for version "{api_version}" in scheme "{SCHEME}"')
    return str(version)


def _typed(value: Mapping[str, Any], fields: Mapping[str, str], version: str) -> Mapping[str, Any]:
    """Return the object after a check of its types. Raises MigrationError."""
    for name, content in value.items():
        if content is None or name not in fields:
            continue
        if fields[name] == "string" and not isinstance(content, str):
            raise _wrong_type(content, name, "string")
        if fields[name] == "list":
            if not isinstance(content, list):
                raise _wrong_type(content, name, f"[]{version}.ControllerLeaderConfiguration")
            for leader in content:
                if leader is not None and not isinstance(leader, dict):
                    raise _wrong_type(leader, name, f"{version}.ControllerLeaderConfiguration")
                for field in LEADER_FIELDS:
                    entry = (leader or {}).get(field)
                    if entry is not None and not isinstance(entry, str):
                        raise _wrong_type(entry, f"{name}.{field}", "string")
    leaders = [leader or {} for leader in value.get("controllerLeaders") or ()]
    return {**value, "controllerLeaders": leaders}


def _wrong_type(content: Any, field: str, expected: str) -> MigrationError:
    return MigrationError(
        f"json: cannot unmarshal {json_type(content)} into Go struct field {KIND}.{field} of type {expected}"
    )


def _unknown(found: Mapping[str, Any], fields: Mapping[str, str]) -> Iterator[str]:
    """Yield the paths of unknown fields, in the order of their names."""
    for name in sorted(found):
        if name not in fields:
            yield name
        elif fields[name] == "list":
            for number, leader in enumerate(found[name]):
                for field in sorted(leader):
                    if field not in LEADER_FIELDS:
                        yield f"{name}[{number}].{field}"


def _errors(found: Mapping[str, Any], lock: str) -> Iterator[str]:
    if not found.get("leaderName"):
        yield "leaderName: Required value: leaderName must be set for LeaderMigrationConfiguration"
    if lock not in (LEASES, ENDPOINTS):
        yield f"resourceLock: Invalid value: {quote(lock)}: resource Lock must be one of 'leases' or 'endpoints'"
    for number, leader in enumerate(found["controllerLeaders"]):
        for field in ("component", "name"):
            if not leader.get(field):
                yield f"controllerLeaders[{number}].{field}: Required value"
