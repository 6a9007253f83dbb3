"""Namespaces, services, secrets, volumes, nodes and other kinds with few defaults.

Source: kubernetes pkg/apis/{core,storage,scheduling,networking,discovery,apiextensions}/v1/defaults.go (v1.36).
"""

from __future__ import annotations

import base64

from protocols.objects import Object

KUBERNETES_FINALIZER = "kubernetes"
NAME_LABEL = "kubernetes.io/metadata.name"


def default_namespace(namespace: Object) -> None:
    meta = namespace["metadata"]
    meta.setdefault("labels", {})[NAME_LABEL] = meta.get("name", "")
    namespace.setdefault("spec", {})


def prepare_namespace(namespace: Object) -> None:
    """Who empties a namespace takes its finalizer away."""
    finalizers = namespace["spec"].setdefault("finalizers", [])
    if KUBERNETES_FINALIZER not in finalizers:
        finalizers.append(KUBERNETES_FINALIZER)
    namespace["status"] = {"phase": "Active"}


def default_node(node: Object) -> None:
    """podCIDR is the first of podCIDRs; where they differ it wins."""
    spec = node.setdefault("spec", {})
    if spec.get("podCIDR"):
        if (spec.get("podCIDRs") or [""])[0] != spec["podCIDR"]:
            spec["podCIDRs"] = [spec["podCIDR"]]
    elif spec.get("podCIDRs"):
        spec["podCIDR"] = spec["podCIDRs"][0]
    status = node.setdefault("status", {})
    if "capacity" in status and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])


def default_service(service: Object) -> None:
    spec = service.setdefault("spec", {})
    for field, value in (("sessionAffinity", "None"), ("type", "ClusterIP")):
        if not spec.get(field):
            spec[field] = value
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {}).setdefault("timeoutSeconds", 10800)
    for port in spec.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port", 0)
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def default_endpoints(endpoints: Object) -> None:
    for subset in endpoints.get("subsets") or ():
        for port in subset.get("ports") or ():
            if not port.get("protocol"):
                port["protocol"] = "TCP"


def default_endpoint_slice(slice_: Object) -> None:
    for port in slice_.get("ports") or ():
        port.setdefault("name", "")
        if not port.get("protocol"):
            port["protocol"] = "TCP"


def default_event(event: Object) -> None:
    for field in ("reportingComponent", "reportingInstance"):
        event.setdefault(field, "")


def default_secret(secret: Object) -> None:
    """stringData is written, never read: it becomes part of data."""
    if not secret.get("type"):
        secret["type"] = "Opaque"
    texts = secret.pop("stringData", None)
    if texts:
        data = secret.setdefault("data", {})
        for key, text in texts.items():
            data[key] = base64.b64encode(text.encode()).decode()


def default_persistent_volume(volume: Object) -> None:
    spec = volume.setdefault("spec", {})
    if not spec.get("persistentVolumeReclaimPolicy"):
        spec["persistentVolumeReclaimPolicy"] = "Retain"
    spec.setdefault("volumeMode", "Filesystem")


def default_claim(claim: Object) -> None:
    claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def prepare_volume(volume: Object) -> None:
    """A volume or a claim; its controllers say more."""
    volume["status"] = {"phase": "Pending"}


def default_storage_class(storage_class: Object) -> None:
    storage_class.setdefault("reclaimPolicy", "Delete")
    storage_class.setdefault("volumeBindingMode", "Immediate")


def default_priority_class(priority_class: Object) -> None:
    priority_class.setdefault("preemptionPolicy", "PreemptLowerPriority")


def default_limit_range(limits: Object) -> None:
    for item in (limits.get("spec") or {}).get("limits") or ():
        if item.get("type") != "Container":
            continue
        item["default"] = {**(item.get("max") or {}), **(item.get("default") or {})}
        item["defaultRequest"] = {
            **(item.get("min") or {}),
            **item["default"],
            **(item.get("defaultRequest") or {}),
        }


def default_custom_resource_definition(definition: Object) -> None:
    """Names that follow from the kind are in spec from the start; status gets what was accepted."""
    spec = definition.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    if kind and not names.get("singular"):
        names["singular"] = kind.lower()
    if kind and not names.get("listKind"):
        names["listKind"] = f"{kind}List"
    spec.setdefault("conversion", {}).setdefault("strategy", "None")
