"""Validation of Windows options, and of pods whose spec.os is windows or linux.

Source: kubernetes pkg/apis/core/validation/validation.go (validateWindowsSecurityContextOptions, validateWindows;
v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid
from kcm.runtime.apiserver.rules.names import dns_subdomain

_LONGEST_SPEC_KIB = 64
_LONGEST_DOMAIN, _LONGEST_USER = 256, 104
_NOT_OF_PODS = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "fsGroup", "fsGroupChangePolicy", "sysctls", "runAsUser"),
    *("runAsGroup", "supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy"),
)
_NOT_OF_CONTAINERS = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged"),
    *("allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup"),
)
_NOT = "cannot be set for a windows pod"
_control = re.compile("[\\x00-\\x1f\\x7f]")
_netbios = re.compile('[^\\\\/:*?"<>|.][^\\\\/:*?"<>|]{0,14}')
_domain = re.compile("(?:[A-Za-z0-9][A-Za-z0-9-]{0,62}(?<!-)\\.)*[A-Za-z0-9][A-Za-z0-9-]{0,62}(?<!-)")
_dots = re.compile("[. ]+")
_odd = re.compile('["/\\\\\\[\\]:;|=,+*?<>@]')

Part = Mapping[str, Any]


def wrong_windows_options(options: Part, field: str) -> Iterator[FieldError]:
    name, spec, user = (options.get(name) for name in ("gmsaCredentialSpecName", "gmsaCredentialSpec", "runAsUserName"))
    if name is not None:
        yield from (invalid(f"{field}.gmsaCredentialSpecName", name, text) for text in dns_subdomain(name))
    if spec == "":
        yield invalid(f"{field}.gmsaCredentialSpec", spec, "gmsaCredentialSpec cannot be an empty string")
    elif spec is not None and len(spec.encode()) > _LONGEST_SPEC_KIB * 1024:
        detail = f"gmsaCredentialSpec size must be under {_LONGEST_SPEC_KIB} KiB"
        yield invalid(f"{field}.gmsaCredentialSpec", spec, detail)
    if user is not None:
        yield from (invalid(f"{field}.runAsUserName", user, f"runAsUserName{text}") for text in _user_problems(user))


def _user_problems(name: str) -> Iterator[str]:
    domain, slash, user = name.rpartition("\\")
    if not name:
        yield " cannot be an empty string"
    elif _control.search(name):
        yield " cannot contain control characters"
    elif "\\" in domain:
        yield " cannot contain more than one backslash"
    else:
        if len(domain) >= _LONGEST_DOMAIN:
            yield f"'s Domain length must be under {_LONGEST_DOMAIN} characters"
        if slash and not (_netbios.fullmatch(domain) or _domain.fullmatch(domain)):
            yield "'s Domain doesn't match the NetBios nor the DNS format"
        if not user:
            yield "'s User cannot be empty"
        elif len(user) > _LONGEST_USER:
            yield f"'s User length must not be longer than {_LONGEST_USER} characters"
        if _dots.fullmatch(user):
            yield "'s User cannot contain only periods or spaces"
        if _odd.search(user):
            yield "'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"


def wrong_on_windows(spec: Part, field: str) -> Iterator[FieldError]:
    context = spec.get("securityContext") or {}
    for name in _NOT_OF_PODS:
        if context.get(name) is not None and (name != "sysctls" or context[name]):
            yield forbidden(f"{field}.securityContext.{name}", _NOT)
    for name in ("hostUsers", "shareProcessNamespace"):
        if spec.get(name) is not None:
            yield forbidden(f"{field}.{name}", _NOT)
    for name in ("hostPID", "hostIPC"):
        if spec.get(name):
            yield forbidden(f"{field}.{name}", _NOT)
    for part, i, container in _containers(spec):
        own = container.get("securityContext") or {}
        for name in _NOT_OF_CONTAINERS:
            if own.get(name) is not None:
                yield forbidden(f"{field}.{part}[{i}].securityContext.{name}", _NOT)


def wrong_on_linux(spec: Part, field: str) -> Iterator[FieldError]:
    """Yield errors for Windows options in a pod whose spec.os is linux."""
    if (spec.get("os") or {}).get("name") != "linux":
        return
    detail = "windows options cannot be set for a linux pod"
    if (spec.get("securityContext") or {}).get("windowsOptions") is not None:
        yield forbidden(f"{field}.securityContext.windowsOptions", detail)
    for part, i, container in _containers(spec):
        if (container.get("securityContext") or {}).get("windowsOptions") is not None:
            yield forbidden(f"{field}.{part}[{i}].securityContext.windowsOptions", detail)


def wrong_host_processes(spec: Part, field: str) -> Iterator[FieldError]:
    """Validate HostProcess containers: either all containers of a pod have hostProcess=true, or none."""
    of_pod, processes, count = _host_process(spec), 0, 0
    for part, i, container in _containers(spec):
        count += 1
        own = _host_process(container)
        if own is not None and of_pod is not None and own != of_pod:
            was = str(of_pod).lower()
            detail = f"pod hostProcess value must be identical if both are specified, was {was}"
            yield invalid(f"{field}.{part}[{i}].securityContext.windowsOptions.hostProcess", own, detail)
        if own or (own is None and of_pod):
            processes += 1
    if processes and processes != count:
        detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        yield invalid(field, "", detail)
    if processes and not spec.get("hostNetwork"):
        detail = "hostNetwork must be true if pod contains any hostProcess containers"
        yield invalid(f"{field}.hostNetwork", False, detail)


def _host_process(part: Part) -> bool | None:
    context = part.get("securityContext")
    if not context or "windowsOptions" not in context:
        return None
    value: bool | None = context["windowsOptions"].get("hostProcess")
    return value


def _containers(spec: Part) -> Iterator[tuple[str, int, Part]]:
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for i, container in enumerate(spec.get(part) or ()):
            yield part, i, container
