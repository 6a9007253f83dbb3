"""Defaults of pod specs, for pods and pod templates.

Source: kubernetes pkg/apis/core/v1/{defaults,zz_generated.defaults}.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kcm.protocols.objects import Object

CONTAINER_LISTS = ("containers", "initContainers", "ephemeralContainers")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_FILE_MODE = 0o644
_SOURCE_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
}
# Sources of projected volumes whose feature gates are off.
_GATED_PROJECTIONS = ("clusterTrustBundle", "podCertificate")
_SOURCES_WITH_MODE = ("secret", "configMap", "downwardAPI", "projected")


def default_pod_template(template: Object) -> None:
    """Set the defaults of a workload's pod template. Missing metadata become {}, as upstream always encodes them."""
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))


def default_pod_spec(spec: Object) -> None:
    for container in _containers(spec):
        _default_container(container)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    spec.pop("schedulingGroup", None)  # behind a feature gate that is off
    _set_if_empty(spec, "restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    _set_if_empty(spec, "dnsPolicy", "ClusterFirst")
    # serviceAccount is the deprecated name of serviceAccountName; both are always set.
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    spec.setdefault("securityContext", {})
    _set_if_empty(spec, "schedulerName", "default-scheduler")


def pull_policy(image: str) -> str:
    """Return the default imagePullPolicy: Always for :latest, explicit or implied, otherwise IfNotPresent."""
    if not image.strip():
        return "IfNotPresent"
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if tag == "latest" or not (tag or digest) else "IfNotPresent"


def _containers(spec: Object) -> Iterator[Object]:
    for part in CONTAINER_LISTS:
        yield from spec.get(part) or ()


def _set_if_empty(obj: Object, field: str, value: Any) -> None:
    if not obj.get(field):
        obj[field] = value


def _default_container(container: Object) -> None:
    for port in container.get("ports") or ():
        _set_if_empty(port, "protocol", "TCP")
    for variable in container.get("env") or ():
        source = variable.get("valueFrom")
        if source and source.get("fieldRef"):
            _set_if_empty(source["fieldRef"], "apiVersion", "v1")
        if source and source.get("fileKeyRef"):
            source["fileKeyRef"].setdefault("optional", False)
        if source and source.get("resourceFieldRef"):
            _set_if_empty(source["resourceFieldRef"], "divisor", "0")
    container.setdefault("resources", {})
    for name in _PROBES:
        if container.get(name) is not None:
            _default_probe(container[name])
    if "lifecycle" in container:
        _default_lifecycle(container)
    _set_if_empty(container, "terminationMessagePath", "/dev/termination-log")
    _set_if_empty(container, "terminationMessagePolicy", "File")
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(container.get("image") or "")


def _default_lifecycle(container: Object) -> None:
    """Set the defaults of lifecycle hooks, and remove stopSignal, as its feature gate (ContainerStopSignals) is off."""
    hooks = container["lifecycle"]
    if hooks.pop("stopSignal", None) is not None and not hooks:
        del container["lifecycle"]
    for hook in hooks.values():
        if hook.get("httpGet"):
            _default_http_get(hook["httpGet"])


def _default_probe(probe: Object) -> None:
    if probe.get("httpGet"):
        _default_http_get(probe["httpGet"])
    if probe.get("grpc"):
        probe["grpc"].setdefault("service", "")
    for field, value in _PROBE.items():
        _set_if_empty(probe, field, value)


def _default_http_get(action: Object) -> None:
    _set_if_empty(action, "path", "/")
    _set_if_empty(action, "scheme", "HTTP")


def _default_volume(volume: Object) -> None:
    if not volume.keys() - {"name"}:
        volume["emptyDir"] = {}
        return
    for kind in _SOURCES_WITH_MODE:
        if kind in volume:
            volume[kind].setdefault("defaultMode", _FILE_MODE)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    for item in (volume.get("downwardAPI") or {}).get("items") or ():
        _default_downward_file(item)
    for source in (volume.get("projected") or {}).get("sources") or ():
        for name in _GATED_PROJECTIONS:
            source.pop(name, None)
        if source.get("serviceAccountToken"):
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
        for item in (source.get("downwardAPI") or {}).get("items") or ():
            _default_downward_file(item)
    claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if claim is not None:
        claim.setdefault("metadata", {})
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    for kind in volume.keys() & _SOURCE_DEFAULTS.keys():
        for name, value in _SOURCE_DEFAULTS[kind].items():
            _set_if_empty(volume[kind], name, value)
    if "image" in volume and not volume["image"].get("pullPolicy"):
        volume["image"]["pullPolicy"] = pull_policy(volume["image"].get("reference") or "")


def _default_downward_file(item: Object) -> None:
    if item.get("fieldRef"):
        _set_if_empty(item["fieldRef"], "apiVersion", "v1")
    if item.get("resourceFieldRef"):
        _set_if_empty(item["resourceFieldRef"], "divisor", "0")
