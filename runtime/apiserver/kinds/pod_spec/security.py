"""Validation of the security contexts of pods and containers.

Source: kubernetes pkg/apis/core/validation/validation.go, ValidateSecurityContext, validatePodSpecSecurityContext
(v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid, not_supported, required, too_long
from kcm.runtime.apiserver.kinds.pod_spec.volumes import wrong_path
from kcm.runtime.apiserver.kinds.pod_spec.windows import wrong_windows_options
from kcm.runtime.apiserver.schema.inner_forms import inner_form

_MOST = 2**31 - 1
_ID = f"must be between 0 and {_MOST}, inclusive"
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_LONGEST_PROFILE, _LONGEST_SYSCTL = 4095, 253
_SEGMENT = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL = f"({_SEGMENT}[\\./])*{_SEGMENT}"
# Field by which a pod shares a namespace of the node → prefixes of sysctls that are then forbidden.
_HOST_SYSCTLS = (
    ("hostNetwork", ("net.",)),
    ("hostIPC", ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")),
)
_sysctl = re.compile(_SYSCTL)

Part = Mapping[str, Any]


def wrong_container_context(context: Part, field: str, *, host_users: bool) -> Iterator[FieldError]:
    """Validate the securityContext of a container.

    host_users: whether the pod uses the node's user namespace (spec.hostUsers is not false)
    """
    for name in ("runAsUser", "runAsGroup"):
        yield from _id(context, name, field)
    mount = context.get("procMount")
    if mount is not None:
        if mount not in ("Default", "Unmasked"):
            yield not_supported(f"{field}.procMount", mount, ("Default", "Unmasked"))
        if host_users and mount == "Unmasked":
            yield invalid(f"{field}.procMount", mount, "`hostUsers` must be false to use `Unmasked`")
    yield from _seccomp(context, field)
    if context.get("allowPrivilegeEscalation") is False:
        shown = inner_form(context, "core.SecurityContext")
        detail = "cannot set `allowPrivilegeEscalation` to false and `{}"
        if context.get("privileged"):
            yield invalid(field, shown, detail.format("privileged` to true"))
        for capability in (context.get("capabilities") or {}).get("add") or ():
            if capability == "CAP_SYS_ADMIN":
                yield invalid(
                    field, inner_form(context, "core.SecurityContext"), detail.format("capabilities.Add` CAP_SYS_ADMIN")
                )
    yield from _apparmor(context, field)
    if context.get("windowsOptions") is not None:
        yield from wrong_windows_options(context["windowsOptions"], f"{field}.windowsOptions")


def wrong_pod_context(spec: Part, field: str) -> Iterator[FieldError]:
    context = spec.get("securityContext") or {}
    for name in ("fsGroup", "runAsUser", "runAsGroup"):
        yield from _id(context, name, field)
    for i, group in enumerate(context.get("supplementalGroups") or ()):
        if not 0 <= group <= _MOST:
            yield invalid(f"{field}.supplementalGroups[{i}]", group, _ID)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid(f"{field}.shareProcessNamespace", True, detail)
    yield from _sysctls(context.get("sysctls") or (), f"{field}.sysctls", spec)
    yield from _one_of(context, "fsGroupChangePolicy", ("Always", "OnRootMismatch"), field)
    yield from _seccomp(context, field)
    yield from _apparmor(context, field)
    if context.get("windowsOptions") is not None:
        yield from wrong_windows_options(context["windowsOptions"], f"{field}.windowsOptions")
    yield from _one_of(context, "supplementalGroupsPolicy", ("Merge", "Strict"), field)
    yield from _one_of(context, "seLinuxChangePolicy", ("MountOption", "Recursive"), field)


def _one_of(context: Part, name: str, supported: tuple[str, ...], field: str) -> Iterator[FieldError]:
    value = context.get(name)
    if value is not None and value not in supported:
        yield not_supported(f"{field}.{name}", value, supported)


def _id(context: Part, name: str, field: str) -> Iterator[FieldError]:
    value = context.get(name)
    if value is not None and not 0 <= value <= _MOST:
        yield invalid(f"{field}.{name}", value, _ID)


def _seccomp(context: Part, field: str) -> Iterator[FieldError]:
    profile, at = context.get("seccompProfile"), f"{field}.seccompProfile"
    if profile is None:
        return
    type_, local = profile.get("type") or "", profile.get("localhostProfile")
    if not type_:
        yield required(f"{at}.type", "type is required when seccompProfile is set")
    elif type_ not in _PROFILES:
        yield not_supported(f"{at}.type", type_, _PROFILES)
    if type_ == "Localhost":
        if local is None:
            yield required(f"{at}.localhostProfile", "must be set when seccomp type is Localhost")
        else:
            yield from wrong_path(local, f"{at}.localhostProfile")
    elif local is not None:
        shown = {"Type": type_, "LocalhostProfile": local}
        yield invalid(f"{at}.localhostProfile", shown, "can only be set when seccomp type is Localhost")


def _apparmor(context: Part, field: str) -> Iterator[FieldError]:
    profile, at = context.get("appArmorProfile"), f"{field}.appArmorProfile"
    if profile is None:
        return
    type_, local = profile.get("type") or "", profile.get("localhostProfile")
    if type_ == "Localhost":
        if local is not None and local.strip() != local:
            yield invalid(f"{at}.localhostProfile", local, "must not be padded with whitespace")
        elif not local:
            yield required(f"{at}.localhostProfile", "must be set when AppArmor type is Localhost")
        if local is not None and len(local) > _LONGEST_PROFILE:
            yield too_long(f"{at}.localhostProfile", _LONGEST_PROFILE)
    elif not type_:
        yield required(f"{at}.type", "type is required when appArmorProfile is set")
    elif type_ not in _PROFILES:
        yield not_supported(f"{at}.type", type_, _PROFILES)
    elif local is not None:
        yield invalid(f"{at}.localhostProfile", local, "can only be set when AppArmor type is Localhost")


def _sysctls(sysctls: Any, field: str, spec: Part) -> Iterator[FieldError]:
    seen: set[str] = set()
    for i, sysctl in enumerate(sysctls):
        name, at = sysctl.get("name") or "", f"{field}[{i}].name"
        if not name:
            yield required(at)
        elif len(name) > _LONGEST_SYSCTL or not _sysctl.fullmatch(name):
            detail = f"must have at most {_LONGEST_SYSCTL} characters and match regex ^{_SYSCTL}$"
            yield invalid(at, name, detail)
        elif name in seen:
            yield FieldError("FieldValueDuplicate", at, name)
        seen.add(name)
        for host, prefixes in _HOST_SYSCTLS:
            if spec.get(host) and name.startswith(prefixes):
                yield invalid(at, name, f"may not be specified when '{host}' is true")


def wrong_host_users(spec: Part, field: str) -> Iterator[FieldError]:
    """Yield errors for fields that require the node's user namespace in a pod with hostUsers=false."""
    if spec.get("hostUsers") is False:
        for name, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
            if spec.get(name):
                yield forbidden(f"{field}.{shown}", "when `hostUsers` is false")
        for part in ("initContainers", "containers"):
            for i, container in enumerate(spec.get(part) or ()):
                if container.get("volumeDevices"):
                    yield forbidden(f"{field}.{part}[{i}].volumeDevices", "when `hostUsers` is false")
