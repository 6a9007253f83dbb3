"""Checks of the baseline level of the Pod Security Standards, by upstream's identifiers.

Source: pod-security-admission policy/check_*.go (v1.36).
"""

from __future__ import annotations

import orjson

from kcm.runtime.apiserver.admission.pod_security.check_support import (
    Check,
    Finding,
    Part,
    Pod,
    listed,
    named,
    plural,
    violating_containers,
    violating_parts,
)

_CAPABILITIES = {
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
}
_TYPES = {"", "container_t", "container_init_t", "container_kvm_t"}
# Allowed sysctls, by the minor version that first allows them.
_SYSCTLS = {
    0: (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_syncookies",
    ),
    27: ("net.ipv4.ip_local_reserved_ports",),
    29: (
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
    ),
    32: ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
}
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_POD, _SECCOMP = "seccomp.security.alpha.kubernetes.io/pod", "container.seccomp.security.alpha.kubernetes.io/"
PROFILES = ("Localhost", "RuntimeDefault")


def _app_armor(pod: Pod) -> Finding | None:
    values: set[str] = set()

    def violates(context: Part) -> bool:
        profile = context.get("appArmorProfile")
        if profile is None or profile.get("type") in PROFILES:
            return False
        values.add(profile.get("type") or "")
        return True

    found = violating_parts(pod, violates)
    annotations = sorted(
        f"{key}={_text(value)}"
        for key, value in pod.annotations.items()
        if key.startswith(_APP_ARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    )
    if annotations:
        found.append(plural("annotation", annotations))
    if not found:
        return None
    wrong = [*sorted(values), *annotations]
    detail = f"{' and '.join(found)} must not set AppArmor profile type to {listed(wrong)}"
    return Finding(plural("forbidden AppArmor profile", wrong), detail)


def _capabilities(pod: Pod) -> Finding | None:
    added: set[str] = set()

    def violates(context: Part) -> bool:
        more = set((context.get("capabilities") or {}).get("add") or ()) - _CAPABILITIES
        added.update(more)
        return bool(more)

    bad = violating_containers(pod, violates)
    if not bad:
        return None
    wrong = listed(sorted(added))
    detail = f"{named('container', bad)} must not include {wrong} in securityContext.capabilities.add"
    return Finding("non-default capabilities", detail)


def _host_namespaces(pod: Pod) -> Finding | None:
    used = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(field)]
    return Finding("host namespaces", ", ".join(used)) if used else None


def _host_path_volumes(pod: Pod) -> Finding | None:
    volumes = [volume["name"] for volume in pod.spec.get("volumes") or () if volume.get("hostPath") is not None]
    return Finding("hostPath volumes", named("volume", volumes)) if volumes else None


def _host_ports(pod: Pod) -> Finding | None:
    ports: set[str] = set()
    bad = []
    for container in pod.containers():
        used = {str(port["hostPort"]) for port in container.get("ports") or () if port.get("hostPort")}
        if used:
            bad.append(container["name"])
            ports |= used
    if not bad:
        return None
    use = "uses" if len(bad) == 1 else "use"
    return Finding(
        "hostPort", f"{named('container', bad)} {use} {plural('hostPort', ports)} {', '.join(sorted(ports))}"
    )


def _host_probes(pod: Pod) -> Finding | None:
    if pod.minor < 34:
        return None
    hosts: set[str] = set()
    bad: set[str] = set()
    for container in pod.containers():
        lifecycle = container.get("lifecycle") or {}
        handlers = [container.get(field) for field in ("livenessProbe", "readinessProbe", "startupProbe")]
        handlers += [lifecycle.get(field) for field in ("postStart", "preStop")]
        asked = [(handler or {}).get(way) or {} for handler in handlers for way in ("httpGet", "tcpSocket")]
        used: set[str] = {action["host"] for action in asked if action.get("host")}
        if used:
            bad.add(container["name"])
            hosts |= used
    if not bad:
        return None
    use = "uses" if len(bad) == 1 else "use"
    what = "probe or lifecycle host"
    return Finding(what, f"{named('container', sorted(bad))} {use} {named(what, sorted(hosts))}")


def _privileged(pod: Pod) -> Finding | None:
    bad = violating_containers(pod, lambda context: context.get("privileged") is True)
    if not bad:
        return None
    return Finding("privileged", f"{named('container', bad)} must not set securityContext.privileged=true")


