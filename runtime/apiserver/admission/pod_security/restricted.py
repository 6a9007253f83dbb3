"""Checks of the restricted level of the Pod Security Standards, by upstream's identifiers.

Source: pod-security-admission policy/check_*.go (v1.36).
"""

from __future__ import annotations

from typing import NamedTuple

from kcm.runtime.apiserver.admission.pod_security.baseline import forbidden_profile, has_wrong_profile, proc_mount
from kcm.runtime.apiserver.admission.pod_security.check_support import (
    Check,
    Finding,
    Pod,
    context_of,
    listed,
    named,
    plural,
    violating_containers,
    violating_parts,
)

_VOLUMES = (
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
)


class Restriction(NamedTuple):
    """Check of the restricted level, with its first version, and the baseline check that it replaces."""

    check: Check
    since: int = 0  # first Kubernetes minor version whose rules contain the check
    instead: str = ""  # identifier of the baseline check that it replaces


def _allow_privilege_escalation(pod: Pod) -> Finding | None:
    if pod.minor >= 25 and pod.is_windows:
        return None
    bad = violating_containers(pod, lambda context: context.get("allowPrivilegeEscalation") is not False)
    if not bad:
        return None
    detail = f"{named('container', bad)} must set securityContext.allowPrivilegeEscalation=false"
    return Finding("allowPrivilegeEscalation != false", detail)


def _capabilities(pod: Pod) -> Finding | None:
    if pod.minor >= 25 and pod.is_windows:
        return None
    keeps, adds, added = [], [], set[str]()
    for container in pod.containers():
        given = context_of(container).get("capabilities") or {}
        if "ALL" not in (given.get("drop") or ()):
            keeps.append(container["name"])
        more = set(given.get("add") or ()) - {"NET_BIND_SERVICE"}
        if more:
            adds.append(container["name"])
            added |= more
    details = []
    if keeps:
        details.append(f'{named("container", keeps)} must set securityContext.capabilities.drop=["ALL"]')
    if adds:
        wrong = listed(sorted(added))
        details.append(f"{named('container', adds)} must not include {wrong} in securityContext.capabilities.add")
    return Finding("unrestricted capabilities", "; ".join(details)) if details else None


def _volumes(pod: Pod) -> Finding | None:
    bad = {
        volume["name"]: next((field for field in volume if field != "name"), "unknown")
        for volume in pod.spec.get("volumes") or ()
        if not any(volume.get(kind) is not None for kind in _VOLUMES)
    }
    if not bad:
        return None
    use, kinds = "uses" if len(bad) == 1 else "use", sorted(set(bad.values()))
    what = plural("restricted volume type", kinds)
    return Finding("restricted volume types", f"{named('volume', bad)} {use} {what} {listed(kinds)}")


def _run_as_non_root(pod: Pod) -> Finding | None:
    if pod.minor >= 35 and pod.has_own_users:
        return None
    reason = "runAsNonRoot != true"
    found = violating_parts(pod, lambda context: context.get("runAsNonRoot") is False)
    if found:
        return Finding(reason, f"{' and '.join(found)} must not set securityContext.runAsNonRoot=false")
    if pod.context.get("runAsNonRoot"):
        return None
    silent = violating_containers(pod, lambda context: context.get("runAsNonRoot") is None)
    if not silent:
        return None
    return Finding(reason, f"pod or {named('container', silent)} must set securityContext.runAsNonRoot=true")


def _run_as_user(pod: Pod) -> Finding | None:
    if pod.minor >= 35 and pod.has_own_users:
        return None
    found = violating_parts(pod, lambda context: context.get("runAsUser") == 0)
    return Finding("runAsUser=0", f"{' and '.join(found)} must not set runAsUser=0") if found else None


def _seccomp_profile(pod: Pod) -> Finding | None:
    if pod.minor >= 25 and pod.is_windows:
        return None
    wrong: set[str] = set()
    found = violating_parts(pod, lambda context: has_wrong_profile(context, wrong))
    if found:
        return forbidden_profile(found, wrong)
    if pod.context.get("seccompProfile") is not None:
        return None
    silent = violating_containers(pod, lambda context: context.get("seccompProfile") is None)
    if not silent:
        return None
    detail = (
        f'pod or {named("container", silent)} must set securityContext.seccompProfile.type to "RuntimeDefault" or '
        '"Localhost"'
    )
    return Finding("seccompProfile", detail)


RESTRICTIONS: dict[str, Restriction] = {
    "allowPrivilegeEscalation": Restriction(_allow_privilege_escalation, 8),
    "capabilities_restricted": Restriction(_capabilities, 22, "capabilities_baseline"),
    "procMount_restricted": Restriction(proc_mount, 35, "procMount"),
    "restrictedVolumes": Restriction(_volumes, 0, "hostPathVolumes"),
    "runAsNonRoot": Restriction(_run_as_non_root),
    "runAsUser": Restriction(_run_as_user, 23),
    "seccompProfile_restricted": Restriction(_seccomp_profile, 19, "seccompProfile_baseline"),
}
