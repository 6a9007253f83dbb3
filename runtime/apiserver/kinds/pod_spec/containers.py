"""Validation of the volume devices and the restart rules of containers.

Source: kubernetes pkg/apis/core/validation/validation.go (ValidateVolumeDevices, validateContainerRestartPolicy;
v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, not_found, not_supported, required, too_many
from kcm.runtime.apiserver.kinds.pod_spec.volumes import parent_steps

_POLICIES = ("Always", "Never", "OnFailure")
_ACTIONS, _OPERATORS = ("Restart", "RestartAllContainers"), ("In", "NotIn")
_MOST_RULES, _MOST_CODES = 20, 255
_UNIQUE = "must be unique"

Part = Mapping[str, Any]


def wrong_devices(container: Part, spec: Part, field: str) -> Iterator[FieldError]:
    """Validate volumeDevices: each names a claim, and neither the claim nor its path is also in volumeMounts."""
    volumes = {volume.get("name"): volume for volume in spec.get("volumes") or ()}
    mounts = container.get("volumeMounts") or ()
    names: set[str] = set()
    paths: set[str] = set()
    for i, device in enumerate(container["volumeDevices"]):
        name, path, at = device.get("name") or "", device.get("devicePath") or "", f"{field}[{i}]"
        if not name:
            yield required(f"{at}.name")
        if name in names:
            yield invalid(f"{at}.name", name, _UNIQUE)
        if name not in volumes:
            yield not_found(f"{at}.name", name)
        elif not any(volumes[name].get(kind) is not None for kind in ("persistentVolumeClaim", "ephemeral")):
            detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            yield invalid(f"{at}.name", name, detail)
        if not path:
            yield required(f"{at}.devicePath")
        if path in paths:
            yield invalid(f"{at}.devicePath", path, _UNIQUE)
        if any(parent_steps(path, field)):
            yield invalid(f"{at}.devicePath", path, "can not contain backsteps ('..')")
        else:
            paths.add(path)
        if any(mount.get("name") == name for mount in mounts):
            yield invalid(f"{at}.name", name, "must not already exist in volumeMounts")
        if any(mount.get("mountPath") == path for mount in mounts):
            yield invalid(f"{at}.devicePath", path, "must not already exist as a path in volumeMounts")
        if name:
            names.add(name)


def wrong_mount_of_device(name: str, path: str, devices: Sequence[Part], field: str) -> Iterator[FieldError]:
    """Yield an error if a volume mount has the name or the path of a volume device."""
    if any(device.get("name") == name for device in devices):
        yield invalid(f"{field}.name", name, "must not already exist in volumeDevices")
    if any(device.get("devicePath") == path for device in devices):
        yield invalid(f"{field}.mountPath", path, "must not already exist as a path in volumeDevices")


def wrong_restarts(container: Part, field: str) -> Iterator[FieldError]:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    if policy is None:
        if rules:
            yield required(f"{field}.restartPolicy", "must specify restartPolicy when restart rules are used")
    elif policy not in _POLICIES:
        yield not_supported(f"{field}.restartPolicy", policy, _POLICIES)
    if len(rules) > _MOST_RULES:
        yield too_many(f"{field}.restartPolicyRules", len(rules), _MOST_RULES)
    for i, rule in enumerate(rules):
        at, action, codes = f"{field}.restartPolicyRules[{i}]", rule.get("action") or "", rule.get("exitCodes")
        if action not in _ACTIONS:
            yield not_supported(f"{at}.action", action, _ACTIONS)
        if codes is None:
            yield required(f"{at}.exitCodes", "must be specified")
            continue
        if codes.get("operator") not in _OPERATORS:
            yield not_supported(f"{at}.exitCodes.operator", codes.get("operator") or "", _OPERATORS)
        if len(codes.get("values") or ()) > _MOST_CODES:
            yield too_many(f"{at}.exitCodes.values", len(codes["values"]), _MOST_CODES)