def proc_mount(pod: Pod) -> Finding | None:
    wrong: set[str] = set()

    def violates(context: Part) -> bool:
        way = context.get("procMount")
        if way in (None, "Default"):
            return False
        wrong.add(way or "")
        return True

    bad = violating_containers(pod, violates)
    if not bad:
        return None
    detail = f"{named('container', bad)} must not set securityContext.procMount to {listed(sorted(wrong))}"
    return Finding("procMount", detail)


def _proc_mount_baseline(pod: Pod) -> Finding | None:
    return None if pod.minor >= 35 and pod.has_own_users else proc_mount(pod)


def _se_linux_options(pod: Pod) -> Finding | None:
    allowed = _TYPES | {"container_engine_t"} if pod.minor >= 31 else _TYPES
    types: set[str] = set()
    others: set[str] = set()

    def violates(context: Part) -> bool:
        options = context.get("seLinuxOptions") or {}
        type_ = options.get("type") or ""
        set_ = {field for field in ("user", "role") if options.get(field)}
        others.update(set_)
        if type_ not in allowed:
            types.add(type_)
        return bool(set_) or type_ not in allowed

    found = violating_parts(pod, violates)
    if not found:
        return None
    wrong = [named("type", sorted(types))] if types else []
    wrong += [f"{field} may not be set" for field in ("user", "role") if field in others]
    detail = f"{' and '.join(found)} set forbidden securityContext.seLinuxOptions: {'; '.join(wrong)}"
    return Finding("seLinuxOptions", detail)


def _seccomp_profile(pod: Pod) -> Finding | None:
    if pod.minor < 19:
        return _seccomp_annotations(pod)
    wrong: set[str] = set()
    found = violating_parts(pod, lambda context: has_wrong_profile(context, wrong))
    return forbidden_profile(found, wrong) if found else None


def has_wrong_profile(context: Part, wrong: set[str]) -> bool:
    """Report whether a security context has a forbidden seccomp profile, and add the profile's type to `wrong`."""
    profile = context.get("seccompProfile")
    if profile is None or profile.get("type") in PROFILES:
        return False
    wrong.add(profile.get("type") or "")
    return True


def forbidden_profile(found: list[str], wrong: set[str]) -> Finding:
    values = listed(sorted(wrong))
    detail = f"{' and '.join(found)} must not set securityContext.seccompProfile.type to {values}"
    return Finding("seccompProfile", detail)


def _seccomp_annotations(pod: Pod) -> Finding | None:
    keys = [_SECCOMP_POD, *(f"{_SECCOMP}{container['name']}" for container in pod.containers())]
    given = {key: pod.annotations[key] for key in keys if key in pod.annotations}
    wrong = sorted(
        f"{key}={_text(value)}"
        for key, value in given.items()
        if value not in ("runtime/default", "docker/default") and not value.startswith("localhost/")
    )
    if not wrong:
        return None
    return Finding("seccompProfile", f"forbidden {plural('annotation', wrong)} {', '.join(wrong)}")


def _sysctls(pod: Pod) -> Finding | None:
    allowed = {name for since, names in _SYSCTLS.items() if since <= pod.minor for name in names}
    used = [sysctl["name"] for sysctl in pod.context.get("sysctls") or () if sysctl["name"] not in allowed]
    return Finding("forbidden sysctls", ", ".join(used)) if used else None


def _windows_host_process(pod: Pod) -> Finding | None:
    found = violating_parts(pod, lambda context: (context.get("windowsOptions") or {}).get("hostProcess") is True)
    if not found:
        return None
    detail = f"{' and '.join(found)} must not set securityContext.windowsOptions.hostProcess=true"
    return Finding("hostProcess", detail)


def _text(value: str) -> str:
    return orjson.dumps(value).decode()


CHECKS: dict[str, Check] = {
    "appArmorProfile": _app_armor,
    "capabilities_baseline": _capabilities,
    "hostNamespaces": _host_namespaces,
    "hostPathVolumes": _host_path_volumes,
    "hostPorts": _host_ports,
    "hostProbesAndHostLifecycle": _host_probes,
    "privileged": _privileged,
    "procMount": _proc_mount_baseline,
    "seLinuxOptions": _se_linux_options,
    "seccompProfile_baseline": _seccomp_profile,
    "sysctls": _sysctls,
    "windowsHostProcess": _windows_host_process,
}
